"""Assembles a package's content and all reasons against packing it: the submission at a commit, fully checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from reconciler.check.engine import check_tree
from reconciler.diff.amendment import SubmissionState, find_unamended
from reconciler.errors import ReconcilerError
from reconciler.history.snapshot import read_snapshot
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.publish.archive import MANIFEST, Packed, compute_digests, encode_manifest, pack
from reconciler.publish.encryption import ENDINGS, encrypt
from reconciler.publish.preconditions import (
    Refusal,
    find_refused_acceptances,
    find_refused_cells,
    find_refused_code,
    find_refused_inferences,
    find_refused_records,
    find_refused_remotes,
)
from reconciler.publish.rendered_tree import assemble_content, find_log, select_publishable
from reconciler.publish.tree_files import write_tree
from reconciler.reconcile.planning import PlanResult, list_cells
from reconciler.reconcile.worker import TOOL
from reconciler.record.index import load_record
from reconciler.resource.codec import make_versioned
from reconciler.resource.decisions import FORMAT
from reconciler.resource.kinds import Cell
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.records import Record
from reconciler.resource.rules import Severity
from reconciler.resource.settings import SubmissionSettings
from reconciler.rules.programs import load_program
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.files import compute_blob_id
from reconciler.storage import git
from reconciler.storage.files import remove, replace
from reconciler.storage.leftovers import open_temporary, sweep_siblings
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.tree.content import Content, LogRef, SubmissionContent
from reconciler.tree.render import render
from reconciler.tree.source import is_left_out


class PackedSubmission(Struct, frozen=True):
    """Everything that is packed, with its sources."""

    seen: PlanResult
    content: SubmissionContent
    ruleset: Ruleset
    files: tuple[tuple[str, Content], ...]
    commit: str

    def find_stored(self, ref: LogRef) -> Path:
        return find_log(self.seen.paths, ref)


def load_packed_submission(seen: PlanResult) -> PackedSubmission:
    """Load the submission at HEAD. Raises ReconcilerError if there is no commit."""
    commit = git.find_head(seen.paths.root)
    if commit is None:
        raise ReconcilerError("no commit to pack", fix="commit specs/ and state/")
    content, ruleset = assemble_content(seen.paths, seen.desired, seen.difference)
    return PackedSubmission(seen, content, ruleset, tuple(render(content, ruleset)), commit)


def find_refusals(submission: PackedSubmission, *, despite_embargo: bool, accepted: bool = False) -> list[Refusal]:
    """Return every reason against packing, without the embargo and ``accepted`` results if the user overrides them."""
    seen = submission.seen
    is_committed = _make_commit_check(submission)
    settings = seen.desired.submission

    @cache
    def is_known_spec(path: str, blob: str) -> bool:
        return bool(git.find_blob_commits(seen.paths.root, path, blob))

    found = [
        Refusal(path, "the spec is not committed", "commit it") for path in sorted(seen.spec) if not is_committed(path)
    ]
    found += find_refused_cells(list_cells(seen), seen.difference.findings)
    found += find_refused_records(_load_chosen_records(seen), is_committed, is_known_spec)
    found += find_refused_acceptances(seen.difference.acceptances, is_committed, wanted=accepted)
    found += find_refused_code(submission.content)
    found += _find_uncommitted(seen, settings, is_committed)
    found += find_refused_inferences(submission.content, submission.ruleset, _make_log_reader(submission))
    if not despite_embargo:
        found += find_refused_remotes(settings, git.list_remotes(seen.paths.root), datetime.now(UTC).date())
    if not submission.content.cells:
        found.append(Refusal("the submission", "no cell can be published", "see: reconcile status"))
    else:
        found += _list_broken_rules(submission)
    return list(dict.fromkeys(found))


def find_unamended_cells(submission: PackedSubmission, base: str) -> list[Refusal]:
    """Find submitted results that changed without an amendment. ``base``: the commit that was submitted before."""
    seen = submission.seen
    before = read_snapshot(seen.paths.root, base)
    amendments, is_committed = seen.decisions.amendments, _make_commit_check(submission)
    found = find_unamended(
        SubmissionState(before.desired, before.difference), SubmissionState(seen.desired, seen.difference), amendments
    )
    fix = f"reconcile amend CELL --since {base[:12]} --objection … --reason …"
    refused = [Refusal(str(cell), why, fix.replace("CELL", str(cell))) for cell, why in found.items()]
    loose = [path for path in sorted(amendments) if not is_committed(path)]
    return refused + [Refusal(path, "the amendment is not committed", "commit it") for path in loose]


def _make_commit_check(submission: PackedSubmission) -> Callable[[str], bool]:
    """Return a function that checks whether a path's bytes, below the repository, are those of the commit."""
    root = submission.seen.paths.root
    known = git.list_files_at(root, submission.commit)

    def is_committed(path: str) -> bool:
        try:
            return path in known and compute_blob_id((root / path).read_bytes()) == known[path][0]
        except OSError as error:
            refuse_storage_error(error, root / path)
            return False

    return is_committed


def _load_chosen_records(seen: PlanResult) -> dict[Cell, list[tuple[str, Record]]]:
    chosen = select_publishable(seen.difference)
    return {
        cell: [(identity, load_record(seen.paths, identity)) for identity in records.all if identity]
        for cell, records in chosen.items()
    }


