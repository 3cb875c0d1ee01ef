"""The spec of an adopted Endpoints submission: its curves, with facts only from its own documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from reconciler.endpoints.importing.read_curves import VERSION, TakenCurve, TakenCurves, read_curves
from reconciler.endpoints.rules.curve_rules import CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.regions import derive_regions, match_bands
from reconciler.endpoints.spec.models import OFFLINE
from reconciler.endpoints.tree.content import WarmupContent
from reconciler.endpoints.tree.layout import DOCUMENTS, SOURCES
from reconciler.endpoints.tree.point_file import show_warmup, summarise_deployment
from reconciler.errors import ReconcilerError
from reconciler.importing.adopted_spec import render_description, render_head
from reconciler.importing.run_reader import TakenCell
from reconciler.loadgen import keys
from reconciler.resource.kinds import Cell
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.spec.edit import render_value

# Spec of a point of an adopted Endpoints submission: its settings, and the facts of its documents.

# Fields of a point.yaml that a rendering takes from a source other than `disclosure`, and those that it omits.
_DISCLOSED = (
    *("model_precision", "link_to_model", "link_to_model_transformation", "model_notes"),
    *("dataset_name", "dataset_type", "dataset_link", "target_cohort"),
)
# Fields of a system_desc.json that follow from the rest of the spec, or are computed.
FOLLOWING = (
    *("division", "system_availability_status", "max_supported_concurrency", "node_types", "tps_utilization"),
    *("submitter", "status", "system_type", "c_min_override"),
)
ENSEMBLE = "system_node_ensemble_id"
_SHORTFALL = {"dp_actual": "replicas", "dp_formula": "fitting", "reason": "reason"}
_TIMES = (keys.MIN_DURATION, keys.MAX_DURATION)
_MICROSECONDS = 10**6


def describe_point(
    item: TakenCell, stated: Mapping[str, object], concurrency: int, rules: CurveRules
) -> dict[str, Any]:
    """Describe a point by flat names. ``stated``: the contents of its point.yaml and system_desc.json."""
    return {**_spell(item), **_disclose(stated, rules), **_describe_warmup(stated, item, concurrency)}


def _spell(item: TakenCell) -> dict[str, Any]:
    """Return the settings of a point as written in a spec, by flat name."""
    found: dict[str, Any] = {}
    for name, value in item.settings.items():
        if name in _TIMES:
            found[name] = f"{value} ms" if value else 0
        elif name == keys.TARGET_QPS:
            found[name] = f"{value} /s"
        else:
            found[name] = value
    if model := item.harness.get("model_name"):
        found["client.model_name"] = model
    return make_exact(found)


def _disclose(stated: Mapping[str, object], rules: CurveRules) -> dict[str, Any]:
    names = (*_DISCLOSED, *(name for name in rules.values.per_point_description if name not in FOLLOWING))
    found = {n: stated[n] for n in names if is_scalar(stated.get(n)) and stated[n] != ""}
    if found.get("config_summary") == summarise_deployment(found):
        del found["config_summary"]
    drafted = stated.get("speculative_decoding")
    disclosed = {f"disclosure.{name}": value for name, value in found.items()}
    for name, value in drafted.items() if isinstance(drafted, Mapping) else ():
        disclosed |= {f"speculative_decoding.{name}": value} if is_scalar(value) else {}
    return make_exact(disclosed) | _use_nodes(stated)


def _use_nodes(stated: Mapping[str, object]) -> dict[str, Any]:
    """Return how many nodes a point engages, and why fewer replicas ran than fit."""
    found: dict[str, Any] = {}
    used, short = stated.get("nodes_used"), stated.get("dp_shortfall")
    for item in used if isinstance(used, list) else ():
        if isinstance(item, Mapping) and is_whole(item.get("nodes")):
            found[f"nodes_used.{name_node(item.get(ENSEMBLE))}"] = item["nodes"]
    if isinstance(short, Mapping):
        given = {ours: short.get(theirs) for theirs, ours in _SHORTFALL.items()}
        found |= {f"dp_shortfall.{name}": value for name, value in given.items() if is_scalar(value)}
    return found


def _describe_warmup(stated: Mapping[str, object], item: TakenCell, concurrency: int) -> dict[str, Any]:
    """Describe the events before a point's run that a rendering would not state by itself."""
    block, disclosed = stated.get("warmup"), item.settings.get("client.warmup")
    known = show_warmup(WarmupContent.of_client(int(disclosed), concurrency) if disclosed else WarmupContent())
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


# Fields of a point.yaml's warm-up that a spec can declare, apart from its duration.
_TOLD: Mapping[str, Callable[[object], bool]] = {
    "requests_issued": _is_count,
    "requests_completed": _is_count,
    "concurrency": _is_count,
    "data_source": _is_text,
    "link_logs": _is_text,
    "logs_retained": lambda value: isinstance(value, bool),
    "initialization_steps": lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
}


