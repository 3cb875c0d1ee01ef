"""The records of commits: each is read from git and checked once, and then known by its path and blob id, whose bytes
never change.

This machine's caches keep them, so that the next process opens only new ones. An audit neither reads nor writes the
cache: it reads all of a commit's records from their bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from reconciler.errors import RecordError
from reconciler.record.codec import compose_record_id, decode, summarize
from reconciler.record.index import SUMMARY_SOURCES, group_records
from reconciler.resource.codec import CodecError, decode_packed, encode_packed
from reconciler.resource.quantities import parse_decimal
from reconciler.resource.records import Record, Recorded, Summary, is_latency_limit, is_thin
from reconciler.storage import git
from reconciler.storage.files import RECORDS, hash_bytes, read_checked, stamp_sources, write_cache
from reconciler.storage.git import find_tree, list_blobs_at, stream_blobs
from reconciler.storage.untrusted_files import LARGEST_RECORD

_CACHE = "committed-records.msgpack"
_FEW = 16  # records to read one by one before reading all others at once


class KnownRecord(NamedTuple):
    """A record's data for comparisons. ``thin``: latency bounds that its run met only narrowly, as text."""

    path: str
    blob: str
    summary: Summary
    thin: tuple[str, ...]


class CommitRecords(Mapping[str, Record]):
    """Records by id, read on demand, many at once with ``fetch``. Iteration yields only the ids."""

    def __init__(self, root: Path, files: Mapping[str, tuple[str, str]], read: Mapping[str, Record]) -> None:
        self._root, self._files, self._read, self._asked = root, files, dict(read), 0

    def fetch(self, identities: Iterable[str]) -> None:
        """Read these records. Raises RecordError for a record that is no longer here as it was checked."""
        due = {identity: self._files[identity] for identity in set(identities) & self._files.keys() - self._read.keys()}
        contents = git.read_blobs(self._root, [blob for _, blob in due.values()]) if due else {}
        for identity, (path, blob) in due.items():
            self._read[identity] = _check(path, contents.get(blob))

    def __getitem__(self, identity: str) -> Record:
        if identity not in self._read:
            if identity not in self._files:
                raise KeyError(identity)
            self._asked += 1
            self.fetch([identity] if self._asked < _FEW else self._files)
        return self._read[identity]

    def __contains__(self, identity: object) -> bool:
        return identity in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


class Committed(Struct, frozen=True, dict=True):
    """The records of one commit. ``records``, ``summaries`` and ``thin`` by id; ``damaged``: path of a record file →
    problem."""

    records: CommitRecords
    summaries: Mapping[str, Summary]
    thin: Mapping[str, tuple[str, ...]]
    damaged: Mapping[str, str]

    @cached_property
    def recorded(self) -> Recorded:
        return group_records(self.summaries.values())


