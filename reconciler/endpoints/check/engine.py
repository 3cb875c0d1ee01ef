"""Apply all rules to an Endpoints submission: its folders, systems, curves and points."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.endpoints.check.accuracy import ACCURACY_RULES
from reconciler.endpoints.check.curves import CURVE_RULES, find_regions
from reconciler.endpoints.check.forms import (
    DESCRIPTION_FIELDS,
    NODE_FIELDS,
    PARALLEL_FIELDS,
    SYSTEM_FIELDS,
    find_misfits,
)
from reconciler.endpoints.check.points import POINT_RULES
from reconciler.endpoints.check.power import POWER_RULES
from reconciler.endpoints.check.structure import (
    CHECKER,
    CURVE_STRUCTURE_RULES,
    OURS,
    POINT_STRUCTURE_RULES,
    POLICY,
    SUBMISSION_RULES,
    SYSTEM_RULES,
    WHOLE,
    CurveView,
    Mismatch,
    RuledFolder,
    complain,
    describe_mismatch,
    make_rule,
)
from reconciler.endpoints.rules.curve_rules import NAME, CurveRules, load_endpoints_rules
from reconciler.endpoints.rules.judge import judge_point
from reconciler.endpoints.rules.point import MeasuredPoint
from reconciler.endpoints.tree.content import DEDICATED
from reconciler.endpoints.tree.reading import CurveFolder, PointFolder, SubmissionFolder, find_submissions
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.resource.rules import Rule, Severity
from reconciler.tree.findings import Complaint, TreeFinding, TreeReport
from reconciler.tree.reading.files import list_folders
from reconciler.tree.reading.unreadable_folders import (
    UNREADABLE,
    collect_closed_folders,
    list_if_open,
    pass_over_closed,
    report_closed_folders,
)
from reconciler.tree.rule_engine import INTERNAL, About, apply_rules

# Findings of ``judge_point`` that no other rule here covers.
_JUDGED = (
    make_rule("point-duration", "each point runs for the duration that its region requires"),
    make_rule("steady-state-basis", "each point has a steady state", warning=True),
    make_rule("failed-samples", "no sample failed", OURS),
    make_rule("run-complete", "the run completed", OURS),
    make_rule("streaming-config", "responses were streamed", POLICY),
    make_rule("metric-consistency-accounting", "every issued sample is accounted for", CHECKER),
    make_rule("metric-consistency-output-tokens", "output tokens were counted", CHECKER),
    make_rule("figures-possible", "the figures of a point agree with each other", OURS),
    make_rule("metric-consistency-tpot-p90", "TPOT has a 90th percentile"),
)


def _make_point_check(rule: Rule) -> tuple[Rule, Callable[[CurveView], Iterator[Complaint]]]:
    name = rule.id.partition(".")[2]

    def check(view: CurveView) -> Iterator[Complaint]:
        regions = find_regions(view)
        for point, measured in _list_measured(view):
            for finding in judge_point(measured, view.rules, regions) if regions is not None else ():
                if finding.rule == name:
                    mild = finding.severity is Severity.WARNING
                    yield complain(point.summary, finding.text, rule.title, warning=mild)

    return rule, check


def check_queries(view: CurveView) -> Iterator[Complaint]:
    least = view.rules.values.least_queries
    for point, measured in _list_measured(view):
        needed = least.get(str(point.get("dataset")))
        if needed and measured.completed < needed:
            wanted = f"at least {needed}, one pass over the dataset"
            yield complain(point.summary, f"{measured.completed} samples completed", wanted)


def check_system_tps(view: CurveView) -> Iterator[Complaint]:
    for point, measured in _list_measured(view):
        yield from _check_metric(view.rules, point, "system_tps", measured.system_tps)


def check_per_user(view: CurveView) -> Iterator[Complaint]:
    for point, measured in _list_measured(view):
        if point.get("offline") != DEDICATED and measured.tps_per_user is not None:
            yield from _check_metric(view.rules, point, "tps_per_user", measured.tps_per_user)


def check_interactivity(view: CurveView) -> Iterator[Complaint]:
    name = "e2e_avg_interactivity"
    for point, measured in _list_measured(view):
        document = point.summary.value
        tokens = parse_number(document.get("output_tokens_per_turn_total")) if document else None
        seconds = parse_number(document.get("e2e_turn_time_seconds_total")) if document else None
        derived = tokens / seconds if tokens is not None and seconds else measured.interactivity
        if derived is not None:
            yield from _check_metric(view.rules, point, name, derived)
        elif document is not None and document.get(name) is not None:
            yield complain(point.summary, f"{name} {document.get(name)}", "the sums from which it is computed")


def _check_metric(rules: CurveRules, point: PointFolder, name: str, derived: Decimal) -> Iterator[Complaint]:
    """Require that a stated metric equals the one computed from the run's counts."""
    document = point.summary.value
    stated = parse_number(document.get(name)) if document is not None else None
    if stated is not None and abs(stated - derived) > abs(derived) * rules.values.metric_tolerance:
        yield complain(point.summary, f"{name} {stated}", f"{derived:.4f}, computed from its counts")


