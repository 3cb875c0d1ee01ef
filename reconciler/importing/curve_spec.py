"""The spec of an adopted Endpoints submission: its curves, with what nothing but its own documents can tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.importing.adopted_spec import render_description, render_head
from reconciler.importing.read_curves import VERSION, TakenCurve, TakenCurves
from reconciler.importing.run_reader import TakenCell
from reconciler.mlperf.endpoints_accuracy import parse_number
from reconciler.mlperf.endpoints_program.regions import derive_regions, match_bands
from reconciler.mlperf.endpoints_program.rules import CurveRules, load_endpoints_rules
from reconciler.quantities import is_whole
from reconciler.resource.kinds import Cell
from reconciler.spec.edit import render_value
from reconciler.spec.endpoints_models import OFFLINE
from reconciler.tree.curve.content import WarmupContent
from reconciler.tree.curve.description import summarise_deployment
from reconciler.tree.curve.layout import DOCUMENTS, SOURCES
from reconciler.tree.curve.point_file import show_warmup

# Of a point.yaml what a rendering takes from elsewhere than `disclosure`, and what it does not show.
_DISCLOSED = (
    *("model_precision", "link_to_model", "link_to_model_transformation", "model_notes"),
    *("dataset_name", "dataset_type", "dataset_link", "target_cohort"),
)
# Of a system_desc.json what follows from the rest of the spec, or is computed.
_FOLLOWING = (
    *("division", "system_availability_status", "max_supported_concurrency", "node_types", "tps_utilization"),
    *("submitter", "status", "system_type", "c_min_override"),
)
_ENSEMBLE, _ACCELERATORS = "system_node_ensemble_id", "accelerator_info"
_SHORTFALL = {"dp_actual": "replicas", "dp_formula": "fitting", "reason": "reason"}
_TIMES = ("min_duration", "max_duration")
_MICROSECONDS = 10**6


def render_curves_spec(
    tree: TakenCurves, cells: Collection[TakenCell], left_out: Mapping[str, str], files: Collection[str]
) -> str:
    """``cells``: those to declare. ``left_out``: cell or file → why it is not. ``files``: what was copied beside the
    spec."""
    chosen = {item.cell: item for item in cells}
    kept = [curve for curve in tree.curves if any(curve.name_cell(point) in chosen for point in curve.all_points)]
    return "".join(f"{line}\n" for line in _lines(tree, kept, chosen, left_out, files))


def _lines(
    tree: TakenCurves,
    curves: list[TakenCurve],
    cells: Mapping[Cell, TakenCell],
    left_out: Mapping[str, str],
    files: Collection[str],
) -> Iterator[str]:
    rules = load_endpoints_rules(VERSION)
    yield from render_head(f"an Endpoints submission, rules {VERSION}", tree.submitter, left_out)
    yield "  program: endpoints"
    yield f"  round: {VERSION}"
    yield f"  submitter: {render_value(tree.submitter)}"
    if tree.rehearsal:
        yield "  rehearsal: true          # marked for ever: takes runs that the rules would refuse"
    if any(name.startswith(f"{DOCUMENTS}/") for name in files):
        yield f"  documents: {{folder: {DOCUMENTS}}}"
    yield ""
    yield "  systems:"
    for name, curve in {curve.system: curve for curve in reversed(curves)}.items():
        typed = any("nodes_used" in stated for cell, stated in tree.stated.items() if cell.system == name)
        yield from _system(name, curve.description, rules, files, typed=typed)
    yield ""
    yield "  benchmarks:"
    for name, curve in {curve.benchmark: curve for curve in reversed(curves)}.items():
        yield f"    {render_value(name)}:"
        yield f"      as: {render_value(curve.official)}"
        yield "      code: external           # measured elsewhere; name your own client to go on from here"
        if any(path.startswith(f"{SOURCES}/{name}/") for path in files):
            yield f"      source: {render_value(f'{SOURCES}/{name}')}"
    yield ""
    yield "  divisions:"
    yield from _divisions(tree, curves, cells, rules)


def _system(
    name: str, stated: Mapping[str, Any], rules: CurveRules, files: Collection[str], *, typed: bool
) -> Iterator[str]:
    """``typed``: points name the types of node that they use, also where there is but one."""
    yield f"    {render_value(name)}:"
    yield "      category: datacenter"
    yield f"      status: {render_value(str(stated.get('system_availability_status', '')).strip().lower())}"
    if (power := f"systems/{name}_power.json") in files:
        yield f"      nameplate: {render_value(power)}      # published as system_power.json"
    nodes = stated.get("node_types")
    types = [_flatten_node(node) for node in nodes if isinstance(node, Mapping)] if isinstance(nodes, list) else []
    alone = types[0] if len(types) == 1 and not typed else {}
    apart = {*_FOLLOWING, *rules.words("per_point_description")}
    own = {field: value for field, value in stated.items() if field not in apart and _is_scalar(value)}
    yield from render_description({**own, **{n: v for n, v in alone.items() if (n, v) != (_ENSEMBLE, 1)}})
    if types and not alone:
        yield "      node_types:"
        for node in types:
            yield f"        {_name_node(node.get(_ENSEMBLE))}: {render_value(_exact(node))}"


def _flatten_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """With the fields of its one kind of accelerator, which are written flat."""
    held = node.get(_ACCELERATORS)
    flat = held[0] if isinstance(held, list) and len(held) == 1 and isinstance(held[0], Mapping) else {}
    return {n: v for n, v in {**node, **flat}.items() if _is_scalar(v) and not isinstance(v, bool)}


def _name_node(identity: object) -> str:
    """A type of node has a number in a submission, and a name in a spec."""
    return f"type-{identity}"


def _divisions(
    tree: TakenCurves, curves: list[TakenCurve], cells: Mapping[Cell, TakenCell], rules: CurveRules
) -> Iterator[str]:
    seen: tuple[str, ...] = ()
    for curve in sorted(curves, key=lambda item: (item.division, item.system, item.benchmark)):
        place = (curve.division, curve.system, curve.benchmark)
        for depth, part in enumerate(place):
            if seen[: depth + 1] != place[: depth + 1]:
                yield f"{'  ' * (depth + 2)}{render_value(part)}:"
        seen = place
        yield from _curve(tree, curve, cells, rules)


def _curve(tree: TakenCurves, curve: TakenCurve, cells: Mapping[Cell, TakenCell], rules: CurveRules) -> Iterator[str]:
    yield f"          max_supported_concurrency: {curve.max_concurrency}"
    if curve.min_concurrency:
        yield f"          min_concurrency: {curve.min_concurrency}"
    if curve.offline:
        yield f"          performance_sample_count: {curve.offline}      # of the dedicated Offline run"
    if (seeds := curve.statements.get("seed_set")) not in (None, ""):
        yield f"          seed_set: {render_value(str(seeds))}"
    if scored := _choose_scored(curve, rules):
        yield f"          accuracy_points: [{', '.join(map(str, scored))}]"
    own = {
        point: {
            **_spell(cells[curve.name_cell(point)]),
            **_disclose(tree.stated.get(curve.name_cell(point), {}), rules),
            **_tell_warmup(tree.stated.get(curve.name_cell(point), {}), cells[curve.name_cell(point)], point),
        }
        for point in curve.all_points
    }
    first = next((values for values in own.values() if len(values) > 1), {})
    known = [values for values in own.values() if values]
    shared = {name: value for name, value in first.items() if all(item.get(name) == value for item in known)}
    for name, value in _nest(shared).items():
        yield f"          {name}: {render_value(value)}"
    yield "          points:"
    for point, values in own.items():
        named = OFFLINE if point == curve.offline else point
        yield f"            {named}: {render_value(_nest({n: v for n, v in values.items() if n not in shared}))}"


def _choose_scored(curve: TakenCurve, rules: CurveRules) -> list[int]:
    """Those that have an accuracy result, and what the rules ask beside them, which `plan` shows as due."""
    try:
        regions = derive_regions(curve.points, curve.max_concurrency, rules, curve.min_concurrency or None)
    except ReconcilerError:
        return sorted(curve.scored)  # the spec is refused for the same reason
    first = [*curve.scored, *(point for point in curve.points if point not in curve.scored)]
    asked = match_bands([(point, regions.list_bands(point, rules)) for point in first])
    elected = {curve.max_concurrency} & set(curve.points) if not curve.offline else set()
    return sorted({*curve.scored, *asked.values(), *elected})


def _spell(item: TakenCell) -> dict[str, Any]:
    """The settings of a point as a spec writes them, by flat name."""
    found: dict[str, Any] = {}
    for name, value in item.settings.items():
        if name in _TIMES:
            found[name] = f"{value} ms" if value else 0
        elif name == "target_qps":
            found[name] = f"{value} /s"
        else:
            found[name] = value
    if model := item.harness.get("model_name"):
        found["client.model_name"] = model
    return _exact(found)


def _disclose(stated: Mapping[str, Any], rules: CurveRules) -> dict[str, Any]:
    names = (*_DISCLOSED, *(name for name in rules.words("per_point_description") if name not in _FOLLOWING))
    found = {n: stated[n] for n in names if _is_scalar(stated.get(n)) and stated[n] != ""}
    if found.get("config_summary") == summarise_deployment(found):
        del found["config_summary"]
    drafted = stated.get("speculative_decoding")
    told = {f"disclosure.{name}": value for name, value in found.items()}
    for name, value in drafted.items() if isinstance(drafted, Mapping) else ():
        told |= {f"speculative_decoding.{name}": value} if _is_scalar(value) else {}
    return _exact(told) | _use_nodes(stated)


def _use_nodes(stated: Mapping[str, Any]) -> dict[str, Any]:
    """How many nodes a point engages, and why fewer replicas ran than fit."""
    found: dict[str, Any] = {}
    used, short = stated.get("nodes_used"), stated.get("dp_shortfall")
    for item in used if isinstance(used, list) else ():
        if isinstance(item, Mapping) and is_whole(item.get("nodes")):
            found[f"nodes_used.{_name_node(item.get(_ENSEMBLE))}"] = item["nodes"]
    if isinstance(short, Mapping):
        given = {ours: short.get(theirs) for theirs, ours in _SHORTFALL.items()}
        found |= {f"dp_shortfall.{name}": value for name, value in given.items() if _is_scalar(value)}
    return found


def _tell_warmup(stated: Mapping[str, Any], item: TakenCell, concurrency: int) -> dict[str, Any]:
    """What a rendering would not say by itself of what happened before a point's run."""
    block, told = stated.get("warmup"), item.settings.get("client.warmup")
    known = show_warmup(WarmupContent.of_client(int(told), concurrency) if told else WarmupContent())
    found: dict[str, Any] = {}
    for name, value in block.items() if isinstance(block, Mapping) else ():
        seconds = parse_number(value) if name == "duration_s" else None
        if value == known.get(name):
            continue
        if seconds is not None and seconds >= 0:
            found["warmup.duration"] = f"{round(seconds * _MICROSECONDS)} us"
        elif name in _TOLD and _TOLD[name](value):
            found[f"warmup.{name}"] = value
    return found


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# Of the warm-up of a point.yaml what a spec can declare, beside its duration.
_TOLD: Mapping[str, Callable[[object], bool]] = {
    "requests_issued": _is_count,
    "requests_completed": _is_count,
    "concurrency": _is_count,
    "data_source": _is_text,
    "link_logs": _is_text,
    "logs_retained": lambda value: isinstance(value, bool),
    "initialization_steps": lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
}


def _exact(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fractions as decimals, which a spec keeps digit by digit."""
    return {name: Decimal(str(value)) if isinstance(value, float) else value for name, value in values.items()}


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".", 2) if name.startswith("client.") else name.split(".", 1)
        group = nested
        for part in above:
            group = group.setdefault(part, {})
        group[last] = value
    return nested
