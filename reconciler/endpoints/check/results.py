"""What a point measured, and whether that is enough: counts, durations, metrics, utilisation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from reconciler.endpoints.check.curves import derive_curve_regions
from reconciler.endpoints.check.structure import CHECKER, OURS, POLICY, CurveView, complain, make_rule
from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.rules.judge import Gravity, judge_point
from reconciler.endpoints.rules.point import MeasuredPoint
from reconciler.endpoints.tree.content import DEDICATED
from reconciler.endpoints.tree.reading import PointFolder
from reconciler.resource.quantities import parse_number
from reconciler.tree.findings import Complaint, Rule

# What ``judge_point`` finds that no other rule here does.
_JUDGED = (
    make_rule("point-duration", "each point lasts as long as its region asks"),
    make_rule("steady-state-basis", "each point has a steady state", warning=True),
    make_rule("failed-samples", "no sample failed", OURS),
    make_rule("run-complete", "the run came to its end", OURS),
    make_rule("streaming-config", "responses were streamed", POLICY),
    make_rule("metric-consistency-accounting", "every issued sample is accounted for", CHECKER),
    make_rule("metric-consistency-output-tokens", "output tokens were counted", CHECKER),
    make_rule("figures-possible", "all figures can be those of one run", OURS),
    make_rule("metric-consistency-tpot-p90", "TPOT's 90th percentile is there"),
)


def _judged(rule: Rule) -> tuple[Rule, Callable[[CurveView], Iterator[Complaint]]]:
    name = rule.id.partition(".")[2]

    def check(view: CurveView) -> Iterator[Complaint]:
        regions = derive_curve_regions(view.folder, view.rules)[0]
        for point in view.folder.stated if regions is not None else ():
            if point.measured is None or regions is None:
                continue
            for finding in judge_point(point.measured, view.rules, regions):
                if finding.rule == name:
                    mild = finding.weight is Gravity.WARNING
                    yield complain(point.summary.file, finding.text, rule.title, warning=mild)

    return rule, check


def check_queries(view: CurveView) -> Iterator[Complaint]:
    least = view.rules.get("least_queries")
    for point, measured in _measured(view):
        needed = least.get(point.state("dataset"))
        if needed and measured.completed < needed:
            yield complain(
                point.summary.file, f"{measured.completed} samples completed", f"at least {needed}, one pass"
            )


def check_system_tps(view: CurveView) -> Iterator[Complaint]:
    for point, measured in _measured(view):
        yield from _same(view.rules, point, "system_tps", measured.system_tps)


def check_per_user(view: CurveView) -> Iterator[Complaint]:
    for point, measured in _measured(view):
        if point.state("offline") != DEDICATED and measured.tps_per_user is not None:
            yield from _same(view.rules, point, "tps_per_user", measured.tps_per_user)


def check_interactivity(view: CurveView) -> Iterator[Complaint]:
    name = "e2e_avg_interactivity"
    for point, measured in _measured(view):
        document = point.summary.value
        tokens = parse_number(document.get("output_tokens_per_turn_total")) if document else None
        seconds = parse_number(document.get("e2e_turn_time_seconds_total")) if document else None
        derived = tokens / seconds if tokens is not None and seconds else measured.interactivity
        if derived is not None:
            yield from _same(view.rules, point, name, derived)
        elif document is not None and document.get(name) is not None:
            yield complain(point.summary.file, f"{name} {document.get(name)}", "the sums that it is derived from")


def _same(rules: CurveRules, point: PointFolder, name: str, derived: Decimal) -> Iterator[Complaint]:
    """A stated metric is the one that its counts make."""
    document = point.summary.value
    stated = parse_number(document.get(name)) if document is not None else None
    if stated is not None and abs(stated - derived) > abs(derived) * rules.decimal("metric_tolerance"):
        yield complain(point.summary.file, f"{name} {stated}", f"{derived:.4f}, as its counts make it")


def check_utilisation(view: CurveView) -> Iterator[Complaint]:
    found = []
    for point in view.folder.points:
        document = point.description.value
        share = parse_number(document.get("tps_utilization")) if document is not None else None
        if point.measured is not None and share is not None:
            found.append((point, point.measured.system_tps, share))
    peak = max((tps for _, tps, _ in found), default=Decimal(0))
    for point, tps, share in found if peak else ():
        if abs(share - tps / peak) > view.rules.decimal("utilization_tolerance"):
            fix = "render the submission again: it follows from the results"
            yield complain(
                point.description.file, f"tps_utilization {share}", f"{tps / peak:.4f}, of the curve's peak", fix
            )


def check_rehearsal(view: CurveView) -> Iterator[Complaint]:
    for point in view.folder.stated:
        if point.state("rehearsal"):
            yield complain(point.point.file, "a rehearsal", "a measured result: this cannot be submitted")


def _measured(view: CurveView) -> Iterator[tuple[PointFolder, MeasuredPoint]]:
    for point in view.folder.stated:
        if point.measured is not None:
            yield point, point.measured


RESULT_RULES = (
    *map(_judged, _JUDGED),
    (make_rule("min-query-count", "a whole pass over the dataset"), check_queries),
    (make_rule("metric-consistency-system-tps", "the system's rate follows from its counts"), check_system_tps),
    (make_rule("metric-consistency-tps-per-user", "the rate per user follows from TPOT"), check_per_user),
    (make_rule("agentic-metric-consistency", "interactivity follows from its sums"), check_interactivity),
    (make_rule("tps-utilization", "utilisation is the share of the curve's peak"), check_utilisation),
    (make_rule("rehearsal", "a measured result", OURS), check_rehearsal),
)
