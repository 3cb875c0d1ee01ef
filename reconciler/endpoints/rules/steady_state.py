"""Find the steady state of a run from its events, as defined by the rules (§4.4), without the client's detector.

A super-pass is one pass over the dataset in the order of issue. After the ramp, the window is the first stretch of
super-passes in which the gating metrics, TPOT at P50 and P90, have no trend and little scatter. TPOT is computed per
streamed chunk, since only its trend matters. The parameters are those of the client's detector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from statistics import fmean, linear_regression, median

from msgspec import Struct

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.rules.event_log import LoggedRequest, LoggedRun
from reconciler.endpoints.rules.point import SteadyWindow

PLATEAU, UP, DOWN = "Plateau", "Drifting Up", "Drifting Down"
_SECOND = 10**9
_SHARES = {"tpot_p50": 0.5, "tpot_p90": 0.9}  # the gating metrics
_CONFIDENT = 1.96  # quantile of a normal distribution: two-sided, 95 %
_MOST_TESTED = 96  # maximum super-passes in one test, whose time grows quadratically; more are merged


class SuperPass(Struct, frozen=True):
    """``metrics``: gating metric → its value in this super-pass. Times in ns."""

    first_issue: int
    last_issue: int
    streamed: int
    metrics: Mapping[str, float]


def roll_up(run: LoggedRun, size: int) -> tuple[SuperPass, ...]:
    """Return the complete super-passes of ``size`` requests; a remainder at the end is ignored."""
    whole = len(run.requests) // size if size else 0
    return tuple(_make_super_pass(run.requests[number * size : (number + 1) * size]) for number in range(whole))


def _make_super_pass(requests: Sequence[LoggedRequest]) -> SuperPass:
    paces = sorted(pace for request in requests if (pace := request.per_chunk))
    last = len(paces) - 1
    metrics = {name: paces[min(int(share * len(paces)), last)] for name, share in _SHARES.items()} if paces else {}
    streamed = sum(1 for request in requests if request.first)
    return SuperPass(requests[0].issued, requests[-1].issued, streamed, metrics)


def find_window(passes: Sequence[SuperPass], least_seconds: int, rules: CurveRules) -> SteadyWindow:
    """Return the first steady stretch that is long enough, else the longest one; ``found`` is False if there is none.
    Super-passes are numbered from the start of the run."""
    tested, together = _merge_passes(passes)
    ramp = _count_ramp(tested, rules)
    stretches = [(first * together, end * together) for first, end in _find_stretches(tested, ramp, rules)]
    if not stretches:
        return SteadyWindow(False, skipped=ramp * together, states=_describe(passes[ramp * together :], rules))
    long = (stretch for stretch in stretches if _measure_span(passes, *stretch) >= least_seconds)
    first, end = next(long, None) or max(stretches, key=lambda stretch: _measure_span(passes, *stretch))
    return SteadyWindow(
        found=True,
        first=first,
        last=end - 1,
        samples=sum(item.streamed for item in passes[first:end]),
        seconds=Decimal(str(round(_measure_span(passes, first, end), 3))),
        states=_describe(passes[first:end], rules),
        skipped=ramp * together,
    )


def find_false_claims(claim: SteadyWindow, passes: Sequence[SuperPass], size: int, rules: CurveRules) -> list[str]:
    """List the contradictions between the client's window and its own events. ``size``: requests of a super-pass."""
    if claim.super_pass_size and claim.super_pass_size != size:
        return [f"super-passes of {claim.super_pass_size} samples, the dataset has {size}"]
    if not claim.found or claim.super_passes < 1:
        return []
    first, end = claim.skipped + claim.first, claim.skipped + claim.last + 1
    if end > len(passes):
        return [f"a window up to super-pass {end - 1}, the run has {len(passes)} whole ones"]
    found = []
    counted, span = sum(item.streamed for item in passes[first:end]), _measure_span(passes, first, end)
    if claim.samples and claim.samples != counted:
        found.append(f"a window of {claim.samples} samples, its super-passes have {counted}")
    if claim.seconds is not None and abs(float(claim.seconds) - span) > span / 100:
        found.append(f"a window of {claim.seconds:.6g} s, its requests were issued over {span:.6g} s")
    drifting = sorted(n for n, state in _describe(passes[first:end], rules).items() if state != PLATEAU)
    return [*found, *([f"a steady state, while {' and '.join(drifting)} drifts in its window"] if drifting else [])]


def _measure_span(passes: Sequence[SuperPass], first: int, end: int) -> float:
    """Return the seconds of issue time, without the time after the last request."""
    return (passes[end - 1].last_issue - passes[first].first_issue) / _SECOND