def make_exact(values: Mapping[str, object]) -> dict[str, Any]:
    """Convert fractions to decimals, which a spec preserves digit by digit."""
    return {name: Decimal(str(value)) if isinstance(value, float) else value for name, value in values.items()}


def is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def name_node(identity: object) -> str:
    """Name a type of node, which has only a number in a submission."""
    return f"type-{identity}"


_ACCELERATORS = "accelerator_info"


class AdoptedCurves(TakenCurves, frozen=True):
    """Curves in the form that `adopt` expects."""

    def refuse_round(self, round_name: str) -> None:
        """Reject a round: there is only one version of the rules."""
        if round_name not in ("", VERSION):
            raise ReconcilerError(f"curves can be declared for {VERSION} alone", fix="leave --round out")

    def render_spec(self, cells: Collection[TakenCell], left_out: Mapping[str, str], files: Collection[str]) -> str:
        return render_curves_spec(self, cells, left_out, files)


def read_submission(path: Path, submitter: str, *, rehearsal: bool) -> AdoptedCurves:
    """Read a submission to adopt. Raises ReconcilerError like ``read_curves``."""
    return AdoptedCurves(**{**asdict(read_curves(path, submitter)), "rehearsal": rehearsal})


def render_curves_spec(
    tree: TakenCurves, cells: Collection[TakenCell], left_out: Mapping[str, str], files: Collection[str]
) -> str:
    """Render the spec. ``cells``: those to declare. ``left_out``: cell or file → the reason. ``files``: those copied to
    the folder of the spec."""
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
    """``typed``: points name the types of node that they use, even if there is only one."""
    yield f"    {render_value(name)}:"
    yield "      category: datacenter"
    yield f"      status: {render_value(str(stated.get('system_availability_status', '')).strip().lower())}"
    if (power := f"systems/{name}_power.json") in files:
        yield f"      nameplate: {render_value(power)}      # published as system_power.json"
    nodes = stated.get("node_types")
    types = [_flatten_node(node) for node in nodes if isinstance(node, Mapping)] if isinstance(nodes, list) else []
    alone = types[0] if len(types) == 1 and not typed else {}
    apart = {*FOLLOWING, *rules.values.per_point_description}
    own = {field: value for field, value in stated.items() if field not in apart and is_scalar(value)}
    yield from render_description({**own, **{n: v for n, v in alone.items() if (n, v) != (ENSEMBLE, 1)}})
    if types and not alone:
        yield "      node_types:"
        for node in types:
            yield f"        {name_node(node.get(ENSEMBLE))}: {render_value(make_exact(node))}"


def _flatten_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the fields of the node's one kind of accelerator into the node."""
    listed = node.get(_ACCELERATORS)
    flat = listed[0] if isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], Mapping) else {}
    return {n: v for n, v in {**node, **flat}.items() if is_scalar(v) and not isinstance(v, bool)}


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
    named = {point: curve.name_cell(point) for point in curve.all_points}
    own = {point: describe_point(cells[cell], tree.stated.get(cell, {}), point, rules) for point, cell in named.items()}
    first = next((values for values in own.values() if len(values) > 1), {})
    known = [values for values in own.values() if values]
    shared = {name: value for name, value in first.items() if all(item.get(name) == value for item in known)}
    for name, value in _nest(shared).items():
        yield f"          {name}: {render_value(value)}"
    yield "          points:"
    for point, values in own.items():
        word = OFFLINE if point == curve.offline else point
        yield f"            {word}: {render_value(_nest({n: v for n, v in values.items() if n not in shared}))}"


def _choose_scored(curve: TakenCurve, rules: CurveRules) -> list[int]:
    """Choose the points that have an accuracy result, and those that the rules also require, which `plan` shows as
    due."""
    try:
        regions = derive_regions(curve.points, curve.max_concurrency, rules, curve.min_concurrency or None)
    except ReconcilerError:
        return sorted(curve.scored)  # the spec is rejected for the same reason
    first = [*curve.scored, *(point for point in curve.points if point not in curve.scored)]
    asked = match_bands([(point, regions.list_bands(point, rules)) for point in first])
    benchmark = rules.benchmarks.get(curve.official)
    elects = not curve.offline and not (benchmark is not None and benchmark.agentic)
    elected = {curve.max_concurrency} & set(curve.points) if elects else set()
    return sorted({*curve.scored, *asked.values(), *elected})


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *above, last = name.split(".", 2) if name.startswith("client.") else name.split(".", 1)
        group = nested
        for part in above:
            group = group.setdefault(part, {})
        group[last] = value
    return nested
