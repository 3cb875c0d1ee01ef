"""Turn the curves of a validated document into declared cells, one per point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.endpoints.results.client import PARAMETERS, is_same
from reconciler.endpoints.rules.curve_rules import (
    MODEL_SEED,
    NAME,
    ROUND_PREFIX,
    CurveRules,
    load_endpoints_rules,
)
from reconciler.endpoints.spec.checks import (
    find_node_problems,
    find_point_problems,
    find_service_problems,
    find_unlocked,
)
from reconciler.endpoints.spec.curves import (
    ACCURACY_POINTS,
    SEED_SET,
    SIZE,
    complete_point,
    find_benchmark,
    find_curve_problems,
    place_curve,
)
from reconciler.endpoints.spec.models import OFFLINE, CurveGroup
from reconciler.errors import Problem, ReconcilerError
from reconciler.loadgen import keys
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.kinds import Cell, name_point
from reconciler.resource.settings import AGENTIC, COMMAND, MAXIMUM, group_node_types
from reconciler.spec.declaration import Declaring
from reconciler.spec.declared import Declared, DeclaredCell, DeclaredSystem, is_filled
from reconciler.spec.layers import Block, LayeredSetting, combine, get_text
from reconciler.spec.validation import find_position

# Early checks of a submission of curves: disclosures of its points, the description of its systems, and seeds that
# differ from the set to which it commits.

_DISCLOSED = ("model_precision", "link_to_model", "dataset_name", "dataset_type", "dataset_link")
_OF_NODE = ("host_memory_configuration", "host_network_card_count", "driver", "filesystem")
_CORES = ("host_processor_core_count", "host_processor_vcpu_count")
_BY_STATUS = {"available": "availability_url", "preview": "target_availability_date"}


def find_curve_gaps(declared: Declared) -> tuple[Problem, ...]:
    """Return each gap once, at the line to complete; none for a rehearsal, which is never submitted."""
    if declared.rehearsal.value:
        return ()
    rules = load_endpoints_rules(str(declared.round.value).removeprefix(ROUND_PREFIX))
    systems = dict.fromkeys(cell.cell.system for cell in declared.cells)
    found = [gap for name in systems for gap in _find_system_gaps(declared.systems[name])]
    found += [gap for cell in declared.cells for gap in _find_point_gaps(cell, rules)]
    return tuple(dict.fromkeys(found))


def _find_system_gaps(system: DeclaredSystem) -> Iterator[Problem]:
    path, whole = f"spec.systems.{system.name}.description", system.description
    wanted = _BY_STATUS.get(str(system.status.value)) if system.status else None
    absent = [field for field in ("serving_framework", wanted) if field and not is_filled(whole.get(field))]
    nodes: dict[str, Mapping[str, Value]] = {
        name: {**whole, **own} for name, own in group_node_types(system.settings).items()
    }
    for name, node in (nodes or {"": whole}).items():
        fields = [field for field in (*_OF_NODE, "cooling") if not is_filled(node.get(field))]
        fields += [_CORES[0]] if not any(is_filled(node.get(field)) for field in _CORES) else []
        absent += [f"{field} of {name}" if name else field for field in fields]
    if absent:
        message = f"the description of {system.name} has no {', '.join(absent)}"
        fix = "add them there; put fields of one node type into node_types"
        yield system.origin.make_problem(path, message, fix)


def _find_point_gaps(cell: DeclaredCell, rules: CurveRules) -> Iterator[Problem]:
    settings, path = cell.settings, f"spec.benchmarks.{cell.cell.benchmark}"
    absent = [name for name in _DISCLOSED if not is_filled(settings.get(f"disclosure.{name}"))]
    if absent:
        fix = f"write 'disclosure: {{{absent[0]}: …}}'; the fields are published in point.yaml"
        message = f"the disclosure of {cell.cell.benchmark} has no {', '.join(absent)}"
        yield _locate(cell).make_problem(path, message, fix)
    seeds = rules.find_seed_set(str(settings["seed_set"].value))
    target, cohorts = settings.get("disclosure.target_cohort"), list(map(str, seeds.cohorts))
    if target is not None and str(target.value) not in cohorts:
        message = f"target_cohort {target.value} cannot adopt seed set {seeds.id}"
        yield target.origin.make_problem(f"{path}.disclosure", message, f"one of {', '.join(cohorts)}")
    stated = settings.get("client.parameters.seed")
    if stated is not None and str(stated.value) != str(seeds.seeds[MODEL_SEED]):
        message = f"the model's seed is {stated.value}, seed set {seeds.id} has {seeds.seeds[MODEL_SEED]}"
        yield stated.origin.make_problem(f"{path}.client.parameters.seed", message, "remove seed, or use the set's")
    if COMMAND not in settings:
        return  # measured elsewhere: its settings are fixed
    if keys.PERFORMANCE_SAMPLE_COUNT not in settings:
        message = "the size of the dataset is not declared, so complete passes cannot be checked"
        yield _locate(cell).make_problem(path, message, "write 'performance_sample_count: …'")
    if AGENTIC in settings:
        yield from _find_unruled(cell, rules, path)
    elif not {keys.TARGET_QPS, keys.MIN_QUERY_COUNT} & set(settings):
        message = f"neither target_qps nor min_query_count of {cell.cell.scenario}: the client uses 10 queries/s"
        fix = "set the rate you expect, so that its passes fill min_duration"
        yield cell.origin.origin.make_problem(f"spec.divisions.{str(cell.cell).replace('/', '.')}", message, fix)


def _find_unruled(cell: DeclaredCell, rules: CurveRules, path: str) -> Iterator[Problem]:
    """Require the conversations that belong to an agentic benchmark, and the sampling parameters that the rules
    prescribe for its model."""
    settings, benchmark = cell.settings, rules.benchmarks[cell.settings["benchmark.official"].value]
    stated = {name.removeprefix(PARAMETERS): value for name, value in settings.items() if name.startswith(PARAMETERS)}
    for name in sorted((set(benchmark.parameters) | set(stated)) - {"seed"}) if benchmark.parameters else ():
        wanted, found = benchmark.parameters.get(name), stated.get(name)
        if found is None or wanted is None or not is_same(wanted, found.value):
            said = "missing" if found is None else str(found.value)
            fix = f"take {name} out" if wanted is None else f"write 'client: {{parameters: {{{name}: {wanted}}}}}'"
            required = "none" if wanted is None else wanted
            message = f"the sampling parameter {name} is {said}, the rules require {required}"
            yield (found.origin if found else _locate(cell)).make_problem(f"{path}.client.parameters", message, fix)
    pinned = settings.get("dataset.sha256")
    if benchmark.dataset and (pinned is None or pinned.value != benchmark.dataset):
        message = f"the dataset's digest is not declared; the published one has sha256 {benchmark.dataset}"
        fix = f"write 'dataset: {{sha256: {benchmark.dataset}}}'"
        yield (pinned.origin if pinned else _locate(cell)).make_problem(f"{path}.dataset", message, fix)


def _locate(cell: DeclaredCell) -> Origin:
    official = cell.official
    return official.origin if official is not None and official.origin.line else cell.origin.origin


def declare_cells(declaring: Declaring) -> Iterator[DeclaredCell]:
    """Return the points of every curve. A curve that the rules reject has none."""
    try:
        rules = load_endpoints_rules(str(declaring.spec.round))
    except ReconcilerError as error:
        declaring.complain_of_value(("spec", "round"), error.message, error.fix)
        return
    for named, curve, where in declaring.list_entered(NAME):
        yield from _declare_curve(declaring, named, curve, where, rules)


def _declare_curve(
    declaring: Declaring, named: tuple[str, str, str], curve: CurveGroup, where: tuple[str, ...], rules: CurveRules
) -> Iterator[DeclaredCell]:
    for name in (name for name in (MAXIMUM, "points") if not getattr(curve, name)):
        example = "64" if name == MAXIMUM else "auto"
        if declaring.sound:
            declaring.complain(where, f"{name} is missing", f"write '{name}: {example}'")
            return
    if not curve.points or curve.max_supported_concurrency is None:
        return
    rehearsal = bool(declaring.spec.rehearsal)
    shared, own = declaring.layer(curve, where), declaring.find_shared(named[1], named[2])
    whole = combine([own, shared])
    benchmark = find_benchmark(whole, rules)
    try:
        placed = place_curve(
            tuple(curve.points),
            curve.max_supported_concurrency,
            rules,
            curve.accuracy_points or (),
            size=int(get_text(whole, SIZE, "0")),
            count=curve.point_count or 0,
            c_min=curve.min_concurrency,
            agentic=benchmark is not None and benchmark.agentic,
        )
    except ReconcilerError as error:
        declaring.complain_of_value((*where, MAXIMUM), error.message, error.fix)
        return
    for name, message, fix in find_curve_problems(placed, rules):
        declaring.complain((*where, name), message, fix)
    shared.pop(ACCURACY_POINTS, None)  # passed to each point in another way
    at = LayeredSetting(Value(named[2], find_position(declaring.root, where)[0]), ".".join(where))
    for concurrency in placed.all_points:
        word = OFFLINE if concurrency == placed.offline else str(concurrency)
        point = declaring.layer(curve.points[word], (*where, "points", word)) if word in curve.points else {}
        block = combine([own, shared, point])
        try:
            block = complete_point(block, concurrency, placed, rules, at, rehearsal=rehearsal)
        except ReconcilerError as error:
            declaring.complain_of_value((*where, SEED_SET), error.message, error.fix)
            return
        _check_point(declaring, named, point, block, at)
        yield declaring.declare_cell(Cell(*named, name_point(concurrency)), block, where)


def _check_point(
    declaring: Declaring, named: tuple[str, str, str], point: Block, block: Block, at: LayeredSetting
) -> None:
    """``point``: the settings of the point itself; ``block``: all of its settings."""
    system = declaring.systems.get(named[1])
    found = [*find_unlocked(point, block), *find_node_problems(block, dict(system.settings) if system else {})]
    if declaring.sound:
        found += find_point_problems(block, rehearsal=bool(declaring.spec.rehearsal))
        found += find_service_problems(block, named[0], dict(system.description) if system else {})
    for name, message, fix in found:
        declaring.problems.append(block.get(name, (at,))[0].make_problem(message, fix))
