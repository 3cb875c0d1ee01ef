"""The spec of an adopted tree: one sorted file, with a comment wherever something was left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.importing.read_tree import TakenTree, collect_cell_settings
from reconciler.importing.run_reader import TakenCell
from reconciler.loadgen import keys
from reconciler.loadgen.settings import DURATIONS
from reconciler.resource.kinds import SCENARIOS, Cell
from reconciler.resource.quantities import is_whole
from reconciler.rules.ruleset import Ruleset, normalise_category
from reconciler.spec.edit import render_value

_ELSEWHERE = ("division", "submitter", "status", "system_type")
_OF_MODEL = ("retraining", "starting_weights_filename", "weight_transformations")
_OF_DATA = ("input_data_types", "weight_data_types")
_NANOSECONDS = 1_000_000


def render_spec(
    tree: TakenTree,
    ruleset: Ruleset,
    chosen: Iterable[TakenCell],
    left_out: Mapping[str, str],
    published: Mapping[str, Any],
) -> Iterator[str]:
    """Yield the lines of the spec. ``chosen``: cells to declare. ``left_out``: cell or file → the reason.
    ``published``: {"calibration": path, "checker_log": path, "source": {benchmark: path}, "original": {system: path},
    "nameplate": {system: path}} of the files copied to the spec's folder."""
    cells = sorted(chosen, key=lambda item: (*_get_place(item), SCENARIOS.index(item.cell.scenario)))
    yield from render_head(f"a submission tree of round {tree.ruleset.round}", tree.submitter, left_out)
    yield f"  round: {ruleset.round}"
    yield f"  submitter: {render_value(tree.submitter)}"
    if tree.rehearsal:
        yield "  rehearsal: true          # marked for ever: takes runs that the round would refuse"
    if documents := {name: published[name] for name in ("calibration", "checker_log") if name in published}:
        yield f"  documents: {render_value(documents)}"
    yield ""
    yield "  systems:"
    for name in sorted({item.cell.system for item in cells}):
        kept = (str(published.get(kind, {}).get(name, "")) for kind in ("original", "nameplate"))
        hardware = next((item.hardware for item in cells if item.cell.system == name and item.hardware), {})
        yield from _render_system(name, tree.systems[name], hardware, *kept)
    yield ""
    yield "  benchmarks:"
    for name in sorted({item.cell.benchmark for item in cells}):
        own = [item for item in cells if item.cell.benchmark == name]
        yield from _render_benchmark(name, own, published.get("source", {}).get(name, ""))
    yield ""
    yield "  divisions:"
    yield from _render_divisions(cells, ruleset)


def render_head(what: str, submitter: str, left_out: Mapping[str, str]) -> Iterator[str]:
    """Render the part before `spec:`. ``what``: the adopted object."""
    yield f"# Adopted from {what}. Its runs are recorded as imported: what no"
    yield "# log can prove of them is unknown, until `reconcile import --cell CELL --declare NAME=VALUE` says it."
    if left_out:
        yield "#"
        yield "# Not adopted:"
        yield from (f"# - {name}: {' '.join(why.split())}" for name, why in sorted(left_out.items()))
    yield ""
    yield "apiVersion: mlperf-reconciler/v1"
    yield "kind: Submission"
    yield f"metadata: {{name: {render_value(_make_name(submitter))}}}"
    yield "spec:"


def _render_system(
    name: str, values: Mapping[str, Any], hardware: Mapping[str, Any], original: str, nameplate: str
) -> Iterator[str]:
    yield f"    {render_value(name)}:"
    yield f"      category: {render_value(normalise_category(str(values['system_type'])))}"
    yield f"      status: {render_value(str(values.get('status', '')).lower())}"
    if hardware:
        yield f"      hardware: {render_value(hardware)}"
    if original:
        yield f"      original: {render_value(original)}      # kept byte for byte as long as it says the same"
    if nameplate:
        yield f"      nameplate: {render_value(nameplate)}"
    yield from render_description({field: values[field] for field in sorted(values) if field not in _ELSEWHERE})


def render_description(values: Mapping[str, Any]) -> Iterator[str]:
    yield "      description:"
    for field, value in values.items():
        yield f"        {render_value(field)}: {_render_scalar(value)}"


