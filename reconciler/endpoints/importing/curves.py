"""Read the folder of an Endpoints submission, and render the spec that declares its curves, using only facts from the
submission's own documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.endpoints.importing.point_folder import PointRun, find_runs
from reconciler.endpoints.results import point_format as points
from reconciler.endpoints.results.measurements import REQUESTED, read_setting
from reconciler.endpoints.rules.curve_rules import CURVE_DIVISIONS, ROUND_PREFIX, V1_0, CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.point import OFFLINE_PATTERN, Warmup
from reconciler.endpoints.rules.regions import derive_regions, match_bands
from reconciler.endpoints.rules.results import count_trajectories
from reconciler.endpoints.spec.models import OFFLINE
from reconciler.endpoints.tree.content import DOCUMENTS, PENDING, POWER, RESULTS, SOURCES
from reconciler.endpoints.tree.point_file import DISCLOSED, show_warmup, summarise_deployment
from reconciler.endpoints.tree.reading import (
    CurveFolder,
    PointFolder,
    SubmissionFolder,
    find_implementation,
    find_submissions,
)
from reconciler.errors import LogError, ReconcilerError
from reconciler.importing.adopted_documents import find_publishable, is_readable
from reconciler.importing.adopted_spec import add_unit, render_description, render_head
from reconciler.importing.run_reader import ProgramTree, TakenCell
from reconciler.loadgen import keys
from reconciler.resource.kinds import ACCURACY, Cell, name_point
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.resource.records import REHEARSAL
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.edit import render_value
from reconciler.storage.documents import ResultDocument
from reconciler.storage.untrusted_files import list_special_entries

# The folder of a submission, point by point.


class TakenCurve(Struct, frozen=True):
    """One system's curve of one model. ``points``: their concurrencies; ``offline``: samples of a dedicated Offline
    run, 0 for none; ``scored``: those with an accuracy result. ``description``: system_desc.json of its first point.
    ``min_concurrency``: as declared, 0 for none."""

    division: str
    system: str
    benchmark: str
    official: str
    implementation: str
    max_concurrency: int
    points: tuple[int, ...]
    scored: tuple[int, ...]
    description: Mapping[str, object]
    statements: Mapping[str, object] = field(default_factory=dict)
    offline: int = 0
    min_concurrency: int = 0

    @property
    def all_points(self) -> tuple[int, ...]:
        return (*self.points, self.offline) if self.offline else self.points

    def name_cell(self, concurrency: int) -> Cell:
        return Cell(self.division, self.system, self.benchmark, name_point(concurrency))


class TakenCurves(ProgramTree, frozen=True, kw_only=True):
    """Curves of one submission. ``stated``: cell → contents of the point.yaml and system_desc.json of its point."""

    path: Path
    curves: tuple[TakenCurve, ...]
    stated: Mapping[Cell, Mapping[str, object]]

    def find_files(self) -> dict[str, Path]:
        """Find the code, the documents, and the power of each system."""
        found: dict[str, Path] = {}
        for curve in self.curves:
            if curve.implementation:
                own = self.path / SOURCES / curve.implementation
                found |= find_publishable(own, f"{SOURCES}/{curve.benchmark}", self.unreadable)
            power = self.path / RESULTS / curve.system / POWER
            if is_readable(power, self.unreadable) and power.is_file():
                found[f"systems/{curve.system}_power.json"] = power
        return found | dict(find_publishable(self.path / DOCUMENTS, DOCUMENTS, self.unreadable))

    def refuse_round(self, round_name: str) -> None:
        """Reject a round: there is only one version of the rules."""
        if round_name not in ("", V1_0):
            raise ReconcilerError(f"curves can be declared for {V1_0} alone", fix="leave --round out")

    def render_spec(self, cells: Sequence[TakenCell], left_out: Mapping[str, str], files: Collection[str]) -> str:
        chosen = {item.cell: item for item in cells}
        kept = [curve for curve in self.curves if any(curve.name_cell(point) in chosen for point in curve.all_points)]
        return "".join(f"{line}\n" for line in _render_lines(self, kept, chosen, left_out, files))


def read_submission(path: Path, submitter: str, *, rehearsal: bool) -> TakenCurves:
    """Read one submission to adopt. Raises ReconcilerError if there are several, unless one is of ``submitter``."""
    found = find_submissions(path)
    chosen = [item for item in found if not submitter or item.submitter == submitter]
    if len(found) == 1:
        chosen = list(found)  # the folder above it need not have the submitter's name
    if len(chosen) != 1:
        listed = ", ".join(sorted({f"{item.submitter} ({item.path.name})" for item in found}))
        raise ReconcilerError(f"{path} contains {len(found)} submissions: {listed}", fix="pass the folder of one")
    return _take_submission(chosen[0], submitter or chosen[0].submitter, rehearsal=rehearsal)


def _take_submission(folder: SubmissionFolder, submitter: str, *, rehearsal: bool) -> TakenCurves:
    unreadable = dict(list_special_entries(folder.path))
    curves: list[TakenCurve] = []
    cells: list[TakenCell] = []
    stated: dict[Cell, Mapping[str, object]] = {}
    problems = [f"{path}: {what}, ignored" for path, what in unreadable.items()]
    for item in (curve for system in folder.systems for curve in system.curves if curve.points):
        if not is_readable(item.path, unreadable):
            continue
        offline = [point for point in item.points if _is_offline(point)]
        own = [point for point in item.points if point not in offline]
        taken = _take_curve(item, own, offline, [curve.benchmark for curve in curves if curve.official != item.model])
        if isinstance(taken, str):
            problems.append(f"{item.shown}: {taken}; its points are not adopted")
            continue
        problems += [f"{point.shown}: a second dedicated Offline run" for point in offline[1:]]
        curves.append(taken)
        for point in [*own, *offline[:1]]:
            cells.append(_take_point(point, taken))
            described = point.description.value
            stated[cells[-1].cell] = {**(described.values if described else {}), **_read_statements(point)}
    return TakenCurves(
        submitter,
        load_ruleset(f"{ROUND_PREFIX}{V1_0}"),
        {f"{submitter}/{PENDING}": folder.path},
        tuple(cells),
        tuple(problems),
        rehearsal,
        unreadable,
        path=folder.path,
        curves=tuple(curves),
        stated=stated,
    )


def _take_curve(
    folder: CurveFolder, own: list[PointFolder], offline: list[PointFolder], taken: list[str]
) -> TakenCurve | str:
    """Return a curve, or the reason why a spec cannot declare it. ``taken``: benchmark names that other models already
    have."""
    description = folder.description
    division = folder.division.strip().lower()
    if division not in CURVE_DIVISIONS:
        return f"its system_desc.json says of the division {folder.division!r}"
    stated = [point.get("max_supported_concurrency") for point in folder.stated]
    maximum = next((value for value in (*stated, description.get("max_supported_concurrency")) if is_whole(value)), 0)
    if not maximum:
        return "max_supported_concurrency is not declared"
    lowest = description.get("c_min_override")
    if lowest is not None and not (is_whole(lowest) and lowest in [point.named for point in folder.points]):
        return f"its c_min_override is {lowest!r}, but this point does not exist"
    implementation = find_implementation(folder)
    name = implementation if implementation and implementation not in taken else folder.model
    return TakenCurve(
        division=division,
        system=folder.system,
        benchmark=name,
        official=folder.model,
        implementation=implementation,
        max_concurrency=maximum,
        points=tuple(point.named for point in own),
        scored=tuple(point.named for point in own if any(not score.inline for score in point.scores)),
        description=description,
        statements=_read_statements(folder.stated[0]) if folder.stated else {},
        offline=offline[0].named if offline else 0,
        min_concurrency=lowest or 0,
    )


def _is_offline(point: PointFolder) -> bool:
    config = point.config.value
    return config is not None and config.get_nested("settings", "load_pattern", "type") == OFFLINE_PATTERN


def _take_point(point: PointFolder, curve: TakenCurve) -> TakenCell:
    rehearsal = point.get(REHEARSAL) is True
    taken = TakenCell(curve.name_cell(point.named), curve.official, {}, {}, rehearsal=rehearsal, needed=True)
    config = point.config.value
    if config is None:
        return replace(taken, problems=(f"run: {point.config.problem or 'there is no config.yaml'}",))
    model = str(config.get_nested("model_params", "name") or "")
    taken = replace(taken, settings=_read_settings(config), harness={"results": points.NAME, "model_name": model})
    try:
        runs: tuple[PointRun, ...] = find_runs(point.path)
    except LogError as error:
        return replace(taken, problems=(f"run: {error.message}",))
    if runs[0].mode == ACCURACY:
        return replace(taken, problems=("performance run: it wrote no results",))
    return replace(taken, runs=runs)


def _read_settings(config: ResultDocument) -> dict[str, Any]:
    """Read the settings with which a spec requests the run, by flat name. Times are in ms."""
    found: dict[str, Any] = {name: value for name in REQUESTED if (value := read_setting(config, name))}
    if played := count_trajectories(config):
        found[keys.MIN_QUERY_COUNT] = played
    found.setdefault(keys.MIN_DURATION, 0)
    if config.get_nested("settings", "warmup", "enabled") is True:
        requests = parse_number(config.get_nested("settings", "warmup", "n_requests"))
        found |= {"client.warmup": int(requests)} if requests else {}
    api = config.get_nested("endpoint_config", "api_type")
    found |= {"client.api": api} if api not in (None, "openai") else {}
    model = config.get("model_params")
    for name, value in model.items() if isinstance(model, Mapping) else ():
        if name not in ("name", "streaming", "tokenizer_name") and isinstance(value, (str, int, float, bool)):
            found[f"client.parameters.{name}"] = value
    return found


def _read_statements(point: PointFolder) -> Mapping[str, object]:
    return point.point.value.values if point.point.value else {}


# Spec of a point of an adopted Endpoints submission: its settings, and the facts of its documents.

# Fields of a system_desc.json that follow from the rest of the spec, or are computed.
FOLLOWING = (
    *("division", "system_availability_status", "max_supported_concurrency", "node_types", "tps_utilization"),
    *("submitter", "status", "system_type", "c_min_override"),
)
ENSEMBLE = "system_node_ensemble_id"
_SHORTFALL = {"dp_actual": "replicas", "dp_formula": "fitting", "reason": "reason"}
_MICROSECONDS = 10**6


def describe_point(
    item: TakenCell, stated: Mapping[str, object], concurrency: int, rules: CurveRules
) -> dict[str, Any]:
    """Describe a point as in a spec, by flat names. ``stated``: the contents of its point.yaml and system_desc.json."""
    found = {name: add_unit(name, value) for name, value in item.settings.items()}
    if model := item.harness.get("model_name"):
        found["client.model_name"] = model
    return {**make_exact(found), **_disclose(stated, rules), **_describe_warmup(stated, item, concurrency)}


def _disclose(stated: Mapping[str, object], rules: CurveRules) -> dict[str, Any]:
    varying = (name for name in rules.values.per_point_description if name not in FOLLOWING)
    names = (*DISCLOSED, "target_cohort", *varying)
    found = {n: stated[n] for n in names if is_scalar(stated.get(n)) and stated[n] != ""}
    if found.get("config_summary") == summarise_deployment(found):
        del found["config_summary"]
    disclosed = {f"disclosure.{name}": value for name, value in found.items()}
    if isinstance(drafted := stated.get("speculative_decoding"), Mapping):
        disclosed |= {f"speculative_decoding.{name}": value for name, value in drafted.items() if is_scalar(value)}
    return make_exact(disclosed) | _describe_nodes(stated)


def _describe_nodes(stated: Mapping[str, object]) -> dict[str, Any]:
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
    """Describe those events before a point's run that a rendering would not otherwise state."""
    block, disclosed = stated.get("warmup"), item.settings.get("client.warmup")
    known = show_warmup(Warmup(int(disclosed), True, concurrency) if disclosed else None, {})
    found: dict[str, Any] = {}
    for name, value in block.items() if isinstance(block, Mapping) else ():
        seconds = parse_number(value) if name == "duration_s" else None
        if value == known.get(name):
            continue
        if seconds is not None and seconds >= 0:
            found["warmup.duration"] = f"{round(seconds * _MICROSECONDS)} us"
        elif name in _DECLARABLE and _DECLARABLE[name](value):
            found[f"warmup.{name}"] = value
    return found


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# Fields of a point.yaml's warm-up that a spec can declare, apart from its duration.
_DECLARABLE: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("requests_issued", "requests_completed", "concurrency"), _is_count),
    **dict.fromkeys(("data_source", "link_logs"), _is_text),
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


