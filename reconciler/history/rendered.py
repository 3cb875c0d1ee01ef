"""Renders a commit's submission tree again, and compares it with the tree in the commit, if there is one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from msgspec import Struct

from reconciler.check.engine import load_verifier
from reconciler.diff.claims import Claim, Proof
from reconciler.diff.difference import list_published_cells
from reconciler.errors import ReconcilerError
from reconciler.history.logs import Logs
from reconciler.history.snapshot import Snapshot
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.programs import find_program
from reconciler.resource.rules import Severity
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.files import compute_blob_id
from reconciler.storage import git
from reconciler.storage.files import hash_bytes
from reconciler.tree.assemble import Assembly
from reconciler.tree.content import Content, LogRef, hash_content
from reconciler.tree.layout import name_folders
from reconciler.tree.reading.files import use_in_memory_tree
from reconciler.tree.render import render
from reconciler.tree.source import is_left_out, refuse_unpublishable

# Compares published files of a commit: the rendered tree, checked by the rules for any tree.
#
# A record and its log may be forged consistently; a summary, a user.conf or another run's log reveals it.


def find_contradictions(
    files: Mapping[str, Content], logs: Logs, round_name: str, cells: Mapping[str, str]
) -> Iterator[Claim]:
    """Yield one claim per contradiction. Logs that are missing from the commit or changed are left out, since their own
    claims report that. ``cells``: cell as named by its folders -> its name."""
    if (verifier := load_verifier()) is None:
        return
    with use_in_memory_tree(dict(_list_contents(files, logs))) as root:
        report = verifier.verify_tree(root, round_name=round_name)
    for finding in report.findings:
        if finding.severity is Severity.ERROR:
            where, complaint = cells.get(finding.cell, WHERE), finding.complaint
            other = f" ({complaint.other})" if complaint.other else ""
            detail = f"{complaint.place}: {complaint.found}; wanted: {complaint.wanted}{other}"
            yield Claim(where, f"published files: {finding.rule.id}", Proof.CONTRADICTED, detail)


def _list_contents(files: Mapping[str, Content], logs: Logs) -> Iterator[tuple[str, Callable[[], bytes]]]:
    logs.check(content.sha256 for content in files.values() if isinstance(content, LogRef))
    for path, content in files.items():
        if not isinstance(content, LogRef):
            yield path, partial(bytes, content)
        elif logs.checked[content.sha256] is Proof.PROVEN:
            yield path, partial(logs.read_proven, content.sha256)


# Code and documents that a commit's tree shows. They are read only from the commit, because a path elsewhere in its
# spec names a file of the reader, who may not be the spec's author.


class CommitSources(Struct, frozen=True):
    """The ``Sources`` of a commit."""

    root: Path
    commit: str

    def list_files(self, paths: Sequence[str]) -> dict[str, bytes]:
        places: dict[str, tuple[str, str]] = {}  # name below src/<benchmark> → path, blob
        for path in map(_normalise, paths):
            found = self._list_blobs(path)
            if not found:
                raise _make_missing_error(path)
            alone = path in found
            prefix = f"{os.path.basename(path)}/" if not alone and len(paths) > 1 else ""  # noqa: PTH119
            for file, (blob, size) in sorted(found.items()):
                name = os.path.basename(file) if alone else file.removeprefix(f"{path}/")  # noqa: PTH119
                if not alone and any(map(is_left_out, name.split("/"))):
                    continue
                if prefix + name in places:
                    raise ReconcilerError(f"two published files would be {prefix}{name}", fix="rename one of them")
                refuse_unpublishable(file, prefix + name, size)
                places[prefix + name] = file, blob
        contents = git.read_blobs(self.root, [blob for _, blob in places.values()])
        return {name: self._require_content(path, contents.get(blob)) for name, (path, blob) in places.items()}

    def read_document(self, path: str, what: str) -> bytes:
        place = _normalise(path)
        blob, size = self._list_blobs(place).get(place, ("", 0))
        if not blob:
            raise _make_missing_error(f"{what}: {path}")
        refuse_unpublishable(path, os.path.basename(place), size)  # noqa: PTH119
        return self._require_content(path, git.read_blobs(self.root, [blob]).get(blob))

    def _list_blobs(self, path: str) -> dict[str, tuple[str, int]]:
        """Return path → blob and size of a file, or of all files below a folder."""
        return git.list_files_at(self.root, self.commit, [] if path == "." else [path])

    def _require_content(self, path: str, found: bytes | None) -> bytes:
        if found is None:
            raise _make_missing_error(path)
        return found


def _normalise(path: str) -> str:
    """Raise ReconcilerError for a path that leads out of the repository."""
    place = os.path.normpath(path)
    if place.startswith(("/", "..")):
        raise _make_missing_error(path)
    return place


def _make_missing_error(path: str) -> ReconcilerError:
    return ReconcilerError(f"{path} is not in this commit", fix="keep published files in the repository")


WHERE, WHAT = "submission", "rendered tree"


def verify_tree_files(root: Path, at: Snapshot, logs: Logs) -> Iterator[Claim]:
    """Verify the tree's files. Its logs are entered by digest, which is proven or contradicted separately."""
    submission = at.desired.submission
    if not list_published_cells(at.difference.chosen):
        yield Claim(WHERE, WHAT, Proof.MISSING, "no cell is complete")
        return
    try:
        files = render_commit(root, at, logs)
    except (ReconcilerError, KeyError, OSError) as error:
        yield Claim(WHERE, WHAT, Proof.MISSING, f"cannot be rendered from this commit: {error}")
        return
    if not find_program(submission.round):  # a point's files were compared with each other when its record was checked
        yield from find_contradictions(files, logs, submission.round, _name_cells(at))
    listed = "".join(f"{path}\0{hash_content(content)}\n" for path, content in sorted(files.items()))
    whole = f"{len(files)} files, together SHA-256 {hash_bytes(listed.encode())[:16]}"
    committed = find_committed_tree(root, at.commit, submission.tree)
    if not committed:
        yield Claim(WHERE, WHAT, Proof.PROVEN, f"{whole}, from the records and logs; this commit has none to compare")
        return
    wrong = list(find_unlike_files(root, files, committed, logs))
    for path, proof, why in wrong:
        yield Claim(WHERE, f"{WHAT}: {path}", proof, why)
    yield Claim(WHERE, WHAT, Proof.PROVEN, f"{whole}; {len(files) - len(wrong)} of them in this commit byte for byte")


