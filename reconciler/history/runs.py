"""Verify a commit's claims about runs and scores, from the recorded files and from the history."""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.diff.claims import Claim, Proof
from reconciler.diff.copied_runs import find_claimed_twice
from reconciler.diff.run_selection import select_valid
from reconciler.errors import LogError, RecordError
from reconciler.history.commit_records import name_record
from reconciler.history.dates import verify_order
from reconciler.history.logs import Good, Logs, read_record_files
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen import keys
from reconciler.loadgen.log import find_fingerprints, parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.reconcile.worker import TOOL
from reconciler.record.codec import decode, summarize
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind
from reconciler.resource.records import IMPORTED, REHEARSAL, Ended, Record, Summary
from reconciler.rules.results.format import Recheck
from reconciler.rules.results.table import find_recorded_format
from reconciler.storage import git
from reconciler.storage.files import LOGS, RECORDS
from reconciler.storage.git import Appearances, Commit

Files = Mapping[str, bytes]
# Values derived only from the log: the record must not have one that the log does not yield.
_DERIVED = frozenset({"validity", "metric", "reasons", "margins", "suggestion", "inferred", "findings"})
_LONGEST = 120  # characters of a quoted value
_RELEASE = re.compile(rb'^:::MLLOG \{"key": "loadgen_version", "value": "([^"\\]{1,80})"', re.MULTILINE)


def verify_runs(cell: Cell, name: str, record: Record, at: Snapshot, logs: Good) -> Iterator[Claim]:
    """Verify the settings of a run or test, the result of a performance run, or the accuracy of a score."""
    files = read_record_files(record, logs)
    if record.address.kind is Kind.SCORE:
        run = at.records.get(at.difference.chosen[cell].accuracy)
        yield _verify_score(
            cell, record, run or record, _find_detail(record, at), files, read_record_files(run, logs) if run else {}
        )
    elif "mode" in record.inputs:
        yield from _verify_run(cell, name, record, _find_detail(record, at), files)


def verify_candidates(cell: Cell, published: Record, at: Snapshot, logs: Logs) -> Iterator[Claim]:
    """Verify the logs of performance runs that the policy did not choose, since recording a better run as INVALID would
    make room for a worse one."""
    own = at.difference.chosen[cell].performance
    for summary in at.recorded.list_done(published.key):
        record = at.records[summary.id]
        if summary.id == own or record.address.kind is not Kind.RUN:
            continue
        good = logs.read(a for a in (*record.artifacts, *published.artifacts) if a.place == "logs")
        name = f"unpublished performance of {record.started}"
        for claim in verify_runs(cell, name, record, at, good):
            if not claim.what.endswith(": settings"):
                yield claim
        yield from verify_order(cell, name, record, published, good)


def verify_release(cell: Cell, name: str, record: Record, logs: Good) -> Iterator[Claim]:
    """Verify that the LoadGen version in the record is the one in the log."""
    logged = _RELEASE.search(read_record_files(record, logs).get(DETAIL, b""))
    if logged is None:
        return
    whole = logged[1].decode(errors="replace")
    fact = record.facts.get("loadgen.version")
    for stated in (record.values.get(keys.LOADGEN_VERSION), fact.value if fact is not None else None):
        if isinstance(stated, str) and stated and stated not in (whole, whole.partition(" ")[0]):
            detail = f"recorded {stated}, {DETAIL} says {whole}"
            yield Claim(str(cell), f"{name}: LoadGen", Proof.CONTRADICTED, detail)
            return


def _find_detail(record: Record, at: Snapshot) -> Detail:
    """Return the detail of the declared resource that the record belongs to. For an inferred cell, that is another
    cell's."""
    declared = at.list_declared(record)
    return at.desired.detail(declared.address) if declared else Detail(())


