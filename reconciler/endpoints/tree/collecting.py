"""Collect the cells of a submission into curves of MLPerf Endpoints: the points of one system and model form one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.rules.power import find_cooling
from reconciler.endpoints.rules.results import parse_point
from reconciler.endpoints.tree.content import (
    DEDICATED,
    ELECTED,
    CurveContent,
    EndpointsContent,
    PointContent,
    PointFacts,
    canonicalise_model,
)
from reconciler.errors import ReconcilerError
from reconciler.loadgen.log_files import ACCURACY_RESULTS, CONFIG, RESULT_SUMMARY
from reconciler.observed.rendered import SHARED
from reconciler.resource.kinds import PERFORMANCE
from reconciler.resource.quantities import parse_decimal, read_count
from reconciler.resource.settings import ACCURACY_FROM, AGENTIC, MAXIMUM, MINIMUM, CellSettings
from reconciler.storage.documents import parse_json_object
from reconciler.tree.content import CellContent, Content, LogRef, SubmissionContent, SystemContent
from reconciler.tree.documents import encode_json

# system_power.json, derived from the spec's description of a system: its parts with their rated power, or one published
# figure (rules §4.5.2, appendix E).

# Fields of a system's description that concern only its power, and are omitted from system_desc.json.
POWER_FIELDS = frozenset(
    {
        *("host_processor_tdp_w", "host_processor_tdp_source", "accelerator_tdp_w", "accelerator_tdp_source"),
        *("scale_up_switch_count", "scale_up_switch_w", "scale_up_switch_source"),
        *("published_node_power_w", "published_node_power_source", "provisioned_power_kw", "provisioned_power_source"),
    }
)


def make_power(system: str, description: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return system_power.json. ``nodes``: the fields of each type of node. Each type forms a set; without types, all
    nodes form one set. Undeclared values are omitted, so that the checkers use the rules' own figures and mark the
    result as estimated. Undeclared cooling counts as air, which has the greater overhead. One air-cooled type of node
    makes the whole system count as air-cooled."""
    sets = nodes or (description,)
    cooling = {find_cooling(str(node.get("cooling", ""))) or "air" for node in sets}
    total = read_count(description.get("system_node_ensemble_total"), 1) if len(sets) == 1 else 1
    power: dict[str, Any] = {
        "system_desc_id": system,
        "cooling": "air" if "air" in cooling else min(cooling),
        "node_sets": [_make_set(number, node, total) for number, node in enumerate(sets)],
        "scale_out": {"present": False},
    }
    declared = _read_sourced(description, "provisioned_power_kw")
    return {**power, "declared_provisioned_power": declared} if declared else power


def _make_set(number: int, node: Mapping[str, Any], usual: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "node_set_id": number,
        "system_node_ensemble_id": read_count(node.get("system_node_ensemble_id"), 1),
        "nodes_provisioned": read_count(node.get("number_of_nodes"), usual),
    }
    published = _read_sourced(node, "published_node_power_w")
    if published:
        return {**found, "power_method": "published_system", "published_power": published}
    return {**found, "power_method": "component_sum", "components": _make_components(node)}


def _make_components(description: Mapping[str, Any]) -> dict[str, Any]:
    switches = read_count(description.get("scale_up_switch_count"), 0)
    network: dict[str, Any] = {"method": "none"}
    if switches:
        network = {"method": "declared_tdp", "switch_count": switches}
        each = _read_sourced(description, "scale_up_switch_w")
        network |= {"tdp_per_switch": each} if each else {}
    return {
        "cpu": _make_units(description, "host_processor", 1),
        "accelerator": _make_units(description, "accelerator", 0),
        "scale_up_network": network,
    }


def _make_units(description: Mapping[str, Any], unit: str, usual: int) -> dict[str, Any]:
    number = read_count(description.get(f"{unit}s_per_node"), usual)
    block: dict[str, Any] = {"model": str(description.get(f"{unit}_model_name", "")), "count_per_node": number}
    if not number:  # systems without units need not state their power
        return {**block, "tdp_per_unit": {"value_w": 0, "source_type": "mlc_default", "source": "D.3"}}
    each = _read_sourced(description, f"{unit}_tdp_w")
    return block | {"tdp_per_unit": each} if each else block


def _read_sourced(description: Mapping[str, Any], figure: str) -> dict[str, Any]:
    """Return a figure, whose name ends in its unit, with the public page that states it."""
    stated = description.get(figure)
    if stated in (None, ""):
        return {}
    name, _, unit = figure.rpartition("_")
    number = parse_decimal(stated)
    if number is None:
        raise ReconcilerError(f"{figure} is {stated!r}", fix="write a number")
    whole = int(number) if number == number.to_integral_value() else float(number)
    return {f"value_{unit}": whole, "source_type": "vendor_spec", "source": str(description.get(f"{name}_source", ""))}


