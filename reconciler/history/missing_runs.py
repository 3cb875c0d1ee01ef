"""Records that a commit's history had and the commit no longer has. Of a valid run that was removed a policy chooses
among what is left; one that was written anew contradicts itself."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator
from pathlib import Path

from msgspec import structs

from reconciler.diff.claims import Claim, Proof
from reconciler.errors import LogError, RecordError
from reconciler.history.commit_records import RECORDS
from reconciler.history.logs import FOLDER
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen.fingerprint import find_fingerprints
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.record.codec import decode, summarize
from reconciler.resource.kinds import Address, Cell
from reconciler.resource.records import IMPORTED, Ended, Record
from reconciler.storage import git
from reconciler.storage.git import Appearances, Commit

_FEW = 4  # fields that are named


def find_missing_runs(root: Path, at: Snapshot, appeared: Appearances) -> Iterator[Claim]:
    """As far as the history here goes back. A run with other inputs than the published one could not take its place."""
    cells = {at.records[i].key: cell for cell, chosen in at.difference.chosen.items() if (i := chosen.performance)}
    begins = {f"{RECORDS}/Run/{key[:12]}-" for key in cells}
    gone = {where: commit for where, commit in _list_gone(at, appeared) if where[0].rpartition("-")[0] + "-" in begins}
    contents = git.read_blobs(root, [blob for _, blob in gone])
    for (path, blob), commit in sorted(gone.items()):
        if blob in contents and (found := _valid(contents[blob], path)) and found[0] in cells:
            yield _claim(cells[found[0]], path, found[1], commit.id)


def find_rewritten_records(
    root: Path, at: Snapshot, appeared: Appearances, only: Container[str] | None = None
) -> Iterator[Claim]:
    """Records of an attempt, or of a run with the same log, of which the history had another one first: a pass writes
    each attempt once. It may record a run again that an older version refused, and an import may be declared anew.
    Records that only name others that were written anew are not listed. ``only``: files of records that are gone."""
    gone = {where: commit for where, commit in _list_gone(at, appeared) if only is None or where[0] in only}
    contents = git.read_blobs(root, [blob for _, blob in gone])
    before = [
        (record, path, commit)
        for (path, blob), commit in sorted(gone.items())
        if (record := _decode(contents.get(blob), path)) is not None and IMPORTED not in record.marks
    ]
    if not before:
        return
    own: dict[tuple[str, Address], list[str]] = {}
    runs: dict[str, list[str]] = {}
    for identity, summary in sorted(at.committed.summaries.items()):
        record = at.records[identity]
        own.setdefault((record.attempt, summary.address), []).append(identity)
        runs.setdefault(summary.key, []).append(identity)
    first: dict[str, int] = {}
    for number, (path, _) in enumerate(appeared):
        first.setdefault(path, number)

    def follows(identity: str, path: str) -> bool:
        return first.get(f"{RECORDS}/{identity}.json", 0) > first[path]

    @functools.cache
    def read_present(identity: str) -> frozenset[str]:
        return _read_fingerprints(root, at.records[identity], at.commit)

    for record, path, commit in before:
        came = f"{path}, which came with {commit.id[:12]} and is gone"
        for identity in own.get((record.attempt, record.address), ()):
            now = at.records[identity]
            other = _list_other_fields(record, now)
            if other and follows(identity, path) and f"{RECORDS}/{now.supersedes}.json" != path:
                yield _deny_rewritten(now, identity, f"another {', '.join(other)} than {came}: one attempt made both")
        same_key = runs.get(record.key, ())
        again = [i for i in same_key if at.records[i].attempt != record.attempt and follows(i, path)]
        seen = _read_fingerprints(root, record, commit.id) if again else frozenset()
        for identity in again if seen else ():
            if seen & read_present(identity):
                detail = f"the log of {came}: one run, recorded anew as of {at.records[identity].started}"
                yield _deny_rewritten(at.records[identity], identity, detail)


def _deny_rewritten(record: Record, identity: str, detail: str) -> Claim:
    where = str(record.address.cell or "submission")
    what = f"{record.address.label}: as it was recorded"
    return Claim(where, what, Proof.CONTRADICTED, f"{RECORDS}/{identity}.json has {detail}")


def _list_gone(at: Snapshot, appeared: Appearances) -> Iterator[tuple[tuple[str, str], Commit]]:
    for (path, blob), commit in appeared.items():
        identity = path.removeprefix(f"{RECORDS}/").removesuffix(".json")
        if path != identity and path.endswith(".json") and identity not in at.records and path not in at.damaged:
            yield (path, blob), commit


def _list_other_fields(before: Record, now: Record) -> list[str]:
    """Names of fields, and of their entries where they have some, that were not changed along with other records."""
    found = []
    for name, value in structs.asdict(before).items():
        other = getattr(now, name)
        if name in ("upstream", "supersedes") or value == other:
            continue
        if isinstance(value, dict) and isinstance(other, dict):
            found += [f"{name}.{key}" for key in sorted({*value, *other}) if value.get(key) != other.get(key)]
        else:
            found.append(name)
    return found[:_FEW]


def _read_fingerprints(root: Path, record: Record, commit: str) -> frozenset[str]:
    """Read the fingerprints of its log, where that commit has it."""
    digest = next((a.sha256 for a in record.artifacts if a.name == DETAIL and a.place == "logs"), "")
    files = git.list_files_at(root, commit, [f"{FOLDER}/{digest}"]) if digest else {}
    for data in git.read_blobs(root, [blob for blob, _ in files.values()]).values():
        try:
            return frozenset(find_fingerprints(parse_detail(data, DETAIL)))
        except LogError:
            break
    return frozenset()


def _decode(data: bytes | None, path: str) -> Record | None:
    try:
        return decode(data, path) if data is not None else None
    except RecordError:
        return None


def note_shallow(root: Path) -> Iterator[Claim]:
    """A shallow clone also cuts off what was removed from the history."""
    if git.is_shallow(root):
        detail = (
            "this clone is shallow: runs and decisions that were removed earlier are not seen (git fetch --unshallow)"
        )
        yield Claim("submission", "history", Proof.ATTESTED, detail)


def _valid(data: bytes, path: str) -> tuple[str, str] | None:
    """Key and figures of a valid performance run; None for anything else."""
    record = _decode(data, path)
    if record is None:
        return None
    summary = summarize(record, path)
    if record.ended is not Ended.DONE or summary.metric is None or summary.validity == "INVALID":
        return None
    return record.key, f"{' '.join(summary.metric)} of {record.started}"


def _claim(cell: Cell, path: str, figures: str, commit: str) -> Claim:
    detail = f"{path}, {figures}, came with {commit[:12]} and is gone: the policy may have published it"
    return Claim(str(cell), "performance: a run that was removed", Proof.MISSING, detail)