def _verify_run(cell: Cell, name: str, record: Record, asked: Detail, files: Files) -> Iterator[Claim]:
    claim, timed = partial(Claim, str(cell)), record.address.mode == PERFORMANCE
    values = {n: i.value for n, i in record.inputs.items()}
    measured = ("validity", "metric") if timed else ()
    try:
        again = find_recorded_format(record).recheck_run(
            values,
            files,
            asked.ruling,
            timed=timed or (record.address.kind is Kind.COMPLIANCE_TEST and DETAIL in files),
            foreign=IMPORTED in record.marks,
            rehearsal=REHEARSAL in record.marks,
        )
    except (LogError, ValueError) as error:
        yield claim(f"{name}: settings", Proof.CONTRADICTED, str(error))
        return
    except KeyError as error:  # a record from another branch
        yield claim(f"{name}: settings", Proof.CONTRADICTED, f"its inputs do not include {error}")
        return
    if record.address.kind is Kind.COMPLIANCE_TEST:  # it may be shorter than LoadGen requires
        again = replace(again, values={n: again.values[n] for n in again.values.keys() & record.values.keys()})
    if again.missing:
        lost = f"not in this commit, or changed: {', '.join(again.missing)}"
        yield from (claim(f"{name}: {what}", Proof.MISSING, lost) for what in ("settings", *measured))
        return
    proof = Proof.CONTRADICTED if again.differing else Proof.PROVEN
    yield claim(f"{name}: settings", proof, "; ".join(again.differing) or again.shown)
    for key in measured:
        recorded = record.values.get(key)
        if (
            key == "metric" and recorded != again.values[key] and recorded in again.other_metrics
        ):  # a correction may have changed the round's unit
            detail = f"{_show(recorded)}, from {again.source}; the rules now require {_show(again.values[key])}"
            yield claim(f"{name}: {key}", Proof.ATTESTED, detail)
            continue
        yield claim(f"{name}: {key}", *_compare(recorded, again.values[key], again.source))
    if timed or again.values:
        yield claim(f"{name}: derived values", *_compare_derived(record, again, leave=measured))


def _compare_derived(record: Record, again: Recheck, leave: Container[str] = ()) -> tuple[Proof, str]:
    """Compare the other derived values. Another version of this program may have worded them differently or derived
    fewer."""
    own = record.tool == TOOL
    names = sorted(again.values.keys() | (record.values.keys() & _DERIVED))
    known = [name for name in names if name not in leave and (name in record.values or own)]
    for name in known:
        recorded, derived = record.values.get(name), again.values.get(name)
        if name in again.partial and isinstance(recorded, list) and all(item in recorded for item in derived or ()):
            continue
        if recorded != derived:
            proof = Proof.CONTRADICTED if own else Proof.MISSING
            recorded_part, derived_part = _find_first_other(recorded, derived), _find_first_other(derived, recorded)
            version = "" if own else f" (derived by {record.tool or 'another version'})"
            return proof, f"values.{name}: recorded {recorded_part}, {again.source} says {derived_part}{version}"
    return Proof.PROVEN, f"{', '.join(known) or 'nothing else'}, from {again.source}"


def _find_first_other(value: Any, other: Any) -> str:
    """Return the first part of a value that differs, as text."""
    if isinstance(value, list) and isinstance(other, list):
        parts = [item for item in value if item not in other]
        if parts and isinstance(parts[0], dict):
            twin = next((o for o in other if isinstance(o, dict) and o.get("name") == parts[0].get("name")), {})
            return _find_first_other(parts[0], twin)
        return str(parts[0])[:_LONGEST] if parts else f"{len(value)} of them"
    if isinstance(value, dict) and isinstance(other, dict):
        name = f"{value['name']}: " if "name" in value else ""
        return name + ", ".join(f"{n} {v}" for n, v in value.items() if other.get(n) != v)[:_LONGEST]
    return "nothing" if value is None else str(value)[:_LONGEST]


def _verify_score(cell: Cell, record: Record, run: Record, asked: Detail, files: Files, answers: Files) -> Claim:
    claim, results = partial(Claim, str(cell), "accuracy"), find_recorded_format(run)
    try:
        again = results.recheck_score(files, answers, asked.ruling)
    except (LogError, ValueError) as error:
        return claim(Proof.CONTRADICTED, str(error))
    if again.missing:
        return claim(Proof.MISSING, f"not in this commit, or changed: {', '.join(again.missing)}")
    proof, detail = _compare(record.values.get("metric"), again.values.get("metric"), again.source)
    if proof is Proof.CONTRADICTED:
        return claim(proof, f"{detail}{f': {again.problem}' * bool(again.problem)}")
    met = again.values.get("accuracy_met")
    if met is not None and met != record.values.get("accuracy_met"):
        said = "that the limits are met" if record.values.get("accuracy_met") else "that a limit is not met"
        return claim(Proof.CONTRADICTED, f"recorded {said}, {again.source} says otherwise: {detail}")
    # A correction may change a round's limits and metrics, but not the measured values.
    found = {str(bar["metric"]): bar["measured"] for bar in again.values.get("bars", ())}
    for bar in record.values.get("bars", ()):
        if (name := str(bar["metric"])) in found and found[name] != bar["measured"]:
            why = f"values.bars: recorded {name} {bar['measured']}, {again.source} says {found[name]}"
            return claim(Proof.CONTRADICTED, why)
    return claim(Proof.ATTESTED, f"{detail}, as {results.SCORED_BY}")


def _compare(recorded: object, again: object, source: str) -> tuple[Proof, str]:
    """Compare a recorded value with the one derived from ``source``."""
    if again == recorded:
        return Proof.PROVEN, f"{_show(again)}, from {source}"
    return Proof.CONTRADICTED, f"recorded {_show(recorded)}, {source} says {_show(again)}"