_DIVISIONS = {"standardized": "Standardized", "serviced": "Serviced", "rdi": "RDI"}
_AVAILABILITY = {"available": "Available", "preview": "Preview", "rdi": "RDI"}
# Fields of system_desc.json for the whole system; all others concern one of its types of node, or its power.
_OF_SYSTEM = (
    *("system_name", "shortened_system_name", "availability_url", "target_availability_date", "system_size"),
    *("system_node_ensemble_count", "system_node_ensemble_total", "endpoint_url", "serving_framework", "node_config"),
    *("disaggregated", "expert_parallel", "tensor_parallel", "pipeline_parallel", "data_parallel", "batch"),
    *("config_summary", "config_summary_notes"),
)
_OF_ACCELERATOR = (
    *("accelerator_model_name", "accelerators_per_node", "accelerator_memory_capacity", "accelerator_memory_type"),
    *("accelerator_interconnect", "accelerator_host_interconnect"),
)
_ENSEMBLE = "system_node_ensemble_id"
_TARGET = "target_cohort"


def collect_curves(submission: SubmissionContent, rules: CurveRules) -> EndpointsContent:
    groups: dict[tuple[str, str, str], list[CellContent]] = {}
    for content in submission.cells:
        groups.setdefault((content.cell.division, content.cell.system, content.official), []).append(content)
    systems = {(system.division, system.name): system for system in submission.systems}
    curves = tuple(_make_curve(cells, systems[division, name], rules) for (division, name, _), cells in groups.items())
    return EndpointsContent(
        submitter=submission.submitter,
        curves=curves,
        code={curve.implementation: _collect_code(curve.implementation, submission) for curve in curves},
        documents=dict(submission.documents),
    )


def _collect_code(benchmark: str, submission: SubmissionContent) -> dict[str, Content]:
    """Collect the code that the spec names. The code archived from the runs of its points takes precedence."""
    found = dict(submission.code.get(benchmark, {}))
    for item in reversed(submission.kept_code):
        found |= item.files if item.cell.benchmark == benchmark else {}
    return found


def name_point_folders(content: CellContent) -> str:
    """Return the folders that occur only in the paths of this point's files."""
    return f"/{content.cell.system}/{canonicalise_model(content.official)}/r{content.cell.scenario[1:]}/"


def describe_point(
    settings: CellSettings,
    performance: Mapping[str, LogRef],
    accuracy: Mapping[str, LogRef],
    load_bytes: Callable[[LogRef], bytes],
) -> PointFacts:
    """Describe a point for its files other than the client's own, from the recorded client files."""
    own = ACCURACY_FROM not in settings
    files = {name: load_bytes(performance[name]) for name in (CONFIG, RESULT_SUMMARY)}
    scores = load_bytes(accuracy[ACCURACY_RESULTS]) if own else None
    if AGENTIC in settings:  # the performance run is also scored
        scores = _join_scores(load_bytes(performance[ACCURACY_RESULTS]), scores)
    if scores is not None:
        files[ACCURACY_RESULTS] = scores
    return PointFacts(
        measured=parse_point(files, settings.get_number("point.concurrency")),
        nodes={name: int(str(count)) for name, count in settings.get_below("nodes_used.").items()},
        shortfall=settings.get_below("dp_shortfall."),
        warmup=settings.get_below("warmup."),
        speculative=settings.get_below("speculative_decoding."),
        max_concurrency=settings.get_number(MAXIMUM),
        min_concurrency=settings.get_number(MINIMUM),
        seed_set=settings.get_text("seed_set"),
        own_accuracy=own,
        scores=scores if AGENTIC in settings else None,
        disclosed=settings.get_below("disclosure."),
    )


def _join_scores(played: bytes, scored: bytes | None) -> bytes:
    """Join the scores of an agentic point's performance run and accuracy run. A file that already has both, or is the
    only one, stays as the client wrote it. Raises ValueError for an invalid file."""
    if scored in (None, played):
        return played
    files = {True: played, False: scored or b""}
    entries = [
        score
        for inline, data in files.items()
        for score in parse_json_object(data).get("accuracy_scores") or ()
        if (score.get("dataset_type") == PERFORMANCE) is inline
    ]
    return encode_json({"accuracy_scores": entries})


def group_by_cell(files: Mapping[str, str], points: Iterable[CellContent]) -> dict[str, dict[str, str]]:
    """Map each point to its rendered files: its folders are named after model and concurrency; all other files are
    shared."""
    owners = {name_point_folders(content): str(content.cell) for content in points}
    found: dict[str, dict[str, str]] = {SHARED: {}}
    for path, sha256 in files.items():
        owner = next((cell for folders, cell in owners.items() if folders in f"/{path}"), SHARED)
        found.setdefault(owner, {})[path] = sha256
    return found


