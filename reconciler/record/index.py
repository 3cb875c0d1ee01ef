"""All records of a repository as summaries, through an index that is believed only as far as each file's size and time.

Records never change, so a file that is as the index knew it is not opened. An index that is missing, damaged or of
another version is made anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler.errors import RecordError
from reconciler.files import RepositoryPaths, hash_bytes, read_checked, read_version, write_cache
from reconciler.foreign import LARGEST_RECORD, read_regular
from reconciler.record.codec import decode, record_id, summarize
from reconciler.resource.kinds import Address
from reconciler.resource.records import IMPORTED, UNKNOWN, Artifact, Ended, Record, Recorded, Summary

VERSION = 5
Stamp = tuple[int, int]
# What makes a summary of a record: an edit of it counts like a new version.
_SOURCES = (Path(__file__), Path(__file__).with_name("codec.py"))


@dataclass(frozen=True, slots=True)
class Damaged:
    """A record file whose bytes are not what its name says: path relative to the repository, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Loaded:
    recorded: Recorded
    damaged: tuple[Damaged, ...] = ()


@dataclass(slots=True)
class Index:
    """The summaries that this process knows already: as good as the index on disk, while that is the one it saw."""

    file: object = None
    entries: dict[str, tuple[Stamp, Summary]] = field(default_factory=dict)
    recorded: Recorded | None = None


def record_path(places: RepositoryPaths, identity: str) -> Path:
    return places.records / f"{identity}.json"


def load_record(places: RepositoryPaths, identity: str) -> Record:
    """Raises RecordError when it is not there or damaged."""
    path = record_path(places, identity)
    try:
        data = read_regular(path, LARGEST_RECORD)
    except OSError as error:
        raise RecordError(f"no record {identity}: {error.strerror}", fix="restore it from git") from error
    return _checked(data, identity)


def _checked(data: bytes, identity: str) -> Record:
    if hash_bytes(data)[:20] != identity.rpartition("-")[2]:
        raise RecordError(f"record {identity} was changed after it was written", fix="restore it from git")
    record = decode(data, identity)
    if record_id(record.address, record.key, data) != identity:
        raise RecordError(f"record {identity} is stored under another record's name", fix="restore it from git")
    return record


def _scan(places: RepositoryPaths) -> Iterator[tuple[str, Stamp]]:
    try:
        kinds = sorted(entry.path for entry in os.scandir(places.records) if entry.is_dir())
    except OSError:
        return
    for kind in kinds:
        name = Path(kind).name
        for entry in os.scandir(kind):
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                status = entry.stat(follow_symlinks=False)
                yield f"{name}/{entry.name.removesuffix('.json')}", (status.st_size, status.st_mtime_ns)


def load(places: RepositoryPaths, *, deep: bool = False, index: Index | None = None) -> Loaded:
    """Summaries of every record in the work tree. ``deep`` opens and checks each, whatever its size and time say.
    ``index``: kept by a process that loads again and again."""
    path = places.index / "records.json"
    index = index or Index()
    if index.recorded is None or index.file != read_version(path):
        index.entries, index.recorded = _read_index(path), None
    known = {} if deep else index.entries
    entries: dict[str, tuple[Stamp, Summary]] = {}
    damaged = []
    for identity, stamp in _scan(places):
        entry = known.get(identity)
        if entry is not None and entry[0] == stamp:
            entries[identity] = entry
            continue
        try:
            data = read_regular(record_path(places, identity), LARGEST_RECORD)
            entries[identity] = (stamp, summarize(_checked(data, identity), identity))
        except OSError as error:
            damaged.append(Damaged(f"state/records/{identity}.json", error.strerror or str(error)))
        except RecordError as error:
            damaged.append(Damaged(f"state/records/{identity}.json", str(error)))
    if entries != known:
        _write_index(path, entries)
    if index.recorded is None or entries != index.entries:
        index.recorded = group_records(summary for _, summary in entries.values())
    index.entries, index.file = entries, read_version(path)
    return Loaded(index.recorded, tuple(damaged))