def _show(value: object) -> str:
    return f"{value['value']} {value['unit']}" if isinstance(value, dict) else str(value)


# Records in the commit's history that the commit no longer has. Removing a valid run changes the policy's choice; a
# rewritten record contradicts its earlier version.

_FEW = 4  # number of fields to list
ORIGINAL, REMOVED_RUN = "original record", "performance: removed run"


def find_missing_runs(root: Path, at: Snapshot, appeared: Appearances) -> Iterator[Claim]:
    """Find performance runs that were removed from the history and could have been published."""
    cells = {at.records[i].key: cell for cell, chosen in at.difference.chosen.items() if (i := chosen.performance)}
    begins = {f"{RECORDS}/Run/{key[:12]}-" for key in cells}
    gone = {where: commit for where, commit in _list_gone(at, appeared) if where[0].rpartition("-")[0] + "-" in begins}
    contents = git.read_blobs(root, [blob for _, blob in gone])
    for (path, blob), commit in sorted(gone.items()):
        if blob in contents and (found := _read_valid_run(contents[blob], path)) and found[0] in cells:
            why = "and a later commit removed it; the policy might have published it"
            detail = f"{commit.id[:12]} added {path} ({found[1]}), {why}"
            yield Claim(str(cells[found[0]]), REMOVED_RUN, Proof.MISSING, detail)


def find_rewritten_records(
    root: Path, at: Snapshot, appeared: Appearances, only: Container[str] | None = None
) -> Iterator[Claim]:
    """Find records that replaced an earlier version of the same attempt, or of a run with the same log. A pass writes
    each attempt once; only a run refused by an older version may be recorded again, and imports may be declared again.
    Records that changed only because others were rewritten are not reported. ``only``: files of removed records to
    consider."""
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
        came = f"{path}, which {commit.id[:12]} added and a later commit removed"
        for identity in own.get((record.attempt, record.address), ()):
            now = at.records[identity]
            other = _list_other_fields(record, now)
            if other and follows(identity, path) and f"{RECORDS}/{now.supersedes}.json" != path:
                yield _claim_rewritten(now, identity, f"different {', '.join(other)} than {came}, of the same attempt")
        same_key = runs.get(record.key, ())
        again = [i for i in same_key if at.records[i].attempt != record.attempt and follows(i, path)]
        seen = _read_fingerprints(root, record, commit.id) if again else frozenset()
        for identity in again if seen else ():
            if seen & read_present(identity):
                detail = f"the log of {came}: the run was recorded again as started at {at.records[identity].started}"
                yield _claim_rewritten(at.records[identity], identity, detail)


def _claim_rewritten(record: Record, identity: str, detail: str) -> Claim:
    where = str(record.address.cell or "submission")
    what = f"{record.address.label}: {ORIGINAL}"
    return Claim(where, what, Proof.CONTRADICTED, f"{RECORDS}/{identity}.json has {detail}")


def _list_gone(at: Snapshot, appeared: Appearances) -> Iterator[tuple[tuple[str, str], Commit]]:
    for (path, blob), commit in appeared.items():
        identity = name_record(path)
        if path != identity and path.endswith(".json") and identity not in at.records and path not in at.damaged:
            yield (path, blob), commit


def _list_other_fields(before: Record, now: Record) -> list[str]:
    """List the changed fields or their changed entries, without references to other records."""
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
    """Read the fingerprints of the run's log, if that commit has the log."""
    digest = next((a.sha256 for a in record.artifacts if a.name == DETAIL and a.place == "logs"), "")
    data = git.read_file_at(root, f"{LOGS}/{digest}", commit, refuse=True) if digest else None
    try:
        return frozenset(find_fingerprints(parse_detail(data, DETAIL)) if data is not None else ())
    except LogError:
        return frozenset()


def _decode(data: bytes | None, path: str) -> Record | None:
    try:
        return decode(data, path) if data is not None else None
    except RecordError:
        return None


def note_shallow(root: Path) -> Iterator[Claim]:
    """Note a shallow clone, in which files removed from the history are invisible."""
    if git.is_shallow(root):
        detail = (
            "this clone is shallow, so runs and decisions removed earlier are invisible (run git fetch --unshallow)"
        )
        yield Claim("submission", "history", Proof.ATTESTED, detail)


def _read_valid_run(data: bytes, path: str) -> tuple[str, str] | None:
    """Return the key and figures of a valid performance run; None for other records."""
    record = _decode(data, path)
    if record is None:
        return None
    summary = summarize(record, path)
    if record.ended is not Ended.DONE or summary.metric is None or summary.validity == "INVALID":
        return None
    return record.key, f"{' '.join(summary.metric)} of {record.started}"