def _make_curve(cells: Sequence[CellContent], system: SystemContent, rules: CurveRules) -> CurveContent:
    first = cells[0]
    facts = _get_facts(first)
    seeds, division = rules.find_seed_set(facts.seed_set), _DIVISIONS[first.cell.division]
    measured = [_get_facts(content).measured for content in cells]
    elects = not any(point.is_offline or point.is_agentic for point in measured)
    return CurveContent(
        system=first.cell.system,
        model=canonicalise_model(first.official),
        division=division,
        max_concurrency=facts.max_concurrency,
        min_concurrency=facts.min_concurrency or None,
        dataset=facts.measured.dataset,
        seed_set=facts.seed_set,
        target_cohort=str(facts.disclosed.get(_TARGET) or seeds.cohorts[0]),
        implementation=first.cell.benchmark,
        points=tuple(_make_point(content, system, elects=elects) for content in cells),
        disclosed={name: value for name, value in facts.disclosed.items() if name != _TARGET},
        description=_describe(system),
        power=_collect_power(system, division, rules),
        rehearsal=first.rehearsal,
    )


def _make_point(content: CellContent, system: SystemContent, *, elects: bool) -> PointContent:
    """``elects``: the curve has no dedicated Offline run and is not agentic, so that the point at the maximum counts as
    one."""
    facts, ids = _get_facts(content), _number_nodes(system)
    assert content.configuration is not None
    elected = ELECTED if elects and facts.measured.concurrency == facts.max_concurrency else ""
    return PointContent(
        facts=facts,
        config=content.configuration,
        summary=content.performance[RESULT_SUMMARY],
        accuracy=content.accuracy[ACCURACY_RESULTS] if facts.own_accuracy and facts.scores is None else facts.scores,
        offline=DEDICATED if facts.measured.is_offline else elected,
        nodes={ids[name]: count for name, count in facts.nodes.items()},
    )


def _collect_power(system: SystemContent, division: str, rules: CurveRules) -> dict[str, Any]:
    """Return the power from the spec's own file, or from its description if the division needs it or if the spec
    declares any part of it."""
    if not system.nameplate:
        wanted = division not in rules.values.power_optional or POWER_FIELDS & set(system.description)
        return make_power(system.name, system.description, _list_nodes(system)) if wanted else {}
    try:
        return dict(parse_json_object(system.nameplate).values)
    except (ValueError, RecursionError) as error:
        message = f"nameplate of {system.name} is not a system_power.json: {' '.join(str(error).split())}"
        raise ReconcilerError(message, fix="write JSON as the rules' appendix E has it") from error


def _describe(system: SystemContent) -> dict[str, Any]:
    """Nest the flat declaration as the rules require: fields of the whole system, and fields of each type of node. A
    type inherits the fields of the description that it does not set itself."""
    own = {name: value for name, value in system.description.items() if name in _OF_SYSTEM}
    nodes = _list_nodes(system)
    counts = [_count(node, "number_of_nodes") for node in nodes]
    return {
        "system_name": system.name,
        "shortened_system_name": system.name[:20],
        "system_size": _describe_size(nodes),
        "system_node_ensemble_count": len(nodes),
        "system_node_ensemble_total": sum(counts),
        **own,
        "system_availability_status": _AVAILABILITY.get(system.status, system.status),
        "node_types": [_nest(node) for node in nodes],
    }


def _list_nodes(system: SystemContent) -> list[dict[str, Any]]:
    """List every type of node with all of its fields, including those of its power. If none is named, there is one."""
    shared = {name: value for name, value in system.description.items() if name not in _OF_SYSTEM}
    alone = {"": {"number_of_nodes": _count(system.description, "system_node_ensemble_total")}}
    ids = _number_nodes(system)
    return [{_ENSEMBLE: ids[name], **shared, **node} for name, node in (system.nodes or alone).items()]


def _number_nodes(system: SystemContent) -> dict[str, int]:
    """Number the nodes as in the spec, else in the order of their names."""
    names = system.nodes or {"": system.description}
    return {name: _count(node, _ENSEMBLE, number) for number, (name, node) in enumerate(names.items(), start=1)}


def _count(node: Mapping[str, object], name: str, usual: int = 1) -> int:
    return read_count(node.get(name), usual)


def _describe_size(nodes: Sequence[Mapping[str, object]]) -> str:
    """Return the number of accelerators of each type of node, in the rules' notation; of nodes if there are no
    accelerators."""
    accelerators = [_count(node, "number_of_nodes") * _count(node, "accelerators_per_node", 0) for node in nodes]
    if any(accelerators):
        return " + ".join(f"{count} accelerators" for count in accelerators)
    total = sum(_count(node, "number_of_nodes") for node in nodes)
    return f"{total} node{'s' if total != 1 else ''}"


def _nest(node: Mapping[str, object]) -> dict[str, object]:
    """Nest the fields of an accelerator in a separate list; the checkers read them flat only in old files."""
    accelerator = {name: node[name] for name in _OF_ACCELERATOR if name in node}
    shown = {name: value for name, value in node.items() if name not in {*_OF_ACCELERATOR, *POWER_FIELDS}}
    counted = {**shown, "number_of_nodes": _count(node, "number_of_nodes")}
    return {**counted, "accelerator_info": [accelerator]} if accelerator else counted


def _get_facts(content: CellContent) -> PointFacts:
    assert isinstance(content.point, PointFacts)
    return content.point
