"""Report one cell for the page: the output of `show`, `why` and `logs`, every run, and the behaviour of its published
run."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.cli.logs import list_logs, render_log_part
from reconciler.cli.show import show_cell
from reconciler.diff.timeline import ChangeCause
from reconciler.errors import ReconcilerError
from reconciler.history.record_history import RecordHistory
from reconciler.history.why import explain
from reconciler.loadgen import keys
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import DETAIL
from reconciler.page.plan_snapshots import PlanSnapshot
from reconciler.reconcile.line_commits import show_line_commit
from reconciler.record.index import load_record
from reconciler.record.store import find_readable
from reconciler.render.cell import render_showing_part
from reconciler.render.documents import convert_plain_value, make_metric_document, render_cells_part, render_document
from reconciler.render.explanation import collect_origins, render_explanation_part, render_inputs_part
from reconciler.resource.kinds import PERFORMANCE, Cell, Kind
from reconciler.resource.records import TELEMETRY_LOG, Record, Summary
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.json_files import parse_json_lines
from reconciler.storage.untrusted_files import read_regular

_MEASURING = (Kind.RUN, Kind.SCORE, Kind.COMPLIANCE_TEST, Kind.VERDICT)
_MADE = (Kind.MODEL, Kind.ENGINE)
# Limited quantity → percentile → LoadGen's key.
_LATENCIES = {
    "latency": {"0": keys.RESULT_MIN_LATENCY_NS, **keys.RESULT_PERCENTILES, "100": keys.RESULT_MAX_LATENCY_NS},
    "TTFT": {
        "0": keys.FIRST_TOKEN_LATENCY["min"],
        **keys.FIRST_TOKEN_PERCENTILES,
        "100": keys.FIRST_TOKEN_LATENCY["max"],
    },
    "TPOT": {
        "0": keys.TIME_TO_OUTPUT_TOKEN["min"],
        **keys.OUTPUT_TOKEN_PERCENTILES,
        "100": keys.TIME_TO_OUTPUT_TOKEN["max"],
    },
}
_LARGEST_LOG = 64 << 20  # bytes; a longer log is not read for a page
_LONGEST_SERIES = 4 << 20
_POINTS = 600  # maximum length of a series
_COMPARED = 50  # latest runs, each of which is compared with the one before


def report_cell(look: PlanSnapshot, cell: Cell) -> dict[str, Any]:
    seen, lineage = look.seen, look.lineages[cell]
    showing = show_cell(look.paths, seen, look.declared, cell, lineage)
    explanation = explain(seen, cell, lineage)
    origins = collect_origins(explanation)
    lines = {origin: show_line_commit(look.commits[origin]) for origin in origins if origin in look.commits}
    parts = render_showing_part(showing)
    for name, setting in parts["settings"].items():
        commit = look.commits.get(showing.settings[name].origin)
        setting["commit"] = show_line_commit(commit) if commit is not None else ""
    for resource, shown in zip(parts["resources"], showing.resources, strict=True):
        resource["label"] = shown.address.label
    return render_document(
        "cell",
        **parts,
        status=render_cells_part([look.statuses[cell]], seen.plan)[0],
        why=render_explanation_part(explanation, lines),
        runs=list(_list_runs(look, cell)),
        made=list(_list_builds(look, cell)),
        performance=_describe_performance(look, cell),
        compliance=list(_list_tests(look, cell)),
        logs=[render_log_part(look.paths, log) for resource in lineage for log in list_logs(seen, resource)],
        tree=sorted(look.rendered.files.get(str(cell), {})),
    )


def _list_runs(look: PlanSnapshot, cell: Cell) -> Iterator[dict[str, Any]]:
    """Yield every attempt of the cell's measurements, oldest first. ``counts``: its record is the one that counts now;
    ``changes``: since the previous performance run."""
    changes = _list_changes(look, _list_performed(look, cell))
    chosen = set(look.seen.difference.recorded_as.values())
    keys = {resource.address: resource.key for resource in look.lineages[cell]}
    by_address = look.seen.recorded.by_address
    found = [s for r in look.lineages[cell] if r.kind in _MEASURING for s in by_address.get(r.address, ())]
    for summary in sorted(found, key=lambda item: item.started):
        yield {
            "address": str(summary.address),
            "what": summary.address.label,
            "performance": summary.address.mode == PERFORMANCE,
            "record": summary.id,
            "started": summary.started,
            "seconds": summary.seconds,
            "ended": summary.ended.value,
            "metric": make_metric_document(summary.metric),
            "efficiency": make_metric_document(summary.efficiency),
            "validity": summary.validity,
            "marks": list(summary.marks),
            "problem": summary.problem,
            "counts": summary.id in chosen,
            "same": summary.key == keys.get(summary.address),
            "changes": convert_plain_value(changes.get(summary.id, ())),
        }


def _list_performed(look: PlanSnapshot, cell: Cell) -> list[Summary]:
    """List the performance runs that measured something, oldest first."""
    by_address = look.seen.recorded.by_address
    runs = (r.address for r in look.lineages[cell] if r.kind is Kind.RUN and r.address.mode == PERFORMANCE)
    found = (summary for address in runs for summary in by_address.get(address, ()) if summary.metric)
    return sorted(found, key=lambda summary: summary.started)


def _list_changes(look: PlanSnapshot, runs: Sequence[Summary]) -> dict[str, tuple[ChangeCause, ...]]:
    """Map each record to its differences from the previous run: inputs (including those of engine and model), driver,
    code and machine."""
    runs, records = runs[-_COMPARED:], dict[str, Record]()
    wanted = [summary.id for summary in runs] if len(runs) > 1 else []
    while wanted:
        if (identity := wanted.pop()) not in records and (record := _load_record(look, identity)) is not None:
            records[identity] = record
            wanted += record.upstream.values()
    past = RecordHistory(look.paths.root, "", records, {}, frozenset(), look.spec_commits if records else {})
    return {after.id: past.list_causes(before.id, after.id) for before, after in itertools.pairwise(runs)}


def _list_builds(look: PlanSnapshot, cell: Cell) -> Iterator[dict[str, Any]]:
    """Yield the engine and the model, with their inputs and the values in their records."""
    for resource in look.lineages[cell]:
        if resource.kind in _MADE:
            record = _load_record(look, look.seen.difference.recorded_as.get(resource.address, ""))
            yield {
                "label": resource.address.label,
                "address": str(resource.address),
                "inputs": render_inputs_part(look.seen.desired.detail(resource.address).inputs),
                "values": _select_plain(record.values) if record else {},
            }


def _list_tests(look: PlanSnapshot, cell: Cell) -> Iterator[dict[str, Any]]:
    for resource in look.lineages[cell]:
        if resource.kind in (Kind.COMPLIANCE_TEST, Kind.VERDICT):
            identity = look.seen.difference.recorded_as.get(resource.address, "")
            record = _load_record(look, identity)
            yield {
                "label": resource.address.label,
                "record": identity,
                "values": _select_plain(record.values) if record else {},
            }


def _select_plain(values: Mapping[str, object]) -> dict[str, object]:
    """Select the values that fit on one line."""
    return {name: value for name, value in values.items() if isinstance(value, (str, int, float, bool))}


def _describe_performance(look: PlanSnapshot, cell: Cell) -> dict[str, Any] | None:
    """Describe the run that counts, or would count if it were valid; else the last one, which does not."""
    runs = (r.address for r in look.lineages[cell] if r.kind is Kind.RUN and r.address.mode == PERFORMANCE)
    if (address := next(runs, None)) is None:
        return None
    chosen = look.seen.difference.chosen.get(cell)
    counts = (chosen.performance if chosen else "") or look.seen.difference.recorded_as.get(address, "")
    identity = counts or next((summary.id for summary in reversed(_list_performed(look, cell))), "")
    record = _load_record(look, identity)
    return {**_describe_run(look, identity, record), "counts": bool(counts)} if record is not None else None


def report_run(look: PlanSnapshot, cell: Cell, identity: str) -> dict[str, Any]:
    """Describe another performance run of a cell. Raises ReconcilerError if there is no such run."""
    known = any(summary.id == identity for summary in _list_performed(look, cell))
    record = _load_record(look, identity) if known else None
    if record is None:
        raise ReconcilerError(f"{cell} has no performance run {identity!r}", fix="choose one from the list")
    return _describe_run(look, identity, record)


def _describe_run(look: PlanSnapshot, identity: str, record: Record) -> dict[str, Any]:
    """Describe a run's latencies, margins and telemetry."""
    telemetry = {n.removeprefix("telemetry."): f.value for n, f in record.facts.items() if n.startswith("telemetry.")}
    margins = record.values.get("margins") or []
    bounds = {what: m for m in margins for what in _LATENCIES if str(m.get("name")).endswith(f" {what}")}
    return {
        "record": identity,
        "metric": record.values.get("metric"),
        "validity": record.values.get("validity", ""),
        "reasons": record.values.get("reasons") or [],
        "suggestion": record.values.get("suggestion"),
        "started": record.started,
        "margins": margins,
        "bounds": bounds,
        "point": record.values.get("point"),
        "percentiles": _list_percentiles(look.paths, record),
        "telemetry": telemetry,
        "series": parse_series(_read_artifact(look.paths, record, TELEMETRY_LOG, _LONGEST_SERIES) or b""),
    }