def _count_ramp(passes: Sequence[SuperPass], rules: CurveRules) -> int:
    """Count the first super-passes whose TPOT differs from that of the run's second half: at least one, at most half of
    all."""
    course = [item.metrics.get("tpot_p50", 0.0) for item in passes]
    if len(course) < rules.values.least_super_passes:
        return min(1, len(course))
    level, band = median(course[len(course) // 2 :]), float(rules.values.ramp_band)
    most = max(1, len(course) // 2)
    ramp = next((n for n, value in enumerate(course[:most]) if abs(value - level) <= band * level), most)
    return max(1, ramp)


def _find_stretches(passes: Sequence[SuperPass], ramp: int, rules: CurveRules) -> list[tuple[int, int]]:
    """Return (first, end) of each maximal steady stretch, from the left."""
    least, start, found = rules.values.least_super_passes, ramp, []
    while start + least <= len(passes):
        end = start + least - 1
        while end < len(passes) and _is_steady(passes[start : end + 1], rules):
            end += 1
        if end - start >= least:
            found.append((start, end))
            start = end
        else:
            start += 1
    return found


def _is_steady(passes: Sequence[SuperPass], rules: CurveRules) -> bool:
    most = float(rules.values.most_scatter)
    courses = _collect_courses(passes)
    if courses is None or any(state != PLATEAU for state in _describe(passes, rules).values()):
        return False
    return all(_measure_scatter(course) <= most * fmean(course) for course in courses.values())


def _collect_courses(passes: Sequence[SuperPass]) -> dict[str, list[float]] | None:
    if not all(item.metrics for item in passes):
        return None
    return {name: [item.metrics[name] for item in passes] for name in _SHARES}


def _merge_passes(passes: Sequence[SuperPass]) -> tuple[Sequence[SuperPass], int]:
    """Merge super-passes until there are few enough for one test. Return them and how many were merged into each."""
    count = -(-len(passes) // _MOST_TESTED)
    if count < 2:
        return passes, 1
    groups = [passes[n : n + count] for n in range(0, len(passes) - count + 1, count)]
    return [_join_passes(group) for group in groups], count


def _join_passes(group: Sequence[SuperPass]) -> SuperPass:
    courses = _collect_courses(group) or {}
    metrics = {name: fmean(course) for name, course in courses.items()}
    return SuperPass(group[0].first_issue, group[-1].last_issue, sum(item.streamed for item in group), metrics)


def _describe(passes: Sequence[SuperPass], rules: CurveRules) -> dict[str, str]:
    """Map each gating metric to Plateau, Drifting Up or Drifting Down; empty if there are too few super-passes."""
    courses = _collect_courses(_merge_passes(passes)[0])
    if courses is None or len(passes) < rules.values.least_super_passes:
        return {}
    return {name: find_trend(course, float(rules.values.least_drift)) for name, course in courses.items()}


def find_trend(course: Sequence[float], least_drift: float) -> str:
    """Apply the Mann-Kendall test with the variance corrected for autocorrelation (Hamed and Rao). Ignores a
    significant trend that changes by less than ``least_drift`` of the median from start to end."""
    count = len(course)
    score = sum((later > course[n]) - (later < course[n]) for n in range(count) for later in course[n + 1 :])
    variance = _compute_variance(course) * _compute_correction(course)
    certain = abs(score) - 1 >= _CONFIDENT * math.sqrt(variance)
    drift = linear_regression(range(count), course).slope * (count - 1) / (median(course) or 1.0)
    if not score or not certain or abs(drift) < least_drift:
        return PLATEAU
    return UP if score > 0 else DOWN


def _compute_variance(course: Sequence[float]) -> float:
    groups = (len(course), *(-course.count(value) for value in set(course)))
    return sum(math.copysign(n * n - abs(n), n) * (2 * abs(n) + 5) for n in groups) / 18


def _compute_correction(course: Sequence[float]) -> float:
    """Return the ratio of the variance of autocorrelated ranks to that of independent ones; 1 if it is undefined."""
    count = len(course)
    order = sorted(range(count), key=lambda n: course[n])
    ranks = {place: rank - (count - 1) / 2 for rank, place in enumerate(order)}
    total = sum(rank * rank for rank in ranks.values())
    added = 0.0
    for lag in range(1, count):
        share = sum(ranks[n] * ranks[n - lag] for n in range(lag, count)) / total
        if abs(share) > _CONFIDENT / math.sqrt(count):
            added += (count - lag) * (count - lag - 1) * (count - lag - 2) * share
    factor = 1 + 2 * added / (count * (count - 1) * (count - 2))
    return factor if factor > 0 else 1.0


def _measure_scatter(course: Sequence[float]) -> float:
    """Return the standard deviation."""
    mean = fmean(course)
    return math.sqrt(fmean([(value - mean) ** 2 for value in course]))