def _render_lines(
    tree: TakenCurves,
    curves: list[TakenCurve],
    cells: Mapping[Cell, TakenCell],
    left_out: Mapping[str, str],
    files: Collection[str],
) -> Iterator[str]:
    rules = load_endpoints_rules(V1_0)
    yield from render_head(f"an Endpoints submission, rules {V1_0}", tree.submitter, left_out)
    yield "  program: endpoints"
    yield f"  round: {V1_0}"
    yield f"  submitter: {render_value(tree.submitter)}"
    if tree.rehearsal:
        yield "  rehearsal: true          # marked for ever: takes runs that the rules would refuse"
    if any(name.startswith(f"{DOCUMENTS}/") for name in files):
        yield f"  documents: {{folder: {DOCUMENTS}}}"
    yield ""
    yield "  systems:"
    for name, curve in {curve.system: curve for curve in reversed(curves)}.items():
        typed = any("nodes_used" in stated for cell, stated in tree.stated.items() if cell.system == name)
        yield from _render_system(name, curve.description, rules, files, typed=typed)
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
    yield from _render_divisions(tree, curves, cells, rules)


def _render_system(
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
    listed = node.get("accelerator_info")
    flat = listed[0] if isinstance(listed, list) and len(listed) == 1 and isinstance(listed[0], Mapping) else {}
    return {n: v for n, v in {**node, **flat}.items() if is_scalar(v) and not isinstance(v, bool)}


def _render_divisions(
    tree: TakenCurves, curves: list[TakenCurve], cells: Mapping[Cell, TakenCell], rules: CurveRules
) -> Iterator[str]:
    seen: tuple[str, ...] = ()
    for curve in sorted(curves, key=lambda item: (item.division, item.system, item.benchmark)):
        place = (curve.division, curve.system, curve.benchmark)
        for depth, part in enumerate(place):
            if seen[: depth + 1] != place[: depth + 1]:
                yield f"{'  ' * (depth + 2)}{render_value(part)}:"
        seen = place
        yield from _render_curve(tree, curve, cells, rules)


def _render_curve(
    tree: TakenCurves, curve: TakenCurve, cells: Mapping[Cell, TakenCell], rules: CurveRules
) -> Iterator[str]:
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
    """Choose the points that have an accuracy result, and the further points at which the rules require one; `plan`
    shows those as due."""
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
