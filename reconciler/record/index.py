"""Load all records of a repository as summaries. An index supplies those of files whose size and time are unchanged.

Records never change, so a file that matches the index is not opened. An index that is missing, damaged or of another
version is rebuilt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from reconciler.errors import RecordError
from reconciler.record.codec import compose_record_id, decode, summarize
from reconciler.resource.codec import CodecError, decode_packed, encode_packed
from reconciler.resource.kinds import Address
from reconciler.resource.records import IMPORTED, TRIAL, UNKNOWN, Record, Recorded, Summary
from reconciler.storage.files import (
    RECORDS,
    RepositoryPaths,
    TrialPaths,
    hash_bytes,
    read_checked,
    read_version,
    stamp_sources,
    write_cache,
)
from reconciler.storage.storage_errors import refuse_storage_error
from reconciler.storage.untrusted_files import LARGEST_RECORD, read_regular

Stamp = tuple[int, int]
_PACKAGE = Path(__file__).parents[1]
# Code that makes and writes a record's summary. An edit of it counts as a new version.
_WRITERS = ("resource/codec.py", "record/codec.py", "record/index.py", "resource/kinds.py", "resource/records.py")
SUMMARY_SOURCES = tuple(_PACKAGE / name for name in _WRITERS)


class Damaged(Struct, frozen=True):
    """A record file whose bytes do not match its name: path relative to the repository, and the reason."""

    path: str
    why: str


class Loaded(Struct, frozen=True):
    recorded: Recorded
    damaged: tuple[Damaged, ...] = ()


class Index(Struct):
    """The summaries that this process has loaded, which replace the index on disk while that is unchanged."""

    file: object = None
    entries: dict[str, tuple[Stamp, Summary]] = field(default_factory=dict)
    recorded: Recorded | None = None


def locate_record(paths: RepositoryPaths, identity: str) -> Path:
    return paths.records / f"{identity}.json"


def load_record(paths: RepositoryPaths, identity: str) -> Record:
    """Load a record. Raises RecordError if it is missing or damaged."""
    path = locate_record(paths, identity)
    try:
        data = read_regular(path, LARGEST_RECORD)
    except OSError as error:
        refuse_storage_error(error, path)
        raise RecordError(f"no record {identity}: {error.strerror}", fix="restore it from git") from error
    return _decode_checked(data, identity)


def _decode_checked(data: bytes, identity: str) -> Record:
    sha256 = hash_bytes(data)
    if sha256[:20] != identity.rpartition("-")[2]:
        raise RecordError(f"record {identity} was changed after it was written", fix="restore it from git")
    record = decode(data, identity)
    if compose_record_id(record.address, record.key, sha256) != identity:
        raise RecordError(f"record {identity} is stored under another record's name", fix="restore it from git")
    return record


def _scan(paths: RepositoryPaths) -> Iterator[tuple[str, Stamp]]:
    try:
        kinds = sorted(entry.path for entry in os.scandir(paths.records) if entry.is_dir())
    except OSError as error:
        refuse_storage_error(error, paths.records)
        return
    for kind in kinds:
        name = Path(kind).name
        with os.scandir(kind) as entries:
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    status = entry.stat(follow_symlinks=False)
                    yield f"{name}/{entry.name.removesuffix('.json')}", (status.st_size, status.st_mtime_ns)


def load(paths: RepositoryPaths, *, deep: bool = False, index: Index | None = None) -> Loaded:
    """Load summaries of every record in the work tree. ``deep`` opens and checks each, whatever its size and time.
    ``index``: kept by a process that loads repeatedly."""
    path = paths.index / "records.msgpack"
    index = index or Index()
    if index.file != read_version(path):
        index.entries, index.recorded = _read_index(path), None
    known = {} if deep else index.entries
    entries: dict[str, tuple[Stamp, Summary]] = {}
    damaged = []
    for identity, stamp in _scan(paths):
        entry = known.get(identity)
        if entry is not None and entry[0] == stamp:
            entries[identity] = entry
            continue
        try:
            data = read_regular(locate_record(paths, identity), LARGEST_RECORD)
            entries[identity] = (stamp, summarize(_decode_checked(data, identity), identity))
        except OSError as error:
            refuse_storage_error(error, locate_record(paths, identity))
            damaged.append(Damaged(f"{RECORDS}/{identity}.json", error.strerror or str(error)))
        except RecordError as error:
            damaged.append(Damaged(f"{RECORDS}/{identity}.json", str(error)))
    if entries != known:
        _write_index(path, entries)
    if index.recorded is None or entries != index.entries:
        summaries = (summary for _, summary in entries.values())
        index.recorded = group_records(summaries, trials=isinstance(paths, TrialPaths))
    index.entries, index.file = entries, read_version(path)
    return Loaded(index.recorded, tuple(damaged))


def _drop_duplicates(summaries: list[Summary]) -> list[Summary]:
    """Drop records that a later import of the same logs improves on: the record with the fewest unknown inputs
    counts."""
    best: dict[object, tuple[int, str]] = {}
    for s in summaries:
        if IMPORTED in s.marks:
            rank = (sum(mark.startswith(UNKNOWN) for mark in s.marks), s.id)
            best[s.address, s.key, s.artifacts] = min(best.get((s.address, s.key, s.artifacts), rank), rank)
    kept = {identity for _, identity in best.values()}
    return [s for s in summaries if IMPORTED not in s.marks or s.id in kept]


def group_records(summaries: Iterable[Summary], *, trials: bool = False) -> Recorded:
    """Return all records as one value, oldest first. ``trials``: include trials' records, which count nowhere else,
    wherever they may be."""
    summaries = (s for s in summaries if trials or TRIAL not in s.marks)
    by_key: dict[str, list[Summary]] = {}
    by_address: dict[Address, list[Summary]] = {}
    ordered = sorted(summaries, key=lambda s: (s.started, s.id))
    for summary in _drop_duplicates(ordered):
        by_key.setdefault(summary.key, []).append(summary)
        for address in (summary.address, *summary.shared):
            by_address.setdefault(address, []).append(summary)
    return Recorded(
        by_key={key: tuple(items) for key, items in by_key.items()},
        by_address={address: tuple(items) for address, items in by_address.items()},
        digest=hash_bytes("\n".join(sorted(s.id for s in ordered)).encode()),
    )


class _IndexFile(Struct, frozen=True):
    code: tuple[tuple[int, int], ...]
    rows: tuple[tuple[Stamp, Summary], ...]


def _write_index(path: Path, entries: dict[str, tuple[Stamp, Summary]]) -> None:
    write_cache(path, encode_packed(_IndexFile(stamp_sources(SUMMARY_SOURCES), tuple(entries.values()))))


def _read_index(path: Path) -> dict[str, tuple[Stamp, Summary]]:
    try:
        found = decode_packed(read_checked(path) or b"", _IndexFile)
    except CodecError:
        return {}
    return {row[1].id: row for row in found.rows} if found.code == stamp_sources(SUMMARY_SOURCES) else {}
