"""What a commit says of its runs and scores, derived again from the files that they left."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.diff.claims import Claim, Proof
from reconciler.errors import LogError
from reconciler.history.dates import verify_order
from reconciler.history.logs import Good, Logs, read_record_files
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import DETAIL
from reconciler.reconcile.worker import TOOL
from reconciler.resource.kinds import PERFORMANCE, Cell, Kind
from reconciler.resource.records import IMPORTED, REHEARSAL, Record
from reconciler.rules.results.format import Recheck
from reconciler.rules.results.table import find_recorded_format

Files = Mapping[str, bytes]
# What a record may say that follows from its log alone, and so may be there only where it does.
_DERIVED = frozenset({"validity", "metric", "reasons", "margins", "suggestion", "inferred", "findings"})
_LONGEST = 120  # characters of a value that is quoted
_RELEASE = re.compile(rb'^:::MLLOG \{"key": "loadgen_version", "value": "([^"\\]{1,80})"', re.MULTILINE)


def verify_runs(cell: Cell, name: str, record: Record, at: Snapshot, logs: Good) -> Iterator[Claim]:
    """Settings of a run or a test, the result of the performance run, accuracy of a score; nothing of other records."""
    files = read_record_files(record, logs)
    if record.address.kind is Kind.SCORE:
        run = at.records.get(at.difference.chosen[cell].accuracy)
        yield _score(
            cell, record, run or record, _detail(record, at), files, read_record_files(run, logs) if run else {}
        )
    elif "mode" in record.inputs:
        yield from _run(cell, name, record, _detail(record, at), files)


def verify_candidates(cell: Cell, published: Record, at: Snapshot, logs: Logs) -> Iterator[Claim]:
    """Of the performance runs that the policy passed over: whether their logs say what their records say. A worse run
    whose record calls it INVALID would make room for a better one."""
    own = at.difference.chosen[cell].performance
    for summary in at.recorded.done(published.key):
        record = at.records[summary.id]
        if summary.id == own or record.address.kind is not Kind.RUN:
            continue
        good = logs.read(a for a in (*record.artifacts, *published.artifacts) if a.place == "logs")
        name = f"performance of {record.started}, not published"
        for claim in verify_runs(cell, name, record, at, good):
            if not claim.what.endswith(": settings"):
                yield claim
        yield from verify_order(cell, name, record, published, good)


def verify_release(cell: Cell, name: str, record: Record, logs: Good) -> Iterator[Claim]:
    """The LoadGen that the record names, by its version, is the one that wrote the log."""
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


def _detail(record: Record, at: Snapshot) -> Detail:
    """Of the resource it is chosen for; of an inferred cell's records that is another cell's."""
    declared = at.declared(record)
    return at.desired.detail(declared.address) if declared else Detail(())


def _run(cell: Cell, name: str, record: Record, asked: Detail, files: Files) -> Iterator[Claim]:
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
    except KeyError as error:  # a record may come from anybody's branch
        yield claim(f"{name}: settings", Proof.CONTRADICTED, f"the inputs that it lists lack {error}")
        return
    if record.address.kind is Kind.COMPLIANCE_TEST:  # it may be too short for LoadGen, which does not matter
        again = replace(again, values={n: again.values[n] for n in again.values.keys() & record.values.keys()})
    if again.missing:
        lost = f"{', '.join(again.missing)} is not in this commit as recorded"
        yield from (claim(f"{name}: {what}", Proof.MISSING, lost) for what in ("settings", *measured))
        return
    proof = Proof.CONTRADICTED if again.differing else Proof.PROVEN
    yield claim(f"{name}: settings", proof, "; ".join(again.differing) or again.shown)
    for key in measured:
        recorded = record.values.get(key)
        if (
            key == "metric" and recorded != again.values[key] and recorded in again.other_metrics
        ):  # a round's unit may be corrected
            detail = f"{_shown(recorded)}, from {again.source}; the rules of today publish {_shown(again.values[key])}"
            yield claim(f"{name}: {key}", Proof.ATTESTED, detail)
            continue
        yield claim(f"{name}: {key}", *_compare(recorded, again.values[key], again.source))
    if timed or again.values:
        yield claim(f"{name}: derived values", *_compare_derived(record, again, leave=measured))


def _compare_derived(record: Record, again: Recheck, leave: Container[str] = ()) -> tuple[Proof, str]:
    """All else that was derived of the files, whole. Another version of this program may have put it into other words,
    and known fewer of these values."""
    own = record.tool == TOOL
    names = sorted(again.values.keys() | (record.values.keys() & _DERIVED))
    known = [name for name in names if name not in leave and (name in record.values or own)]
    for name in known:
        recorded, derived = record.values.get(name), again.values.get(name)
        if name in again.partial and isinstance(recorded, list) and all(item in recorded for item in derived or ()):
            continue
        if recorded != derived:
            proof = Proof.CONTRADICTED if own else Proof.MISSING
            recorded_part, derived_part = (_find_first_other(v, w) for v, w in _pair(recorded, derived))
            version = "" if own else f", as {record.tool or 'another version'} derived it"
            return proof, f"values.{name}: recorded {recorded_part}, {again.source} says {derived_part}{version}"
    return Proof.PROVEN, f"{', '.join(known) or 'nothing else'}, from {again.source}"


def _pair(one: Any, other: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    return (one, other), (other, one)


def _find_first_other(value: Any, other: Any) -> str:
    """The part of a value that another does not share, as text."""
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


def _score(cell: Cell, record: Record, run: Record, asked: Detail, files: Files, answers: Files) -> Claim:
    claim, results = partial(Claim, str(cell), "accuracy"), find_recorded_format(run)
    try:
        again = results.recheck_score(files, answers, asked.ruling)
    except (LogError, ValueError) as error:
        return claim(Proof.CONTRADICTED, str(error))
    if again.missing:
        return claim(Proof.MISSING, f"{', '.join(again.missing)} is not in this commit as recorded")
    proof, detail = _compare(record.values.get("metric"), again.values.get("metric"), again.source)
    if proof is Proof.CONTRADICTED:
        return claim(proof, f"{detail}{f': {again.problem}' * bool(again.problem)}")
    met = again.values.get("accuracy_met")
    if met is not None and met != record.values.get("accuracy_met"):
        said = "that the bars are met" if record.values.get("accuracy_met") else "that a bar is not met"
        return claim(Proof.CONTRADICTED, f"recorded {said}, {again.source} says otherwise: {detail}")
    # A round's limits may be corrected, and other metrics be asked for: only what was measured stays.
    found = {str(bar["metric"]): bar["measured"] for bar in again.values.get("bars", ())}
    for bar in record.values.get("bars", ()):
        if (name := str(bar["metric"])) in found and found[name] != bar["measured"]:
            why = f"values.bars: recorded {name} {bar['measured']}, {again.source} says {found[name]}"
            return claim(Proof.CONTRADICTED, why)
    return claim(Proof.ATTESTED, f"{detail}, as {results.SCORED_BY}")


def _compare(recorded: object, again: object, source: str) -> tuple[Proof, str]:
    """A recorded value against what ``source`` says of it."""
    if again == recorded:
        return Proof.PROVEN, f"{_shown(again)}, from {source}"
    return Proof.CONTRADICTED, f"recorded {_shown(recorded)}, {source} says {_shown(again)}"


def _shown(value: object) -> str:
    return f"{value['value']} {value['unit']}" if isinstance(value, dict) else str(value)
