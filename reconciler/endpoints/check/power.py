"""Check a system's provisioned power and the part of the system that each point uses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.endpoints.check.forms import POWER_FIELDS, find_misfits
from reconciler.endpoints.check.structure import DescribedSystem, complain, make_rule
from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.rules.power import ProvisionedPower, compute_power, find_cooling
from reconciler.endpoints.tree.reading import PointFolder, SystemFolder
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.tree.findings import Complaint

_DIGITS = 18  # maximum digits of a count
_PARALLEL = ("tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel")


def find_power(system: SystemFolder, rules: CurveRules) -> ProvisionedPower | None:
    """Compute a system's power; None without a readable descriptor."""
    document = system.power.value
    if document is None:
        return None
    cores, accelerators = {}, {}
    for node in _list_nodes(system):
        ensemble = _read_whole(node.get("system_node_ensemble_id"))
        if ensemble is None:
            continue
        if (count := _read_whole(node.get("host_processor_core_count"))) is not None:
            cores[ensemble] = count
        if (per_node := _count_accelerators(node)) is not None:
            accelerators[ensemble] = per_node
    return compute_power(document.values, rules, cores, accelerators)


def _find_description(system: SystemFolder) -> Mapping[str, object]:
    return next((curve.description for curve in system.curves if curve.description), {})


def _list_nodes(system: SystemFolder) -> list[Mapping[str, object]]:
    listed = _find_description(system).get("node_types")
    return [node for node in listed if isinstance(node, Mapping)] if isinstance(listed, list) else []


