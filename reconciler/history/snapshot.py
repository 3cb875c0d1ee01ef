"""The submission at one commit: its compiled spec, its records, and the differences between them.

It is independent of this machine: versions and sources come from the commit's own records, and artifacts count as
intact. So all users see the same for one commit, whatever they have installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.desired.state import Desired, Pins
from reconciler.diff.change import Difference
from reconciler.diff.difference import compare
from reconciler.errors import Problem, SpecError
from reconciler.history.commit_records import CommitRecords, Committed, RecordReader
from reconciler.observed.pins import collect_recorded_pins
from reconciler.observed.state import Observed
from reconciler.reconcile.desired_cache import DesiredCache, load_committed
from reconciler.record.decisions import FOLDERS, is_decision, parse_decisions
from reconciler.resource.decisions import NONE, Decisions
from reconciler.resource.inputs import Pin, PinKind
from reconciler.resource.records import Record, Recorded
from reconciler.resource.resources import Resource
from reconciler.spec.files import LARGEST_FILE, Source, decode, refuse_link
from reconciler.storage import git
from reconciler.storage.collector import pause_collector
from reconciler.storage.files import hash_bytes, hash_listing
from reconciler.storage.git import find_day
from reconciler.storage.untrusted_files import LARGEST_RECORD

if TYPE_CHECKING:
    from reconciler.spec.declared import Declared

_SPECS = "specs"  # the folder that a commit's spec is read from


class Snapshot(Struct, frozen=True, dict=True):
    """The submission at one commit. ``specs``: path → blob id."""

    commit: str
    specs: Mapping[str, str]
    desired: Desired
    recorded: Recorded
    difference: Difference
    committed: Committed
    decisions: Decisions = NONE

    @property
    def records(self) -> CommitRecords:
        """The records by id."""
        return self.committed.records

    @property
    def damaged(self) -> Mapping[str, str]:
        """Path of a record file → problem."""
        return self.committed.damaged

    def list_declared(self, record: Record) -> Resource | None:
        """Return the declared resource that a record is for. It has the record's key, under a name for which the record
        was made or, if a benchmark was renamed since, under any name. Otherwise it only has the name, as for an
        accepted difference."""
        known = self.desired.by_address
        named = [known[a] for a in (record.address, *record.shared) if a in known]
        asked = next((r for r in named if r.key == record.key), None) or self.by_key.get(record.key)
        return asked or (named[0] if named else None)

    @cached_property
    def by_key(self) -> Mapping[str, Resource]:
        """The first resource of each key."""
        return {resource.key: resource for resource in reversed(self.desired.resources)}


class Shared(Struct, dict=True):
    """Data shared between snapshots of one repository, computed once: most records, and cells. ``index``: the folder of
    this machine's caches, None to use none. ``keep``: keep whole records too."""

    index: Path | None = None
    keep: bool = True
    compiled: DesiredCache = field(default_factory=DesiredCache)

    @cached_property
    def reader(self) -> RecordReader:
        return RecordReader(self.index, self.keep)


def read_snapshot(root: Path, commit: str, *, today: date | None = None, shared: Shared | None = None) -> Snapshot:
    """Read the submission at a commit. ``today``: the day (UTC) on which decisions are evaluated, by default the
    commit's own day, so that the result never changes. ``shared``: data of other snapshots. Raises SpecError with every
    problem of that commit's spec."""
    with pause_collector():
        return _make_snapshot(root, commit, today, shared or Shared())


def _make_snapshot(root: Path, commit: str, today: date | None, shared: Shared) -> Snapshot:
    listed, links = git.list_files_and_links_at(root, commit, (_SPECS, *FOLDERS))
    there = _list_specs(root, commit, listed, links)
    files = {p: blob for p, (blob, _) in there.items()}
    large = {p: n for p, (_, n) in there.items() if n > LARGEST_FILE}
    if large:
        raise SpecError([Problem(p, 1, 1, "", f"it has {n:,} bytes", _SPEC_FIX) for p, n in large.items()])
    if not files:
        uncommitted = any((root / _SPECS).glob("**/*.y*ml"))
        fix = f"commit yours: git add {_SPECS} && git commit" if uncommitted else "`reconcile init` writes a starter"
        fix = f"{fix}; or find a commit with specs: git log -- specs"
        raise SpecError([Problem(_SPECS, 0, 0, "", f"commit {commit[:12]} has no spec", fix)])
    committed = shared.reader.read(root, commit)
    recorded = committed.recorded

    def observe(needed: Iterable[Pin]) -> Pins:
        return collect_recorded_pins(needed, recorded, _digest_sources(root, commit, needed))

    made = load_committed(shared.index, files, lambda: _declare(root, files), observe, shared.compiled)
    decisions = read_decisions(root, commit, today, listed)
    difference = compare(made.desired, recorded, Observed(), decisions=decisions)
    return Snapshot(commit, made.spec, made.desired, recorded, difference, committed, decisions)


