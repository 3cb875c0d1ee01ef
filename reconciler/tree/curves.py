"""From the cells of a submission to the curves of MLPerf Endpoints: the points of one system and model are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.mlperf.documents import parse_json_object
from reconciler.mlperf.endpoints_program.rules import CurveRules
from reconciler.mlperf.log_files import ACCURACY_RESULTS, RESULT_SUMMARY
from reconciler.tree.content import CellContent, Content, PointFacts, SubmissionContent, SystemContent
from reconciler.tree.curve.content import ELECTED, CurveContent, EndpointsContent, PointContent, WarmupContent
from reconciler.tree.curve.layout import canonicalise_model
from reconciler.tree.curve.power_file import POWER_FIELDS, make_power

_DIVISIONS = {"standardized": "Standardized", "serviced": "Serviced", "rdi": "RDI"}
_AVAILABILITY = {"available": "Available", "preview": "Preview", "rdi": "RDI"}
# Of system_desc.json what holds for the whole system; every other field is one of its type of node, or of its power.
_OF_SYSTEM = (
    *("system_name", "shortened_system_name", "availability_url", "target_availability_date", "system_size"),
    *("system_node_ensemble_count", "system_node_ensemble_total", "endpoint_url", "serving_framework", "node_config"),
    *("disaggregated", "expert_parallel", "tensor_parallel", "pipeline_parallel", "data_parallel", "batch"),
    *("config_summary", "config_summary_notes"),
)
_TARGET = "target_cohort"


def collect_curves(submission: SubmissionContent, rules: CurveRules) -> EndpointsContent:
    groups: dict[tuple[str, str, str], list[CellContent]] = {}
    for content in submission.cells:
        groups.setdefault((content.cell.division, content.cell.system, content.official), []).append(content)
    systems = {(system.division, system.name): system for system in submission.systems}
    curves = tuple(_curve(cells, systems[division, name], rules) for (division, name, _), cells in groups.items())
    return EndpointsContent(
        submitter=submission.submitter,
        curves=curves,
        code={curve.implementation: _collect_code(curve.implementation, submission) for curve in curves},
        documents=dict(submission.documents),
    )


def _collect_code(benchmark: str, submission: SubmissionContent) -> dict[str, Content]:
    """As the spec names it, else as the runs of its points kept it."""
    kept = [item for item in submission.kept_code if item.cell.benchmark == benchmark]
    return dict(submission.code.get(benchmark, {})) | {
        name: content for item in reversed(kept) for name, content in item.files.items()
    }


def name_point_folders(content: CellContent) -> str:
    """What only the files of this point have in their paths."""
    return f"/{content.cell.system}/{_name_model(content)}/r{content.cell.scenario[1:]}/"


def _curve(cells: Sequence[CellContent], system: SystemContent, rules: CurveRules) -> CurveContent:
    first = cells[0]
    facts = _facts(first)
    seeds = rules.find_seed_set(facts.seed_set)
    return CurveContent(
        system=first.cell.system,
        model=_name_model(first),
        division=_DIVISIONS[first.cell.division],
        max_concurrency=facts.max_concurrency,
        dataset=facts.measured.dataset,
        seed_set=facts.seed_set,
        target_cohort=str(facts.disclosed.get(_TARGET) or seeds.published),
        implementation=first.cell.benchmark,
        points=tuple(_point(content, rules) for content in cells),
        disclosed={name: value for name, value in facts.disclosed.items() if name != _TARGET},
        description=_describe(system),
        power=_power(system, _DIVISIONS[first.cell.division], rules),
        rehearsal=first.rehearsal,
    )


def _point(content: CellContent, rules: CurveRules) -> PointContent:
    facts, own = _facts(content), rules.words("per_point_description")
    assert content.configuration is not None
    warmup = facts.measured.warmup
    return PointContent(
        measured=facts.measured,
        config=content.configuration,
        summary=content.performance[RESULT_SUMMARY],
        accuracy=content.accuracy[ACCURACY_RESULTS] if facts.own_accuracy else None,
        deployment={name: value for name, value in facts.disclosed.items() if name in own},
        disclosed={name: value for name, value in facts.disclosed.items() if name not in own},
        offline=ELECTED if facts.measured.concurrency == facts.max_concurrency else "",
        warmup=WarmupContent(
            issued=warmup.requests,
            data_source="performance dataset, salted",
            concurrency=warmup.concurrency,
        )
        if warmup
        else WarmupContent(),
    )


def _power(system: SystemContent, division: str, rules: CurveRules) -> dict[str, Any]:
    """As the spec's own file says, or as its description, where the division needs it or something is declared of
    it."""
    if system.nameplate:
        return _read_power(system)
    wanted = division not in rules.words("power_optional") or POWER_FIELDS & set(system.description)
    return make_power(system.name, system.description) if wanted else {}


def _read_power(system: SystemContent) -> dict[str, Any]:
    try:
        return dict(parse_json_object(system.nameplate).values)
    except (ValueError, RecursionError) as error:
        message = f"nameplate of {system.name} is no system_power.json: {' '.join(str(error).split())}"
        raise ReconcilerError(message, fix="write JSON as the rules' appendix E has it") from error


def _describe(system: SystemContent) -> dict[str, Any]:
    """What is declared flat, as the rules nest it: one type of node."""
    stated = {"system_name": system.name, **system.description}
    own = {name: value for name, value in stated.items() if name in _OF_SYSTEM}
    node = {name: value for name, value in stated.items() if name not in {*_OF_SYSTEM, *POWER_FIELDS}}
    return {
        "shortened_system_name": system.name[:20],
        "system_size": "1 node",
        "system_node_ensemble_count": 1,
        "system_node_ensemble_total": 1,
        **own,
        "system_availability_status": _AVAILABILITY.get(system.status, system.status),
        "node_types": [{"system_node_ensemble_id": 1, **node}],
    }


def _name_model(content: CellContent) -> str:
    return canonicalise_model(content.official)


def _facts(content: CellContent) -> PointFacts:
    assert content.point is not None
    return content.point