def check_utilisation(view: CurveView) -> Iterator[Complaint]:
    found = []
    for point in view.folder.points:
        document = point.description.value
        share = parse_number(document.get("tps_utilization")) if document is not None else None
        if point.measured is not None and share is not None:
            found.append((point, point.measured.system_tps, share))
    peak = max((tps for _, tps, _ in found), default=Decimal(0))
    for point, tps, share in found if peak else ():
        if abs(share - tps / peak) > view.rules.values.utilization_tolerance:
            wanted = f"{tps / peak:.4f}, relative to the curve's peak"
            yield complain(point.description, f"tps_utilization {share}", wanted, "render the submission again")


def check_rehearsal(view: CurveView) -> Iterator[Complaint]:
    for point in view.folder.stated:
        if point.get("rehearsal"):
            yield complain(point, "a rehearsal", "a measured result")


def _list_measured(view: CurveView) -> Iterator[tuple[PointFolder, MeasuredPoint]]:
    for point in view.folder.stated:
        if point.measured is not None:
            yield point, point.measured


RESULT_RULES = (
    *map(_make_point_check, _JUDGED),
    (make_rule("min-query-count", "each point completes a pass over the dataset"), check_queries),
    (make_rule("metric-consistency-system-tps", "system_tps matches its counts"), check_system_tps),
    (make_rule("metric-consistency-tps-per-user", "tps_per_user matches TPOT"), check_per_user),
    (make_rule("agentic-metric-consistency", "interactivity matches its sums"), check_interactivity),
    (make_rule("tps-utilization", "utilisation is relative to the curve's peak"), check_utilisation),
    (make_rule("rehearsal", "each point is a measured result", OURS), check_rehearsal),
)


# The official checker validates only the first point's copy of a curve's system_desc.json.

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_AVAILABILITY = ("system_availability_status", "publication_status", "availability_status")


def check_description(view: CurveView) -> Iterator[Complaint]:
    reads = (point.description for point in view.folder.points)
    read = next((read for read in reads if read.value is not None), None)
    if read is None or (document := read.value) is None:
        return
    misfits = find_misfits(document.values, DESCRIPTION_FIELDS)
    for name, found, wanted in (*_find_wrong_values(document.values, view), *misfits):
        line = document.lines.get(name.rpartition(".")[2], 0)
        yield complain(read, f"{name} {found}", wanted, line=line)


def _find_wrong_values(values: Mapping[str, object], view: CurveView) -> Iterator[Mismatch]:
    yield from find_misfits(values, SYSTEM_FIELDS)
    short, most = values.get("shortened_system_name"), view.rules.values.most_short_name
    if isinstance(short, str) and not (short.strip() and len(short) <= most):
        yield "shortened_system_name", f"{short!r} has {len(short)} characters", f"1 to {most}"
    division = values.get("division")
    if str(division).strip().lower() not in {name.lower() for name in view.rules.values.divisions}:
        yield "division", describe_mismatch(division), " or ".join(view.rules.values.divisions)
    yield from _find_wrong_availability(values, view)
    limit = view.rules.values.most_ultra_low_concurrency
    if "c_min_override" in values:
        lowest = values["c_min_override"]
        if not (is_whole(lowest) and 1 <= lowest <= limit):
            yield "c_min_override", describe_mismatch(lowest), f"1 to {limit}"
    yield from find_misfits(values, PARALLEL_FIELDS)
    summary = values.get("config_summary")
    if (isinstance(summary, str) and len(summary) < 4) or not isinstance(summary, str | Mapping | None):
        yield "config_summary", describe_mismatch(summary), "an object, or a text of at least four characters"
    nodes = values.get("node_types")
    if not isinstance(nodes, list):
        yield "node_types", describe_mismatch(nodes), "a list"
        return
    for node in nodes:
        yield from _find_wrong_node_values(node)


