"""Judge the files that records keep by today's rules, and cache the judgements, which can always be derived again. So
a newer version judges every run anew, without rerunning any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field

from harness.catalog import CLOCK_SET
from reconciler.errors import LogError, RecordError
from reconciler.loadgen.log_files import DETAIL
from reconciler.record.index import Stamp, load_record
from reconciler.record.store import find_readable
from reconciler.resource.codec import CodecError, decode_packed, encode_packed
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import (
    IMPORTED,
    REHEARSAL,
    Artifact,
    Ended,
    Judgement,
    LogFinding,
    Record,
    Recorded,
)
from reconciler.storage.files import RepositoryPaths, hash_file, read_checked, write_cache
from reconciler.storage.storage_errors import refuse_storage_error

JUDGED_BY = 6  # version of the rules: increment it after an edit that changes the findings
_JUDGED = (Kind.RUN, Kind.COMPLIANCE_TEST, Kind.SCORE)
_NOTHING = Judgement()


class _Cache(Struct, frozen=True):
    """The cached result of the last judgement. ``of``: digest of everything that was examined last. ``clean``: ids of
    records without findings. ``waits``: records with a file that was not here as recorded, with that file and its size
    and time then."""

    by: int
    of: str = ""
    clean: frozenset[str] = frozenset()
    found: dict[str, Judgement] = field(default_factory=dict)
    waits: dict[str, tuple[Artifact, Stamp | None]] = field(default_factory=dict)


Metrics = tuple[str, ...] | None


def judge_records(
    paths: RepositoryPaths,
    recorded: Recorded,
    keys: Mapping[str, Address],
    of: str,
    find_metrics: Callable[[Address], tuple[str, ...]],
) -> Mapping[str, Judgement]:
    """Return record id → judgement for each outcome with one of these keys that has any findings. ``of``: digest of
    ``recorded`` and ``keys``; ``find_metrics``: returns the metrics of a score's bars."""
    path = paths.index / "judgements.msgpack"
    cache = _read(path)
    back = {identity for identity, (item, stamp) in cache.waits.items() if _stamp(paths, item) != stamp}
    if cache.of == of and not back:
        return cache.found
    wanted = [s for key in keys for s in recorded.by_key.get(key, ()) if s.ended is Ended.DONE]
    wanted = [s for s in wanted if s.address.kind in _JUDGED]
    found = {s.id: cache.found[s.id] for s in wanted if s.id in cache.found and s.id not in back}
    waits = {identity: cache.waits[identity] for identity in found if identity in cache.waits}
    clean = {s.id for s in wanted if s.id in cache.clean}
    for summary in wanted:
        if summary.id in found or summary.id in clean:
            continue
        scored = summary.address.kind is Kind.SCORE
        judgement = judge_record(paths, summary.id, find_metrics(keys[summary.key]) if scored else None)
        if lost := [item for item in summary.artifacts if item.name == judgement.missing]:
            waits[summary.id] = lost[0], _stamp(paths, lost[0])
        if judgement == _NOTHING:
            clean.add(summary.id)
        else:
            found[summary.id] = judgement
    new = _Cache(JUDGED_BY, of, frozenset(clean), found, waits)
    if new != cache:
        write_cache(path, encode_packed(new))
    return found


def _stamp(paths: RepositoryPaths, artifact: Artifact) -> Stamp | None:
    try:
        status = find_readable(paths, artifact).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _read(path: Path) -> _Cache:
    try:
        found = decode_packed(read_checked(path) or b"", _Cache)
    except CodecError:
        return _Cache(JUDGED_BY)
    return found if found.by == JUDGED_BY else _Cache(JUDGED_BY)


def judge_record(paths: RepositoryPaths, identity: str, metrics: Metrics = None) -> Judgement:
    """Judge by the files that are here as recorded. Pure except for reading. Takes seconds for a repository of hundreds
    of runs."""
    from reconciler.rules.results.format import Kept
    from reconciler.rules.results.table import find_recorded_format

    try:
        record = load_record(paths, identity)
        results = find_recorded_format(record)
        kept = Kept(
            inputs={name: item.value for name, item in record.inputs.items()},
            seconds=record.seconds,
            clock_set=float(record.values.get(CLOCK_SET) or 0),
            files=_find_files(paths, _list_artifacts(paths, record), results.JUDGED),
            started=record.started,
            rehearsal=REHEARSAL in record.marks,
            imported=IMPORTED in record.marks,
            metrics=metrics,
        )
        if missing := results.find_missing(kept):
            return Judgement(unknown=f"{missing} is missing or changed", missing=missing)
        return _sort(results.judge_kept(kept))
    except OSError as error:
        refuse_storage_error(error, paths.logs)
        return Judgement(unknown=f"{error.filename}: {error.strerror}")
    except (LogError, RecordError, ValueError, KeyError, TypeError) as error:
        return Judgement(unknown=f"its files cannot be read: {error}")


def _sort(items: Iterable[LogFinding]) -> Judgement:
    found = tuple(items)
    return Judgement(tuple(i for i in found if not i.premise), tuple(i for i in found if i.premise))


def _list_artifacts(paths: RepositoryPaths, record: Record) -> Iterable[Artifact]:
    """List the artifacts of a score and of its accuracy run, which has the number of samples."""
    run = record.upstream.get("run") if record.address.kind is Kind.SCORE else None
    of_run = [item for item in load_record(paths, run).artifacts if item.name == DETAIL] if run else []
    return (*of_run, *record.artifacts)


def _find_files(paths: RepositoryPaths, artifacts: Iterable[Artifact], names: tuple[str, ...]) -> dict[str, Path]:
    """Return the files that are here exactly as recorded, so that an edited log is not judged instead of the
    original."""
    wanted = [(i, find_readable(paths, i)) for i in artifacts if any(fnmatchcase(i.name, name) for name in names)]
    return {item.name: path for item, path in wanted if path.is_file() and hash_file(path) == item.sha256}