def _find_uncommitted(
    seen: PlanResult, settings: SubmissionSettings, is_committed: Callable[[str], bool]
) -> Iterator[Refusal]:
    """Find published files that are not in the repository's commit: another checkout would pack other bytes."""
    paths = [path for paths in settings.code.values() for path in paths]
    paths += map(str, settings.get_below("documents.").values())
    root = seen.paths.root.resolve()
    for path in dict.fromkeys(paths):
        top = (root / path).resolve()
        for file in sorted(top.rglob("*")) if top.is_dir() else [top]:
            left_out = any(map(is_left_out, file.relative_to(top).parts))
            if not file.is_file() or left_out or not file.is_relative_to(root):
                continue
            if not is_committed(name := file.relative_to(root).as_posix()):
                yield Refusal(name, "it is published, but not committed", "commit it")


def _make_log_reader(submission: PackedSubmission) -> Callable[[Cell], DetailLog]:
    by_cell = {content.cell: content for content in submission.content.cells}

    def read(cell: Cell) -> DetailLog:
        detail = by_cell[cell].performance[DETAIL]
        data = submission.find_stored(detail).read_bytes() if isinstance(detail, LogRef) else detail
        return parse_detail(data)

    return read


def _list_broken_rules(submission: PackedSubmission) -> list[Refusal]:
    """List the findings of `check` in the tree to be packed."""
    with open_temporary("package") as folder:
        write_tree(folder, submission.files, (), submission.find_stored)
        report = check_tree(folder, round_name=submission.ruleset.round)
    return [
        Refusal(
            finding.cell or str(finding.complaint.place),
            f"{finding.complaint.place}: {finding.complaint.found}, expected {finding.complaint.wanted}",
            finding.complaint.fix or "see: reconcile check",
        )
        for finding in report.findings
        if finding.severity is Severity.ERROR
    ]


def choose_archive(submission: PackedSubmission) -> Path:
    name = f"{submission.content.submitter}-{submission.ruleset.round}-{submission.commit[:12]}.tar.gz"
    return submission.seen.paths.work / "packages" / name


def write_package(
    submission: PackedSubmission, target: Path, tool: str, secret: str, amends: str
) -> tuple[Packed, list[Path]]:
    """Write the archive, its manifest and digests, encrypted by ``tool`` if given. Return the files, archive first."""
    sweep_siblings(target)
    packed = pack(target, submission.files, submission.find_stored)
    manifest = target.with_name(target.name + MANIFEST)
    about = _describe_submission(submission)
    if amends:
        about["amends"] = git.resolve(submission.seen.paths.root, amends)
        about["amendments"] = sorted(submission.seen.decisions.amendments)
    replace(manifest, encode_manifest(packed, about))
    files = [target, manifest]
    if tool:
        plain, files = files, [path.with_name(path.name + ENDINGS[tool]) for path in files]
        try:
            for source, path in zip(plain, files, strict=True):
                path.unlink(missing_ok=True)
                encrypt(tool, source, path, secret)
        finally:
            for path in plain:
                path.unlink(missing_ok=True)
    for name, digest in compute_digests(files[0]).items():
        digest_file = files[0].with_name(f"{files[0].name}.{name}")
        replace(digest_file, f"{digest}  {files[0].name}\n".encode())
        files.append(digest_file)
    return packed, files


def _describe_submission(submission: PackedSubmission) -> dict[str, object]:
    accepted = submission.seen.difference.accepted
    cells: list[dict[str, object]] = []
    for item in submission.content.cells:
        cells.append({"cell": str(item.cell)})
        if item.inferred_from:
            cells[-1]["inferred_from"] = str(item.inferred_from)
        if (of := item.inferred_from or item.cell) in accepted:
            cells[-1]["accepted"] = make_versioned(FORMAT, accepted[of])
    return {
        "tool": TOOL,
        "commit": submission.commit,
        "round": submission.ruleset.round,
        "submitter": submission.content.submitter,
        "spec": dict(sorted(submission.seen.spec.items())),
        "cells": cells,
    }


class ProgramRegistration(Protocol):
    """A program's registration of a packed submission. This program registers and sends nothing itself."""

    def arrange_runs(self, files: Iterable[tuple[str, Content]]) -> Iterator[tuple[str, Content]]:
        """Arrange the files of a rendered submission in the folders to register."""

    def list_commands(
        self, content: SubmissionContent, names: Iterable[str], folder: Path, organisation: Path, embargo: str
    ) -> list[str]:
        """Return the commands to type. ``names``: the arranged files, in ``folder``; ``organisation``: from the
        rendered tree; ``embargo``: the day when it ends, "" for none."""

    def explain(self, commands: list[str]) -> str:
        """Return the commands with instructions for the parts to fill in."""


def prepare_registration(submission: PackedSubmission, target: Path) -> tuple[list[str], str]:
    """Write the folders that a program registers next to the archive; return the commands to type and their
    explanation."""
    if submission.ruleset.layout not in PROGRAMS:
        return [], ""
    registration: ProgramRegistration = load_program(submission.ruleset.layout).load_registration()
    folder = target.with_name(f"{target.name.removesuffix('.tar.gz')}.registration").absolute()
    arranged = list(registration.arrange_runs(submission.files))
    remove(folder)
    write_tree(folder, arranged, (), submission.find_stored)
    organisation = submission.seen.tree / submission.content.submitter
    until = submission.seen.desired.submission.embargo_until
    names = (name for name, _ in arranged)
    commands = registration.list_commands(submission.content, names, folder, organisation, until)
    return commands, registration.explain(commands) if commands else ""