# One run presented as two: an earlier run's log with other dates, or the same log for another result.

DISTINCT = "distinct run"


def find_copies(at: Snapshot, logs: Logs) -> Iterator[Claim]:
    """Find logs of one run that are recorded as several runs."""
    counting = {i: str(cell) for cell in sorted(at.difference.chosen) for i in at.difference.chosen[cell].all}
    yield from _find_shared_logs(at, counting)
    yield from _find_recorded_twice(at)
    for group in _group_candidates(at):
        if counting.keys().isdisjoint(group):
            continue
        known = {identity: at.committed.summaries[identity] for identity in group}
        seen = {identity: _find_log_fingerprints(summary, logs) for identity, summary in known.items()}
        ordered = sorted(group, key=lambda i: (known[i].started, i))
        for one, other in _pair_alike(ordered, seen):
            cell = counting.get(other) or counting.get(one)
            if cell and set(seen[one].values()) != set(seen[other].values()):
                earlier, later = known[one], known[other]
                detail = f"its log has the latencies or the clock of {one}, started {earlier.started}, but other bytes"
                yield Claim(cell, f"{later.address.label}: {DISTINCT}", Proof.CONTRADICTED, detail)


def _find_shared_logs(at: Snapshot, counting: Mapping[str, str]) -> Iterator[Claim]:
    """Find runs that count for a cell although an earlier attempt, or the counting record of another cell, claims
    them."""
    for earlier, later in find_claimed_twice(at.desired, at.committed.summaries.values()):
        if later.id not in counting:
            continue
        # If there are two cells, either may have the original.
        pairs = [(earlier, later), (later, earlier)][earlier.address.cell == later.address.cell :]
        for run, copy in pairs:
            if run.id in counting:
                detail = f"its log is identical to that of {copy.id}, {copy.address} of {copy.started}"
                yield Claim(counting[run.id], f"{run.address.label}: {DISTINCT}", Proof.CONTRADICTED, detail)


def _find_recorded_twice(at: Snapshot) -> Iterator[Claim]:
    """Find runs recorded twice among the candidates for publication. Imports may contain a run twice."""
    for cell, chosen in sorted(at.difference.chosen.items(), key=lambda item: str(item[0])):
        published = at.committed.summaries.get(chosen.performance)
        first: dict[str, Summary] = {}
        for summary in select_valid(at.recorded.list_done(published.key)) if published is not None else ():
            digest = next((a.sha256 for a in summary.artifacts if a.name == DETAIL), "")
            one = first.setdefault(digest, summary) if digest and IMPORTED not in summary.marks else summary
            if one is not summary:
                detail = f"its log is identical to that of {one.id}: the run was recorded twice"
                what = f"{summary.address.label} of {summary.started}: {DISTINCT}"
                yield Claim(str(cell), what, Proof.CONTRADICTED, detail)


def _pair_alike(ordered: Sequence[str], seen: Mapping[str, Mapping[str, bytes]]) -> Iterator[tuple[str, str]]:
    """Yield pairs with a common fingerprint, in the given order. Thousands of runs may have the same result, so not all
    pairs are compared."""
    holders: dict[str, list[int]] = {}
    for number, identity in enumerate(ordered):
        for fingerprint in seen[identity]:
            holders.setdefault(fingerprint, []).append(number)
    pairs = {pair for numbers in holders.values() for pair in combinations(numbers, 2)}
    return ((ordered[one], ordered[other]) for one, other in sorted(pairs))


def _group_candidates(at: Snapshot) -> list[set[str]]:
    """Group the ids of records with different logs that may be of one run."""
    groups: dict[tuple[object, ...], dict[str, str]] = {}
    for identity, summary in at.committed.summaries.items():
        digest = next((a.sha256 for a in summary.artifacts if a.name == DETAIL), "")
        if not digest or summary.ended is not Ended.DONE:
            continue
        groups.setdefault(("address", summary.address), {})[identity] = digest
        if summary.metric is not None:
            groups.setdefault(("metric", *summary.metric), {})[identity] = digest
    found = {frozenset(group) for group in groups.values() if len(set(group.values())) > 1}
    return sorted(map(set, found), key=sorted)


def _find_log_fingerprints(record: Summary, logs: Logs) -> dict[str, bytes]:
    """Return fingerprint → the log with normalised line ends; empty if the log is missing or unreadable."""
    own = [a for a in record.artifacts if a.name == DETAIL and a.place == "logs"]
    good = logs.read(own)
    for data in good.values():
        try:
            return dict.fromkeys(find_fingerprints(parse_detail(data, DETAIL)), data.replace(b"\r\n", b"\n"))
        except LogError:
            continue
    return {}
