"""Audits one commit from git's objects alone: no artifact, no library of a backend, no network.

Every record is checked against its name and its key, every log against its digest; metrics and verdicts are derived
again from the logs, and the tree is rendered again from both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reconciler.diff.change import Chosen
from reconciler.diff.choose import differing
from reconciler.diff.claims import Audit, Claim, Proof
from reconciler.diff.difference import ALLOWED_TO_DIFFER, published_cells
from reconciler.errors import LogError
from reconciler.execute.finish import asked, judge_text, performance_values
from reconciler.execute.importing import asked_elsewhere
from reconciler.history.logs import FOLDER, Logs
from reconciler.history.rendered import tree_claims
from reconciler.history.results import of_endpoints, result_claims, score_claim
from reconciler.history.snapshot import Snapshot
from reconciler.history.verdicts import imported_claims, verdict_claim
from reconciler.mlperf.contradictions import contradictions
from reconciler.mlperf.log import parse_detail
from reconciler.mlperf.log_names import ACCURACY_TEXT, DETAIL
from reconciler.record.codec import summarize
from reconciler.render.decisions import acceptance_text
from reconciler.resource.inputs import Input, make_key
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.records import IMPORTED, UNKNOWN, Record


def audit(root: Path, at: Snapshot) -> Audit:
    """Every claim that the commit makes, in a fixed order."""
    logs = Logs.of(root, at.commit)
    claims = [Claim(path, "record", Proof.CONTRADICTED, why) for path, why in sorted(at.damaged.items())]
    published = published_cells(at.difference.chosen)
    for cell in sorted(at.difference.chosen):
        claims += _cell(cell, at, logs, published=str(cell) in published)
    claims += tree_claims(root, at, logs)
    return Audit(at.commit, tuple(claims), len(at.records), len(logs.checked))


def _cell(cell: Cell, at: Snapshot, logs: Logs, *, published: bool) -> Iterator[Claim]:
    chosen = at.difference.chosen[cell]
    if not published:
        yield Claim(str(cell), "result", Proof.MISSING, _why_missing(cell, at))
    runs = (("performance", chosen.performance), ("accuracy", chosen.accuracy), ("score", chosen.score), *chosen.tests)
    records = [(name, at.records[i]) for name, i in runs if i in at.records]
    verdicts = [(name, at.records[i]) for name, i in chosen.verdicts if i in at.records]
    needed = [a for _, record in [*records, *verdicts] for a in record.artifacts if a.place == "logs"]
    good = logs.read(needed)
    for name, record in records:
        came_whole = record.address.kind is Kind.COMPLIANCE_TEST and IMPORTED in record.marks
        if not came_whole:
            yield _inputs(cell, name, record, at)
        yield from _digests(cell, name, record, logs)
        yield from imported_claims(cell, name, record, chosen, at, good) if came_whole else ()
        yield from _derived(cell, name, record, at, good)
        yield from _elsewhere(cell, name, record)
    for name, record in verdicts:
        yield _inputs(cell, f"{name} verdict", record, at)
        yield from _digests(cell, f"{name} verdict", record, logs)
        yield verdict_claim(cell, name, record, chosen, at, good)
    yield from _evidence(cell, chosen, at)


def _why_missing(cell: Cell, at: Snapshot) -> str:
    findings = [f.message for f in at.difference.findings if f.where == str(cell)]
    due = [f"{c.address.label}: {c.reason}" for c in at.difference.changes if c.address.cell == cell]
    return "; ".join([*findings, *due]) or "nothing is recorded for it"


def _inputs(cell: Cell, name: str, record: Record, at: Snapshot) -> Claim:
    """The record's key follows from the inputs it lists, and the commit's spec asks for that very key."""
    inputs = [Input(n, i.value) for n, i in record.inputs.items()]
    what = f"{name}: inputs"
    if make_key(record.address.kind, inputs) != record.key:
        return Claim(str(cell), what, Proof.CONTRADICTED, "the key is not that of the inputs it lists")
    addresses = (record.address, *record.shared)
    wanted = {at.desired.by_address[a].key for a in addresses if a in at.desired.by_address}
    if record.key not in wanted:
        if accepted := _accepted(record, at):
            return Claim(str(cell), what, Proof.ACCEPTED, accepted)
        return Claim(str(cell), what, Proof.CONTRADICTED, "the spec of this commit asks for other inputs")
    return Claim(str(cell), what, Proof.PROVEN, f"{len(inputs)} inputs give key {record.key[:12]}, as the spec does")


def _accepted(record: Record, at: Snapshot) -> str:
    """By whom, why and until when the record counts for other inputs; "" when nobody decided so."""
    acceptance = at.difference.accepted.get(record.address.cell) if record.address.cell else None
    if acceptance is None or (record.address, record.key) not in {(k.address, k.before) for k in acceptance.keys}:
        return ""
    return f"not those that the spec asks for: {acceptance_text(acceptance)}"


def _digests(cell: Cell, name: str, record: Record, logs: Logs) -> Iterator[Claim]:
    texts = {
        Proof.PROVEN: "SHA-256 {0}",
        Proof.CONTRADICTED: "the bytes are not those that were recorded as {0}",
        Proof.MISSING: f"{FOLDER}/{{0}} is not in this commit",
    }
    for artifact in record.artifacts:
        if artifact.place == "logs":
            proof = logs.checked[artifact.sha256]
            yield Claim(str(cell), f"{name}: {artifact.name}", proof, texts[proof].format(artifact.sha256[:12]))


def _derived(cell: Cell, name: str, record: Record, at: Snapshot, good: Mapping[str, bytes]) -> Iterator[Claim]:
    files = _files(record, good)
    accuracy = at.records.get(at.difference.chosen[cell].accuracy)
    if record.address.kind is Kind.SCORE and accuracy is not None and of_endpoints(accuracy):
        yield score_claim(cell, record, _settings(record, at), _files(accuracy, good))
    elif of_endpoints(record):
        yield from result_claims(cell, name, record, _settings(record, at), files)
    elif record.address.kind is Kind.SCORE:
        yield _score(cell, record, at, files.get(ACCURACY_TEXT))
    elif "mode" in record.inputs:
        yield from _run(cell, name, record, at, files.get(DETAIL))


def _files(record: Record, good: Mapping[str, bytes]) -> dict[str, bytes]:
    return {a.name: good[a.sha256] for a in record.artifacts if a.sha256 in good}


def _score(cell: Cell, record: Record, at: Snapshot, text: bytes | None) -> Claim:
    if text is None:
        return Claim(str(cell), "accuracy", Proof.MISSING, f"{ACCURACY_TEXT} is not in this commit as recorded")
    again = judge_text(text.decode(errors="replace"), _settings(record, at), {})
    metric = record.values.get("metric") or {}
    shown = f"{metric.get('value', '?')} {metric.get('unit', '')}"
    if again.values.get("metric") == record.values.get("metric"):
        return Claim(str(cell), "accuracy", Proof.ATTESTED, f"{shown}, as the scorer wrote it")
    detail = f"recorded {shown}, {ACCURACY_TEXT} says {again.values or again.problem}"
    return Claim(str(cell), "accuracy", Proof.CONTRADICTED, detail)


def _run(cell: Cell, name: str, record: Record, at: Snapshot, data: bytes | None) -> Iterator[Claim]:
    """The settings of a run or a test; of the performance run its result too."""
    values = {n: i.value for n, i in record.inputs.items()}
    mode = str(values["mode"])
    measured = ("validity", "metric") if record.address.kind is Kind.RUN and mode == "performance" else ()
    if data is None:
        lost = f"{DETAIL} is not in this commit as recorded"
        yield from (Claim(str(cell), f"{name}: {what}", Proof.MISSING, lost) for what in ("settings", *measured))
        return
    wanted = asked_elsewhere(values, mode) if IMPORTED in record.marks else asked(values, mode)
    try:
        log = parse_detail(data, DETAIL)
        found = contradictions(log, wanted)
    except LogError as error:
        yield Claim(str(cell), f"{name}: settings", Proof.CONTRADICTED, str(error))
        return
    proof = Proof.CONTRADICTED if found else Proof.PROVEN
    detail = "; ".join(map(str, found)) or f"LoadGen's log shows every setting{', and the seeds' * bool(wanted.seeds)}"
    yield Claim(str(cell), f"{name}: settings", proof, detail)
    if measured:
        yield from _measured(cell, name, record, performance_values(log, _settings(record, at)), measured)


def _settings(record: Record, at: Snapshot) -> Mapping[str, Any]:
    """Of the resource it is chosen for; of an inferred cell's records that is another cell's."""
    return at.desired.detail(next(a for a in (record.address, *record.shared) if a in at.desired.by_address)).settings


def _measured(
    cell: Cell, name: str, record: Record, again: Mapping[str, object], keys: Iterable[str]
) -> Iterator[Claim]:
    for key in keys:
        shown, recorded = _shown(again[key]), _shown(record.values.get(key))
        same = again[key] == record.values.get(key)
        detail = f"{shown}, from {DETAIL}" if same else f"recorded {recorded}, the log says {shown}"
        yield Claim(str(cell), f"{name}: {key}", Proof.PROVEN if same else Proof.CONTRADICTED, detail)


def _elsewhere(cell: Cell, name: str, record: Record) -> Iterator[Claim]:
    """What no log of an imported run proves: as a person declared it, or known to nobody."""
    if IMPORTED not in record.marks or record.address.kind is Kind.COMPLIANCE_TEST:
        return
    unknown = [mark.removeprefix(UNKNOWN) for mark in record.marks if mark.startswith(UNKNOWN)]
    declared = record.values.get("imported", {}).get("declared", {})
    if unknown:
        yield Claim(str(cell), f"{name}: made from", Proof.MISSING, f"nobody has declared its {', '.join(unknown)}")
    elif declared:
        yield Claim(str(cell), f"{name}: made from", Proof.ATTESTED, f"{', '.join(declared)} as declared by a person")


def _shown(value: object) -> str:
    return f"{value['value']} {value['unit']}" if isinstance(value, dict) else str(value)


def _evidence(cell: Cell, chosen: Chosen, at: Snapshot) -> Iterator[Claim]:
    pair = [at.records.get(chosen.performance), at.records.get(chosen.accuracy)]
    if pair[0] is None or pair[1] is None:
        return
    one, other = summarize(pair[0], chosen.performance), summarize(pair[1], chosen.accuracy)
    unequal = differing(one, other, ALLOWED_TO_DIFFER)
    proof = Proof.CONTRADICTED if unequal else Proof.PROVEN
    names = ", ".join(name for name, _, _ in unequal)
    detail = f"differs: {names}" if unequal else f"{len(one.evidence)} facts equal (engine bytes, code, versions)"
    yield Claim(str(cell), "runs that count together", proof, detail)