def _load_record(look: PlanSnapshot, identity: str) -> Record | None:
    try:
        return load_record(look.paths, identity) if identity else None
    except ReconcilerError:
        return None


def _read_artifact(paths: RepositoryPaths, record: Record, name: str, limit: int) -> bytes | None:
    """Read a file of the run, if it is still here."""
    artifact = next((item for item in record.artifacts if item.name == name), None)
    try:
        return read_regular(find_readable(paths, artifact), limit) if artifact else None
    except (OSError, ReconcilerError):
        return None


def _list_percentiles(paths: RepositoryPaths, record: Record) -> list[tuple[str, str, float]]:
    """List (what, percentile, ms) as logged by LoadGen, with the minimum as 0 and the maximum as 100."""
    data = _read_artifact(paths, record, DETAIL, _LARGEST_LOG)
    try:
        log = parse_detail(data or b"", DETAIL)
    except ReconcilerError:
        return []
    named = {line.key: line.value for line in log.lines if line.key.startswith("result_")}
    found = ((what, rank, named.get(key)) for what, ranks in _LATENCIES.items() for rank, key in ranks.items())
    return [(what, rank, value / 1e6) for what, rank, value in found if isinstance(value, (int, float))]


def parse_series(data: bytes) -> list[dict[str, float]]:
    """Parse a run's telemetry and completed samples, lines of JSON, thinned out for a plot. Ignore an incomplete
    line."""
    found = parse_json_lines(data)
    most = sys.float_info.max
    rows = [{n: float(v) for n, v in row.items() if isinstance(v, (int, float)) and abs(v) <= most} for row in found]
    return rows[:: max(1, len(rows) // _POINTS)]