def _count_accelerators(node: Mapping[str, object]) -> int | None:
    listed = node.get("accelerator_info")
    entries = listed if isinstance(listed, list) and listed else [node]
    counts = [_read_whole(entry.get("accelerators_per_node")) for entry in entries if isinstance(entry, Mapping)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def check_descriptor(view: DescribedSystem) -> Iterator[Complaint]:
    read = view.folder.power
    if read.absent:
        optional = [name.lower() for name in view.rules.values.power_optional]
        if str(_find_description(view.folder).get("division")).lower() not in optional:
            yield complain(read, "no such file", "the system's provisioned power, with its sources")
        return
    if read.problem:
        yield complain(read, read.problem, "a readable descriptor", line=read.line)
    power = find_power(view.folder, view.rules)
    if power is None or read.value is None:
        return
    for name, found, wanted in find_misfits(read.value.values, POWER_FIELDS):
        yield complain(read, f"{name} {found}", wanted)
    for problem in power.problems:
        yield complain(read, problem, "all values that determine the provisioned power")
    for warning in power.warnings:
        yield complain(read, warning, "consistent values", warning=True)
    yield from _check_cooling(view)


def _check_cooling(view: DescribedSystem) -> Iterator[Complaint]:
    document = view.folder.power.value
    described = [_find_description(view.folder), *_list_nodes(view.folder)]
    words = {find_cooling(str(block.get("cooling") or "")) for block in described} - {""}
    cooling = "air" if len(words) > 1 else next(iter(words), "")
    if document is not None and cooling and document.get("cooling") != cooling:
        found = f"cooling {document.get('cooling')!r}"
        yield complain(view.folder.power, found, f"{cooling}, as in system_desc.json")


def check_estimated(view: DescribedSystem) -> Iterator[Complaint]:
    power = find_power(view.folder, view.rules)
    if power is not None and power.kilowatts is not None and power.estimated:
        wanted = "public sources; otherwise the result is marked MLC Estimated Power"
        yield complain(view.folder.power, f"default figures of the rules: {'; '.join(power.estimated)}", wanted)


def check_nodes(view: DescribedSystem) -> Iterator[Complaint]:
    for point, power in _list_points(view):
        for problem in _find_wrong_nodes(point, power):
            yield complain(point, problem, "nodes of the system with enough accelerators for the point")


def _find_wrong_nodes(point: PointFolder, power: ProvisionedPower) -> Iterator[str]:
    stated = point.get("nodes_used")
    if not isinstance(stated, list):
        return
    nodes: dict[int, int] = {}
    for entry in stated:
        if not isinstance(entry, Mapping):
            return
        ensemble, count = _read_whole(entry.get("system_node_ensemble_id")), _read_whole(entry.get("nodes"))
        known = [item for item in power.sets if item.ensemble == ensemble]
        if ensemble in nodes:
            yield f"nodes_used lists ensemble {ensemble} twice"
        elif len(known) != 1 or ensemble is None:
            yield f"nodes_used lists ensemble {ensemble}, which the descriptor has {len(known)} times"
        elif count is None or not 1 <= count <= known[0].nodes:
            yield f"nodes_used states {count} nodes of ensemble {ensemble}, which has {known[0].nodes}"
        else:
            nodes[ensemble] = count
    replicas, replica = _count_replicas(point)
    available = [nodes.get(item.ensemble, item.nodes) * (item.accelerators or 0) for item in power.sets]
    if len(nodes) == len(stated) and power.accelerators is not None and replica and sum(available) < replicas * replica:
        yield f"nodes_used has {sum(available)} accelerators, but the point uses {replicas * replica}"


def check_engagement(view: DescribedSystem) -> Iterator[Complaint]:
    """Require as many replicas as fit into the system, or a reason for fewer."""
    for point, power in _list_points(view):
        (replicas, replica), provisioned = _count_replicas(point), power.accelerators
        if not replica or provisioned is None or _is_split(point):
            found = "the parallelism or the number of accelerators is unknown"
            yield complain(point, found, "both, to show that the whole system is used", warning=True)
            continue
        if replica < 1 or replicas < 1:
            yield complain(point, "a parallelism below 1", "at least 1")
            continue
        fitting, short = provisioned // replica, point.get("dp_shortfall")
        found = f"{replicas} replicas"
        if replicas > fitting:
            yield complain(point, f"{found} of {replica} accelerators", f"at most {provisioned} accelerators")
        elif replicas < fitting and not isinstance(short, Mapping):
            yield complain(point, found, f"{fitting}, which fit into the system, or dp_shortfall with a reason")
        elif replicas < fitting and (short.get("dp_actual"), short.get("dp_formula")) != (replicas, fitting):
            yield complain(point, "dp_shortfall contradicts the replicas", f"{replicas} of {fitting}")
        elif replicas < fitting or short is not None:
            found = f"dp_shortfall: {replicas} of {fitting} replicas"
            yield complain(point, found, "all accelerators in use", warning=True)


def _count_replicas(point: PointFolder) -> tuple[int, int]:
    """Return (replicas, accelerators per replica) of the point's description; 0 accelerators if it states no
    parallelism."""
    document = point.description.value
    values = document.values if document is not None else {}
    summary = values.get("config_summary")
    nested = summary if isinstance(summary, Mapping) else {}
    found = {name: _read_whole(values.get(name, nested.get(name))) for name in _PARALLEL}
    if all(value is None for value in found.values()):
        return 1, 0
    known = {name: 1 if value is None else value for name, value in found.items()}
    return known.pop("data_parallel"), math.prod(known.values())


def _is_split(point: PointFolder) -> bool:
    """Return True if prefill and decode are separate. In that case, the rules do not define a replica."""
    document = point.description.value
    flag = document.get("disaggregated") if document is not None else None
    return flag is True or (_read_whole(flag) or 0) > 1


def check_rate(view: DescribedSystem) -> Iterator[Complaint]:
    for point, power in _list_points(view):
        if point.measured is None or list(_find_wrong_nodes(point, power)):
            continue
        stated = parse_number(point.summary.value.get("system_tps_per_kw")) if point.summary.value else None
        kilowatts = power.find_point_kilowatts(_read_stated_nodes(point))
        if stated is None or not kilowatts:
            continue
        derived = point.measured.system_tps / kilowatts
        if abs(stated - derived) > abs(derived) * view.rules.values.metric_tolerance:
            wanted = f"{derived:.4f}, for {kilowatts} kW"
            yield complain(point.summary, f"system_tps_per_kw {stated}", wanted)


def _read_stated_nodes(point: PointFolder) -> dict[int, int]:
    stated = point.get("nodes_used")
    entries = [entry for entry in stated if isinstance(entry, Mapping)] if isinstance(stated, list) else []
    pairs = ((_read_whole(entry.get("system_node_ensemble_id")), _read_whole(entry.get("nodes"))) for entry in entries)
    return {ensemble: nodes for ensemble, nodes in pairs if ensemble is not None and nodes is not None}


def _list_points(view: DescribedSystem) -> Iterator[tuple[PointFolder, ProvisionedPower]]:
    """Yield each point of a system with the system's power; nothing if the descriptor does not determine it."""
    power = find_power(view.folder, view.rules)
    if power is not None and power.kilowatts is not None:
        yield from ((point, power) for curve in view.folder.curves for point in curve.stated)


def _read_whole(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < _DIGITS:
        return int(value)
    return value if is_whole(value) and abs(value) < 10**_DIGITS else None


POWER_RULES = (
    (make_rule("power-descriptor", "the system's provisioned power is stated with sources"), check_descriptor),
    (make_rule("power-estimated", "the power has public sources", warning=True), check_estimated),
    (make_rule("nodes-used", "the nodes of a point are valid"), check_nodes),
    (make_rule("maximal-engagement", "each point uses the whole system"), check_engagement),
    (make_rule("metric-consistency-tps-per-kw", "system_tps_per_kw matches the rate and the power"), check_rate),
)
