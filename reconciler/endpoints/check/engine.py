"""Applies every rule to an Endpoints submission: its folders, systems, curves and points."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from reconciler.endpoints.check.accuracy import ACCURACY_RULES
from reconciler.endpoints.check.curves import CURVE_RULES
from reconciler.endpoints.check.description import DESCRIPTION_RULES
from reconciler.endpoints.check.points import POINT_RULES
from reconciler.endpoints.check.power import POWER_RULES
from reconciler.endpoints.check.results import RESULT_RULES
from reconciler.endpoints.check.structure import (
    CURVE_STRUCTURE_RULES,
    POINT_STRUCTURE_RULES,
    SUBMISSION_RULES,
    SYSTEM_RULES,
    CurveView,
    DescribedSystem,
    PointView,
    SubmissionView,
)
from reconciler.endpoints.rules.curve_rules import CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.ruleset import NAME
from reconciler.endpoints.tree.reading import CurveFolder, SubmissionFolder, SystemFolder, find_submissions
from reconciler.tree.closed_folders import UNREADABLE, report_closed_folders
from reconciler.tree.findings import Rule, TreeFinding, TreeReport
from reconciler.tree.reading.closed import collect_closed_folders, list_if_open, pass_over_closed
from reconciler.tree.reading.files import list_folders
from reconciler.tree.rule_engine import INTERNAL, About, apply_rules

_OF_SYSTEMS = (*SYSTEM_RULES, *POWER_RULES)
_OF_CURVES = (*CURVE_STRUCTURE_RULES, *DESCRIPTION_RULES, *CURVE_RULES, *RESULT_RULES, *ACCURACY_RULES)
_OF_POINTS = (*POINT_STRUCTURE_RULES, *POINT_RULES)

ALL_ENDPOINTS_RULES: tuple[Rule, ...] = tuple(
    rule for table in (SUBMISSION_RULES, _OF_SYSTEMS, _OF_CURVES, _OF_POINTS) for rule, _ in table
)

# Files of one submission that cannot all be right, whatever the rules ask.
_CONTRADICTIONS = frozenset(
    f"curve.{name}"
    for name in (
        *("point-as-run", "point-config-valid", "result-file-valid", "accuracy-valid", "steady-state-consistency"),
        "figures-possible",
        *("metric-consistency-accounting", "metric-consistency-system-tps", "metric-consistency-tps-per-user"),
        *("metric-consistency-tps-per-kw", "agentic-metric-consistency", "tps-utilization", "seed-runtime-match"),
        *("system-description-consistency", "point-dirname-concurrency", "model-name-consistency"),
    )
)


def check_endpoints(path: Path, rules: CurveRules | None = None) -> TreeReport:
    """Every finding about the submissions at or below a path. ReconcilerError where there is none. ``rules``: those of
    the newest version, if none are given."""
    ruled = rules or load_endpoints_rules()
    with collect_closed_folders() as closed:
        submissions = find_submissions(path)
        findings = [finding for folder in submissions for finding in _check(folder, ruled)]
    return TreeReport(
        root=str(path),
        rounds=(f"Endpoints {ruled.version}",),
        layouts=(NAME,),
        facts=(),
        findings=report_closed_folders(
            closed, [*((folder.path, folder.shown) for folder in submissions), (path, "")], findings
        ),
    )


def verify_endpoints(path: Path) -> TreeReport:
    """What contradicts itself, without what is only missing or against a rule: each point beside its own run."""
    report = check_endpoints(path)
    kept = tuple(
        finding
        for finding in report.findings
        if finding.rule.id in _CONTRADICTIONS or finding.rule in (INTERNAL, UNREADABLE)
    )
    return replace(report, findings=kept)


def _list_systems(folder: SubmissionFolder) -> tuple[SystemFolder, ...]:
    return folder.systems


def _list_curves(system: SystemFolder) -> tuple[CurveFolder, ...]:
    return system.curves


def _check(folder: SubmissionFolder, rules: CurveRules) -> Iterator[TreeFinding]:
    submitter = folder.submitter
    yield from apply_rules(SUBMISSION_RULES, SubmissionView(folder, rules), About(submitter, ""))
    for system in list_if_open(_list_systems, folder):
        yield from apply_rules(_OF_SYSTEMS, DescribedSystem(system, rules), About(submitter, system.name))
        for curve in list_if_open(_list_curves, system):
            with pass_over_closed():
                yield from _check_curve(submitter, curve, rules)


def _check_curve(submitter: str, curve: CurveFolder, rules: CurveRules) -> Iterator[TreeFinding]:
    for point in curve.points:
        list_folders(point.path)  # of a curve that lacks points nothing is known
    about = About(submitter, f"{curve.division or '?'}/{curve.system}/{curve.model}")
    yield from apply_rules(_OF_CURVES, CurveView(curve, rules), about)
    for point in curve.points:
        where = About(submitter, f"{about.cell}/{point.name}")
        yield from apply_rules(_OF_POINTS, PointView(point, curve, rules), where)