def _render_benchmark(name: str, cells: list[TakenCell], source: str) -> Iterator[str]:
    yield f"    {render_value(name)}:"
    if cells[0].official != name:
        yield f"      as: {render_value(cells[0].official)}"
    shared, known = _list_shared(cells), _find_shared_settings(cells)
    if not any(item.measured_with for item in cells):
        yield "      code: external           # measured elsewhere; name your own code to go on from here"
        yield "      engine: {backend: external}"
    if source:
        yield f"      source: {render_value(source)}"
    model = {field: shared[field] for field in _OF_MODEL if shared.get(field)} | dict(known.pop("model", {}))
    data = {field: shared[field] for field in _OF_DATA if shared.get(field)}
    yield from (f"      {name}: {render_value(value)}" for name, value in known.items())
    if model:
        yield f"      model: {render_value(model)}"
    if data:
        yield f"      measurements: {render_value(data)}"


def _list_shared(cells: list[TakenCell]) -> dict[str, str]:
    """Return the measurements common to all of a benchmark's cells."""
    first = cells[0].measurements
    return {n: v for n, v in first.items() if v.strip() and all(item.measurements.get(n) == v for item in cells)}


def _find_shared_settings(cells: list[TakenCell]) -> dict[str, Any]:
    """Return the settings in our own tree with which all of a benchmark's cells were measured."""
    first, *others = [item.measured_with for item in cells if item.source is None] or [{}]
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def _render_divisions(cells: list[TakenCell], ruleset: Ruleset) -> Iterator[str]:
    seen: tuple[str, ...] = ()
    shared = {
        name: _list_shared([c for c in cells if c.cell.benchmark == name]) for name in {c.cell.benchmark for c in cells}
    }
    for item in cells:
        place = _get_place(item)
        for depth, part in enumerate(place):
            if seen[: depth + 1] != place[: depth + 1]:
                yield f"{'  ' * (depth + 2)}{render_value(part)}:"
        seen = place
        known = _find_shared_settings([c for c in cells if c.cell.benchmark == item.cell.benchmark])
        own = {name: value for name, value in item.measured_with.items() if name not in known}
        yield f"          {item.cell.scenario}: {_render_settings(item, ruleset, shared[item.cell.benchmark], own)}"


def _render_settings(
    item: TakenCell, ruleset: Ruleset, shared: Mapping[str, str], measured_with: Mapping[str, Any]
) -> str:
    if item.source is not None:
        return f"{{infer_from: {item.source.scenario}}}"
    values: dict[str, Any] = {n: add_unit(n, v) for n, v in collect_cell_settings(item, ruleset).items()}
    own = {
        name: item.measurements[name]
        for name in (*_OF_DATA, *_OF_MODEL)
        if item.measurements.get(name, "").strip() and name not in shared
    }
    if own:
        values["measurements"] = own
    if item.power:
        values["power"] = name_power_folder(item.cell)
    values |= measured_with
    if item.harness:
        values["harness"] = {**values.get("harness", {}), **item.harness}
    return render_value(values)


def name_power_folder(cell: Cell) -> str:
    """Return the folder in the repository for a cell's power measurement."""
    return f"power/{cell}"


def add_unit(name: str, value: Any) -> Any:
    """Add the unit that a spec requires to the value of a setting."""
    if name in DURATIONS:
        return f"{value} ms" if value else 0
    if name == keys.TARGET_LATENCY:
        return f"{value // _NANOSECONDS} ms" if value % _NANOSECONDS == 0 else f"{value} ns"
    if name == keys.TARGET_QPS:
        return f"{value} /s"
    return value


def _render_scalar(value: Any) -> str:
    if is_whole(value):
        return render_value(value)  # a count stays a number in the rendered description
    if isinstance(value, bool):
        return render_value("true" if value else "false")
    if isinstance(value, (dict, list)):
        return render_value(json.dumps(value, sort_keys=True, ensure_ascii=False))
    return render_value("" if value is None else " ".join(str(value).split()))


def _get_place(item: TakenCell) -> tuple[str, str, str]:
    return item.cell.division, item.cell.system, item.cell.benchmark


def _make_name(submitter: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", submitter).strip("-._") or "adopted"