class RecordReader(Struct, dict=True):
    """Reads the records of commits. ``index``: the folder of other processes' caches, None to use none. ``keep``: keep
    whole records and not only the data for comparison, since most will be needed."""

    index: Path | None = None
    keep: bool = True
    _records: dict[tuple[str, str], Record] = field(default_factory=dict)
    _new: bool = False
    _last: tuple[object, Committed] | None = None

    @cached_property
    def _known(self) -> dict[tuple[str, str], KnownRecord]:
        return _load(self.index)

    def read(self, root: Path, commit: str) -> Committed:
        """Read every record of a commit, and list files that do not match their names. Most spec changes come without a
        record: the previous commit's records then apply."""
        folder = root, find_tree(root, commit, RECORDS)
        if self._last is None or self._last[0] != folder or not folder[1]:
            self._last = folder, self._read(root, commit)
        return self._last[1]

    def _read(self, root: Path, commit: str) -> Committed:
        there = list_blobs_at(root, commit, [RECORDS])
        files = {path: blob for path, blob in there.items() if path.endswith(".json")}
        wrong = self._learn(root, commit, files)
        summaries: dict[str, Summary] = {}
        thin: dict[str, tuple[str, ...]] = {}
        places: dict[str, tuple[str, str]] = {}
        for path, blob in files.items():
            if path in wrong:
                continue
            known = self._known[path, blob]
            identity = known.summary.id
            summaries[identity], places[identity] = known.summary, (path, blob)
            if known.thin:
                thin[identity] = known.thin
        read = {i: self._records[place] for i, place in places.items() if place in self._records}
        return Committed(CommitRecords(root, places, read), summaries, thin, wrong)

    def _learn(self, root: Path, commit: str, files: Mapping[str, str]) -> dict[str, str]:
        """Return path → problem for each file that is not a record."""
        wrong: dict[str, str] = {}
        due = [(path, blob) for path, blob in files.items() if (path, blob) not in self._known]
        unread = {}
        contents = stream_blobs(root, [blob for _, blob in due], LARGEST_RECORD)
        for (path, blob), data in zip(due, contents, strict=True):
            if data is None:
                unread[path] = blob
            else:
                self._check(path, blob, data, wrong)
        if unread:
            self._learn_missing(root, commit, unread, wrong)
        return {path: wrong[path] for path in files if path in wrong}

    def _learn_missing(self, root: Path, commit: str, unread: Mapping[str, str], wrong: dict[str, str]) -> None:
        """Read files that are too large or missing here. Only this needs sizes, for which git opens every file."""
        sizes = {path: size for path, (_, size) in git.list_files_at(root, commit, [RECORDS]).items()}
        large = {path: sizes[path] for path in unread if sizes.get(path, 0) > LARGEST_RECORD}
        wrong |= {path: f"it has {size:,} bytes, too many for a record" for path, size in large.items()}
        due = {path: blob for path, blob in unread.items() if path not in large}
        late = git.read_blobs(root, due.values())
        for path, blob in due.items():
            self._check(path, blob, late.get(blob), wrong)

    def _check(self, path: str, blob: str, data: bytes | None, wrong: dict[str, str]) -> None:
        try:
            record = _check(path, data)
            summary = summarize(record, name_record(path))
            known = KnownRecord(path, blob, summary, tuple(_list_thin_margins(record)))
        except RecordError as error:
            wrong[path] = error.message
            return
        self._known[path, blob], self._new = known, True
        if self.keep:
            self._records[path, blob] = record

    def save(self) -> None:
        """Save for the next process if there are new records."""
        if self.index is not None and self._new:
            stored = _Stored(stamp_sources(_SOURCES), tuple(self._known.values()))
            with contextlib.suppress(OverflowError, ValueError):  # a made-up number: then there is no cache
                write_cache(self.index / _CACHE, encode_packed(stored))
            self._new = False


class _Stored(Struct, frozen=True):
    code: tuple[tuple[int, int], ...]
    rows: tuple[KnownRecord, ...]


_SOURCES = (*SUMMARY_SOURCES, Path(__file__))


def _load(index: Path | None) -> dict[tuple[str, str], KnownRecord]:
    try:
        found = decode_packed(read_checked(index / _CACHE) or b"", _Stored) if index is not None else None
    except CodecError:
        return {}
    if found is None or found.code != stamp_sources(_SOURCES):
        return {}
    return {(row.path, row.blob): row for row in found.rows}


def name_record(path: str) -> str:
    """Return a record's id from its path."""
    return path.removeprefix(f"{RECORDS}/").removesuffix(".json")


def _check(path: str, data: bytes | None) -> Record:
    """Decode and check a record. Raises RecordError for bytes that are not the record that the path names."""
    identity = name_record(path)
    if data is None:
        raise RecordError("its bytes are not in this clone")
    sha256 = hash_bytes(data)
    if sha256[:20] != identity.rpartition("-")[2]:
        raise RecordError("it was changed after it was written")
    record = decode(data, path)
    if compose_record_id(record.address, record.key, sha256) != identity:
        raise RecordError("it is stored under another record's name")
    return record


def _list_thin_margins(record: Record) -> Iterator[str]:
    for margin in record.values.get("margins", ()):  # readers of a record have checked its shape
        room = parse_decimal(margin["headroom"])
        if room is not None and is_latency_limit(margin["name"]) and is_thin(room):
            yield f"{margin['name']} has {room} % of headroom ({margin['measured']} of {margin['limit']})"