def _name_cells(at: Snapshot) -> dict[str, str]:
    """Return each cell as named by its folders -> its name."""
    ruleset = load_ruleset(at.desired.submission.round)
    named = {}
    for cell in at.difference.chosen:
        settings = at.desired.detail(Address(Kind.RESULT, str(cell))).settings
        official = settings.official or cell.benchmark
        named[str(name_folders(cell, official, ruleset))] = str(cell)
    return named


def render_commit(root: Path, at: Snapshot, logs: Logs) -> dict[str, Content]:
    """Return path → content for every file of the tree. Raises ReconcilerError, KeyError or OSError if the commit does
    not have all of them."""
    names = list_published_cells(at.difference.chosen)
    chosen = {cell: records for cell, records in at.difference.chosen.items() if str(cell) in names}

    def read(ref: LogRef) -> bytes:
        return logs.read_proven(ref.sha256)

    sources = CommitSources(root, at.commit)
    assembly = Assembly(at.desired, chosen, at.records.__getitem__, read, sources, at.difference.accepted)
    return dict(render(assembly.assemble(), load_ruleset(at.desired.submission.round)))


def find_committed_tree(root: Path, commit: str, tree: str) -> dict[str, str]:
    """Return {path below the tree: blob} of the tree in the commit itself; empty for a tree elsewhere."""
    folder = PurePosixPath(tree)
    if not tree or folder.is_absolute() or ".." in folder.parts:
        return {}
    files = git.list_files_at(root, commit, [str(folder)])
    return {PurePosixPath(path).relative_to(folder).as_posix(): blob for path, (blob, _) in files.items()}


def find_unlike_files(
    root: Path, files: Mapping[str, Content], committed: Mapping[str, str], logs: Logs
) -> Iterator[tuple[str, Proof, str]]:
    """Yield (path, proof, why) of each file that is missing, different, or was not rendered."""
    yield from ((path, Proof.MISSING, "it is not in this commit") for path in files if path not in committed)
    doubtful = {p: committed[p] for p, c in files.items() if p in committed and committed[p] != _get_blob_id(c, logs)}
    contents = git.read_blobs(root, doubtful.values())
    for path, blob in doubtful.items():
        found = hash_bytes(contents[blob]) if blob in contents else ""
        if found != hash_content(files[path]):
            yield path, Proof.CONTRADICTED, f"SHA-256 {found[:16]}, rendered again {hash_content(files[path])[:16]}"
    yield from ((path, Proof.CONTRADICTED, "not rendered from this commit") for path in committed if path not in files)


def _get_blob_id(content: Content, logs: Logs) -> str:
    """Return git's blob id, which identifies most files without reading them."""
    return logs.blobs.get(content.sha256, "") if isinstance(content, LogRef) else compute_blob_id(content)