def _find_wrong_availability(values: Mapping[str, object], view: CurveView) -> Iterator[Mismatch]:
    stated = {name: str(values[name]) for name in _AVAILABILITY if values.get(name) not in (None, "")}
    known = {name.lower(): name for name in view.rules.values.availabilities}
    if len({value.strip().lower() for value in stated.values()}) > 1:
        yield _AVAILABILITY[0], f"is {' and '.join(stated.values())} under {len(stated)} names", "one availability"
        return
    status = known.get(next(iter(stated.values()), "").strip().lower())
    if status is None:
        yield _AVAILABILITY[0], describe_mismatch(values.get(_AVAILABILITY[0])), " or ".join(known.values())
    if status == "Available" and not str(values.get("availability_url") or "").strip():
        yield "availability_url", "is missing", "the address where the system can be ordered, for an Available system"
    date = values.get("target_availability_date")
    if date not in (None, "") and not _is_date(date):
        yield "target_availability_date", describe_mismatch(date), "YYYY-MM-DD"
    elif status == "Preview" and not str(date or "").strip():
        yield "target_availability_date", "is missing", "the date of availability, for a Preview system"


def _is_date(value: object) -> bool:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _find_wrong_node_values(node: Any) -> Iterator[Mismatch]:
    if not isinstance(node, Mapping):
        yield "node_types", describe_mismatch(node), "one object per type of node"
        return
    yield from find_misfits(node, NODE_FIELDS)
    cores = [node.get(name) for name in ("host_processor_core_count", "host_processor_vcpu_count")]
    if all(count is None for count in cores):
        yield "host_processor_core_count", "is missing", "a number of cores or virtual CPUs for each type of node"
    for count in cores:
        if count is not None and not is_whole(count):
            yield "host_processor_core_count", describe_mismatch(count), WHOLE


_DESCRIPTION_RULE = (make_rule("system-description-valid", "the system's description is valid"), check_description)
_OF_SYSTEMS = (*SYSTEM_RULES, *POWER_RULES)
_OF_CURVES = (*CURVE_STRUCTURE_RULES, _DESCRIPTION_RULE, *CURVE_RULES, *RESULT_RULES, *ACCURACY_RULES)
_OF_POINTS = (*POINT_STRUCTURE_RULES, *POINT_RULES)

ALL_ENDPOINTS_RULES: tuple[Rule, ...] = tuple(
    rule for table in (SUBMISSION_RULES, _OF_SYSTEMS, _OF_CURVES, _OF_POINTS) for rule, _ in table
)

# Rules that find contradictions between the files of one submission.
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
    """Check the submissions at or below a path. ``rules``: by default the newest version. Raises ReconcilerError if
    there are no submissions."""
    ruled = rules or load_endpoints_rules()
    with collect_closed_folders() as closed:
        submissions = find_submissions(path)
        findings = [finding for folder in submissions for finding in _check_submission(folder, ruled)]
    roots = [*((folder.path, folder.shown) for folder in submissions), (path, "")]
    return TreeReport(
        root=str(path),
        rounds=(f"Endpoints {ruled.version}",),
        layouts=(NAME,),
        facts=(),
        findings=report_closed_folders(closed, roots, findings),
    )


def verify_endpoints(path: Path) -> TreeReport:
    """Find contradictions between each point and its run; ignore missing files and broken rules."""
    report = check_endpoints(path)
    kept = {*_CONTRADICTIONS, INTERNAL.id, UNREADABLE.id}
    return replace(report, findings=tuple(finding for finding in report.findings if finding.rule.id in kept))


def _check_submission(folder: SubmissionFolder, rules: CurveRules) -> Iterator[TreeFinding]:
    submitter = folder.submitter
    yield from apply_rules(SUBMISSION_RULES, RuledFolder(folder, rules), About(submitter, ""))
    for system in list_if_open(lambda found: found.systems, folder):
        yield from apply_rules(_OF_SYSTEMS, RuledFolder(system, rules), About(submitter, system.name))
        for curve in list_if_open(lambda found: found.curves, system):
            with pass_over_closed():
                yield from _check_curve(submitter, curve, rules)


def _check_curve(submitter: str, curve: CurveFolder, rules: CurveRules) -> Iterator[TreeFinding]:
    for point in curve.points:
        list_folders(point.path)  # a curve with missing points cannot be judged
    about = About(submitter, f"{curve.division or '?'}/{curve.system}/{curve.model}")
    yield from apply_rules(_OF_CURVES, RuledFolder(curve, rules), about)
    for point in curve.points:
        where = About(submitter, f"{about.cell}/{point.name}")
        yield from apply_rules(_OF_POINTS, RuledFolder(point, rules), where)