def _undoubled(summaries: list[Summary]) -> list[Summary]:
    """Without what a later import of the same logs says better: the one with the fewest unknown inputs counts."""
    best: dict[object, tuple[int, str]] = {}
    for s in summaries:
        if IMPORTED in s.marks:
            rank = (sum(mark.startswith(UNKNOWN) for mark in s.marks), s.id)
            best[s.address, s.key, s.artifacts] = min(best.get((s.address, s.key, s.artifacts), rank), rank)
    kept = {identity for _, identity in best.values()}
    return [s for s in summaries if IMPORTED not in s.marks or s.id in kept]


def group_records(summaries: Iterable[Summary]) -> Recorded:
    """All records as one value, oldest first."""
    by_key: dict[str, list[Summary]] = {}
    by_address: dict[Address, list[Summary]] = {}
    ordered = sorted(summaries, key=lambda s: (s.started, s.id))
    for summary in _undoubled(ordered):
        by_key.setdefault(summary.key, []).append(summary)
        for address in (summary.address, *summary.shared):
            by_address.setdefault(address, []).append(summary)
    return Recorded(
        by_key={key: tuple(items) for key, items in by_key.items()},
        by_address={address: tuple(items) for address, items in by_address.items()},
        digest=hash_bytes("\n".join(sorted(s.id for s in ordered)).encode()),
    )


def _code() -> list[list[int]]:
    return [[status.st_size, status.st_mtime_ns] for status in map(Path.stat, _SOURCES)]


def _write_index(path: Path, entries: dict[str, tuple[Stamp, Summary]]) -> None:
    """Evidence repeats from run to run, so each distinct set is written once."""
    sets: dict[Any, int] = {}
    rows = [_row(identity, stamp, s, sets) for identity, (stamp, s) in entries.items()]
    document = {"version": VERSION, "code": _code(), "evidence": [list(item) for item in sets], "rows": rows}
    write_cache(path, json.dumps(document, separators=(",", ":")).encode())


def _row(identity: str, stamp: Stamp, s: Summary, sets: dict[Any, int]) -> list[Any]:
    evidence, noted = (sets.setdefault(item, len(sets)) for item in (s.evidence, s.noted))
    artifacts = [[a.name, a.sha256, a.size, a.place] for a in s.artifacts]
    own = [str(s.address), s.key, str(s.ended), s.started, s.seconds, artifacts]
    shared = [str(address) for address in s.shared]
    return [
        *(identity, *stamp, *own),
        *(s.validity, evidence, s.metric, s.pins, s.upstream, s.marks, s.problem, shared, s.dirty, noted),
    ]


def _read_index(path: Path) -> dict[str, tuple[Stamp, Summary]]:
    data = read_checked(path)
    try:
        document = json.loads(data or b"{}")
        if document.get("version") != VERSION or document.get("code") != _code():
            return {}
        sets = [tuple((name, text) for name, text in item) for item in document["evidence"]]
        return {row[0]: ((row[1], row[2]), _summary(row, sets)) for row in document["rows"]}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}


def _summary(row: list[Any], sets: list[tuple[tuple[str, str], ...]]) -> Summary:
    address, key, ended, started, seconds, artifacts = row[3:9]
    validity, evidence, metric, pins, upstream, marks, problem, shared, dirty, noted = row[9:]
    return Summary(
        id=row[0],
        address=Address.parse(address),
        key=key,
        ended=Ended(ended),
        started=started,
        seconds=seconds,
        artifacts=tuple(map(Artifact._make, artifacts)),
        validity=validity,
        evidence=sets[evidence],
        metric=(metric[0], metric[1]) if metric else None,
        pins=tuple([(name, value) for name, value in pins]),
        upstream=tuple([(name, value) for name, value in upstream]),
        marks=tuple(marks),
        problem=problem,
        shared=tuple([Address.parse(address) for address in shared]),
        dirty=dirty,
        noted=sets[noted],
    )
