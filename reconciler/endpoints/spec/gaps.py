"""Early refusals of a submission of curves: disclosures of its points, the description of its systems, and seeds that
are not those of the set that it is bound to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.endpoints.rules.cohorts import Cohort
from reconciler.endpoints.rules.curve_rules import CurveRules, SeedSet, load_endpoints_rules
from reconciler.endpoints.rules.ruleset import ROUND_PREFIX
from reconciler.errors import Problem, ReconcilerError
from reconciler.loadgen import keys
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.settings import COMMAND, group_node_types
from reconciler.spec.declared import Declared, DeclaredCell, DeclaredSystem, is_filled

_DISCLOSED = ("model_precision", "link_to_model", "dataset_name", "dataset_type", "dataset_link")
_OF_NODE = ("host_memory_configuration", "host_network_card_count", "driver", "filesystem")
_CORES = ("host_processor_core_count", "host_processor_vcpu_count")
_BY_STATUS = {"available": "availability_url", "preview": "target_availability_date"}


def find_curve_gaps(declared: Declared) -> tuple[Problem, ...]:
    """Each once, at the line to complete; none of a rehearsal, which is never submitted."""
    if declared.rehearsal.value:
        return ()
    rules = load_endpoints_rules(str(declared.round.value).removeprefix(ROUND_PREFIX))
    found: list[Problem] = []
    for name in dict.fromkeys(cell.cell.system for cell in declared.cells):
        found += _of_system(declared.systems[name])
    for cell in declared.cells:
        found += _of_point(cell, rules)
    return tuple(dict.fromkeys(found))


def _of_system(system: DeclaredSystem) -> Iterator[Problem]:
    path, whole = f"spec.systems.{system.name}.description", system.description
    absent = ["serving_framework"] if not is_filled(whole.get("serving_framework")) else []
    wanted = _BY_STATUS.get(str(status.value)) if (status := system.settings.get("system.status")) else None
    absent += [wanted] if wanted and not is_filled(whole.get(wanted)) else []
    for name, node in _list_nodes(system).items():
        fields = [field for field in (*_OF_NODE, "cooling") if not is_filled(node.get(field))]
        fields += [_CORES[0]] if not any(is_filled(node.get(field)) for field in _CORES) else []
        absent += [f"{field} of {name}" if name else field for field in fields]
    if absent:
        message = f"the description of {system.name} has no {', '.join(absent)}"
        fix = "write them there; what one type of node has of its own goes into node_types"
        yield _at(system.origin, path, message, fix)


def _list_nodes(system: DeclaredSystem) -> dict[str, Mapping[str, Value]]:
    named = group_node_types(system.settings)
    return {name: {**system.description, **own} for name, own in named.items()} or {"": system.description}


def _of_point(cell: DeclaredCell, rules: CurveRules) -> Iterator[Problem]:
    settings, path = cell.settings, f"spec.benchmarks.{cell.cell.benchmark}"
    absent = [name for name in _DISCLOSED if not is_filled(settings.get(f"disclosure.{name}"))]
    if absent:
        fix = f"write 'disclosure: {{{absent[0]}: …}}'; the fields are published in point.yaml"
        yield _at(_place(cell), path, f"the disclosure of {cell.cell.benchmark} has no {', '.join(absent)}", fix)
    seeds = rules.find_seed_set(str(settings["seed_set"].value))
    yield from _unadopted(settings, seeds, rules, path)
    stated = settings.get("client.parameters.seed")
    if stated is not None and str(stated.value) != str(seeds.model_seed):
        message = f"the model's seed is {stated.value}, seed set {seeds.id} has {seeds.model_seed}"
        yield _at(stated.origin, f"{path}.client.parameters.seed", message, "take seed out, or write the set's")
    if COMMAND not in settings:
        return  # measured elsewhere, as it was
    if keys.PERFORMANCE_SAMPLE_COUNT not in settings:
        message = "nothing says how many samples the dataset has, so it is unknown whether passes are whole"
        yield _at(_place(cell), path, message, "write 'performance_sample_count: …'")
    if not {keys.TARGET_QPS, keys.MIN_QUERY_COUNT} & set(settings):
        message = f"neither target_qps nor min_query_count of {cell.cell.scenario}: the client takes 10 queries/s"
        fix = "write the rate that the point is expected to reach, so that its passes fill min_duration"
        yield _at(cell.origin.origin, f"spec.divisions.{str(cell.cell).replace('/', '.')}", message, fix)


def _unadopted(settings: Mapping[str, Value], seeds: SeedSet, rules: CurveRules, path: str) -> Iterator[Problem]:
    target = settings.get("disclosure.target_cohort")
    if target is None:
        return
    allowed = rules.list_adopting_cohorts(seeds)
    try:
        fits = Cohort.parse(str(target.value)) in allowed
    except ReconcilerError:
        fits = False
    if not fits:
        message = f"target_cohort {target.value} cannot adopt seed set {seeds.id}"
        yield _at(target.origin, f"{path}.disclosure", message, f"one of {', '.join(map(str, allowed))}")


def _place(cell: DeclaredCell) -> Origin:
    official = cell.settings.get("benchmark.official")
    return official.origin if official is not None and official.origin.line else cell.origin.origin


def _at(origin: Origin, path: str, message: str, fix: str) -> Problem:
    return Problem(origin.file, origin.line, origin.column, path, message, fix)