def _list_specs(
    root: Path, commit: str, listed: Mapping[str, tuple[str, int]], links: Mapping[str, str]
) -> dict[str, tuple[str, int]]:
    """Return path → (blob, bytes) of the specs among the ``listed`` files. A link counts as its target in the commit.
    Raises SpecError for one that leads out of the repository."""
    there = {path: at for path, at in listed.items() if _is_spec(path)}
    links = {path: blob for path, blob in links.items() if not _is_below_decisions(path)}
    for path in sorted(links.keys() & there.keys()):
        del there[path]
        target, found = _follow_link(root, commit, path, links[path])
        if not target:
            raise SpecError([refuse_link(path)])
        if target not in found:
            fix = "link to a committed file, or remove the link"
            raise SpecError([Problem(path, 1, 1, "", "the link does not point to a file of this commit", fix)])
        there[target] = found[target]
    return there


def _follow_link(root: Path, commit: str, path: str, blob: str) -> tuple[str, dict[str, tuple[str, int]]]:
    """Return the path that a link leads to in the commit, through other links, and (blob, bytes) of the files there:
    one for a file, all files below it for a folder, none for a path that is not committed or a circle of links. The
    path is "" if it is outside the repository."""
    seen: set[str] = set()
    target, links = path, {path: blob}
    files: dict[str, tuple[str, int]] = {}
    while target in links and target not in seen:
        seen.add(target)
        written = git.read_blobs(root, [links[target]]).get(links[target], b"").decode(errors="replace")
        target = os.path.normpath(PurePosixPath(target).parent / written)
        if target.startswith(("/", "../")) or target == ".." or ".git" in target.split("/"):
            return "", {}
        files, links = git.list_files_and_links_at(root, commit, [target])
    return target, {} if target in links else files


def _declare(root: Path, files: Mapping[str, str]) -> Declared:
    from reconciler.spec.loading import load_sources

    contents = git.read_blobs(root, files.values())
    read = [decode(contents[blob], path) for path, blob in files.items()]
    sources = [replace(item, blob=files[item.name], named=False) for item in read if isinstance(item, Source)]
    unread = [item for item in read if isinstance(item, Problem)]
    return load_sources(sources, root, _Unset(os.environ), unread)


def _is_below_decisions(path: str) -> bool:
    return path.startswith(tuple(f"{folder}/" for folder in FOLDERS))


def _is_spec(path: str) -> bool:
    """Return True for a spec file; hidden files do not count, as on disk."""
    return (
        not _is_below_decisions(path)
        and path.endswith((".yaml", ".yml"))
        and not any(part.startswith(".") for part in path.split("/"))
    )


def read_decisions(
    root: Path, commit: str, today: date | None, listed: Mapping[str, tuple[str, int]] | None = None
) -> Decisions:
    """``listed``: the commit's files, including its decisions."""
    there = git.list_files_at(root, commit, FOLDERS) if listed is None else listed
    files = {p: blob for p, (blob, size) in there.items() if is_decision(p) and size <= LARGEST_RECORD}
    contents = git.read_blobs(root, files.values())
    found = {path: contents[blob] for path, blob in files.items() if blob in contents}
    return parse_decisions(found, today or find_day(root, commit))


def _digest_sources(root: Path, commit: str, needed: Iterable[Pin]) -> dict[str, str]:
    """Return the sha256 of sources in the repository itself, such as a user's own benchmark."""
    paths = {os.path.normpath(pin.location) for pin in needed if pin.kind is PinKind.SOURCE}
    here = {path for path in paths if not path.startswith(("/", ".."))}
    files, links = git.list_files_and_links_at(root, commit, sorted(here)) if here else ({}, {})
    unknown = set[str]()
    for path, blob in links.items():  # on disk, links to files are followed and those to folders are not
        target, found = _follow_link(root, commit, path, blob)
        del files[path]
        if target in found:
            files[path] = found[target]
        elif not found:
            unknown.add(path)
    # The digest of what leads out of the commit, or is too large, is unknown, as on a machine without it.
    here = {path for path in here if not any(link == path or link.startswith(f"{path}/") for link in unknown)}
    if any(size > _LARGEST_SOURCE for _, size in files.values()):
        return {}
    contents = git.read_blobs(root, [blob for blob, _ in files.values()])
    digests = {path: hash_bytes(contents[blob]) for path, (blob, _) in files.items() if blob in contents}
    for folder in here.difference(digests):  # the code of a harness command is a folder
        below = {path.removeprefix(f"{folder}/"): s for path, s in digests.items() if path.startswith(f"{folder}/")}
        if below:
            digests[folder] = hash_listing(below)
    return {path: found for path, found in digests.items() if path in here}


_LARGEST_SOURCE = 256 << 20  # bytes of a file in git that is read to compute a digest
_SPEC_FIX = "keep data out of specs/"


class _Unset(dict[str, str]):
    """An environment in which every variable has a value: locations never enter a key, so an unset variable has no
    effect."""

    def __missing__(self, name: str) -> str:
        return f"${{{name}}}"

    def get(self, name: str, default: object = None) -> str:  # noqa: ARG002
        return self[name]

    def __contains__(self, name: object) -> bool:
        return True
