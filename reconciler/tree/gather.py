"""From desired resources and the published records to the content of the tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from reconciler.desired.state import Desired
from reconciler.diff.change import Chosen
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Record
from reconciler.tree.content import AccuracyLog, CellContent, LogRef, SubmissionContent, SystemContent

ACCURACY_LOG, TRUNCATED = "mlperf_log_accuracy.json", "mlperf_log_accuracy.truncated.json"
_LOGS = ("mlperf_log_summary.txt", "mlperf_log_detail.txt")
_SHOWN = ("engine.", "run.", "target_", "min_", "max_", "performance_sample_count", "accuracy_sample_count")


def gather(
    desired: Desired,
    chosen: Mapping[Cell, Chosen],
    load_record: Callable[[str], Record],
    load_text: Callable[[LogRef], str],
) -> SubmissionContent:
    """``chosen`` holds publishable cells only. Every system with a publishable cell gets its description."""
    submission = next(r for r in desired.resources if r.kind is Kind.SUBMISSION)
    settings = desired.detail(submission.address).settings
    cells = tuple(_cell(cell, records, desired, load_record, load_text) for cell, records in sorted(chosen.items()))
    pairs = sorted({(cell.cell.division, cell.cell.system) for cell in cells})
    systems = tuple(_system(name, division, settings["systems"][name]) for division, name in pairs)
    return SubmissionContent(str(settings["submitter"]), systems, cells)


def _system(name: str, division: str, system: Mapping[str, Any]) -> SystemContent:
    values = system["settings"]
    category, status = str(values.get("system.category", "")), str(values.get("system.status", ""))
    return SystemContent(name, division, category, status, system["description"])


def _refs(record: Record) -> dict[str, LogRef]:
    return {a.name: LogRef(a.sha256, a.size) for a in record.artifacts}


def _cell(
    cell: Cell,
    chosen: Chosen,
    desired: Desired,
    load_record: Callable[[str], Record],
    load_text: Callable[[LogRef], str],
) -> CellContent:
    performance, accuracy = _refs(load_record(chosen.performance)), _refs(load_record(chosen.accuracy))
    score = _refs(load_record(chosen.score))
    settings = desired.detail(Address(Kind.RESULT, str(cell))).settings
    return CellContent(
        cell=cell,
        official=str(settings.get("benchmark.official", cell.benchmark)),
        measurements=_measurements(settings),
        user_conf=performance["user.conf"],
        performance={name: performance[name] for name in _LOGS},
        accuracy={name: accuracy[name] for name in _LOGS},
        accuracy_log=AccuracyLog(original=accuracy[ACCURACY_LOG], kept=accuracy[TRUNCATED]),
        accuracy_text=load_text(score["accuracy.txt"]),
        settings={n: str(v) for n, v in sorted(settings.items()) if n.startswith(_SHOWN)},
        code=_code(settings),
    )


def _code(settings: Mapping[str, Any]) -> str:
    path, name = settings.get("benchmark.path"), settings.get("benchmark.code")
    # A path outside the repository would be one machine's own; its file name is all that others can use.
    return f"`{PurePosixPath(str(path)).name}`" if path else f"`harness/benchmarks/{name}.py` of mlperf-reconciler"


def _measurements(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The declared fields, over what the settings themselves say."""
    path = settings.get("model.path")
    own = {
        "weight_data_types": settings.get("engine.precision"),
        "starting_weights_filename": PurePosixPath(str(path)).name if path else None,
    }
    prefix = "measurements."
    declared = {name.removeprefix(prefix): v for name, v in settings.items() if name.startswith(prefix)}
    return {**{name: value for name, value in own.items() if value}, **declared}
