"""Judge a measured point by the rules that the client does not check: load, duration, counts, warm-up and steady
state. Each finding has the name of the official check that fails for the same reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise

from msgspec import Struct

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.rules.event_log import LoggedRun
from reconciler.endpoints.rules.point import Distribution, MeasuredPoint, SteadyWindow
from reconciler.endpoints.rules.regions import Regions
from reconciler.endpoints.rules.steady_state import find_false_claims, find_window, roll_up
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity

# Plausibility of the figures of one result, all of which the client computes from the same samples.

_ROUNDING = Decimal("1e-6")  # tolerance of means, which are doubles
_HALF = Decimal(50)
_CLOCKS = Decimal("1.01")  # tolerance of durations
_CLOSE = Decimal("1.01")  # tolerance of percentiles of a histogram


def find_impossible_figures(point: MeasuredPoint, *, turns: bool) -> Iterator[str]:
    """Yield the contradictions between a point's figures. ``turns``: latencies are of conversation turns, several per
    sample."""
    for name, found in (("ttft", point.ttft), ("tpot", point.tpot), ("latency", point.latency)):
        yield from _check_order(name, found)
    if not turns:
        yield from _check_totals(point)
        yield from _check_overlap(point)


def _check_order(name: str, found: Distribution) -> Iterator[str]:
    ranked = ((f"percentile {percent:f}", value) for percent, value in sorted(found.percentiles.items()))
    listed = (("min", found.least), *ranked, ("max", found.most))
    for (low, less), (high, more) in pairwise((name, value) for name, value in listed if value is not None):
        if more < less:
            yield f"{name}: {high} is {more:f}, and {low} is {less:f}"
            return
    yield from _check_median(name, found)
    if found.mean is None:
        return
    room = abs(found.mean) * _ROUNDING
    if found.least is not None and found.mean + room < found.least:
        yield f"{name}: the mean is {found.mean:f}, and the least {found.least:f}"
    if found.most is not None and found.mean - room > found.most:
        yield f"{name}: the mean is {found.mean:f}, and the most {found.most:f}"


def _check_median(name: str, found: Distribution) -> Iterator[str]:
    """Check that the median lies between the adjacent percentiles, which may be rounded differently."""
    listed = (*found.percentiles.items(), (Decimal(0), found.least), (Decimal(100), found.most))
    known = [(percent, value) for percent, value in listed if value is not None]
    least = max((value for percent, value in known if percent < _HALF), default=None)
    most = min((value for percent, value in known if percent > _HALF), default=None)
    if found.median is not None and (
        (least is not None and found.median * _CLOSE < least) or (most is not None and found.median > most * _CLOSE)
    ):
        yield f"{name}: the median is {found.median:f}, and the percentiles around it {least} and {most}"


def _check_totals(point: MeasuredPoint) -> Iterator[str]:
    """Compare the counts with total / mean of the latencies, which is the number of completed samples. At most that
    many samples can have a TTFT or TPOT."""
    for name, found in (("ttft", point.ttft), ("tpot", point.tpot)):
        if found.total and found.mean and point.issued:
            counted = found.total / found.mean
            if counted > point.issued + counted * _ROUNDING + 1:
                yield f"{name}: total by avg are {counted:.6g} samples, and {point.issued} were issued"
    total, mean = point.latency.total, point.latency.mean
    if not total or not mean or not point.issued:
        return
    counted = total / mean
    room = counted * _ROUNDING + 1
    if not point.completed - room <= counted <= point.issued + room:
        yield f"latency: total by avg are {counted:.6g} samples, and {point.completed} were completed"


def _check_overlap(point: MeasuredPoint) -> Iterator[str]:
    """Check that the total latency fits into the run: each user sends one request at a time."""
    if point.is_offline or not point.duration_ns:
        return
    most = point.concurrency * (point.duration_ns * _CLOCKS + (point.latency.most or 0))
    if point.latency.total > most:
        load = f"{point.concurrency} requests at a time in {point.seconds:.6g} s"
        yield f"latency: {point.latency.total / 10**9:.6g} s in all, and {load} cannot take that long"


WINDOWABLE, SHORT, FEW, PARTIAL = "windowable", "insufficient_duration", "insufficient_passes", "partial_dataset"
STEADY, UP, DOWN, ANOMALY, NOT_FOUND = "STEADY STATE", "drifting_up", "drifting_down", "anomaly", "not found"


class PointFinding(Struct, frozen=True):
    """``rule``: the official check, or ours if no official check covers it. ``severity``: after an ERROR, the point
    cannot be submitted; after a WARNING, it can, but a reviewer will ask."""

    rule: str
    severity: Severity
    text: str


def find_differences(
    point: MeasuredPoint, concurrency: int, load_pattern: str, model: str, min_duration_ms: int
) -> Iterator[str]:
    """Yield the differences between the request and the client's report. Each one makes the run fail. ``model`` and
    ``min_duration_ms``: "" and 0 if they were not requested."""
    pairs: list[tuple[str, object, object]] = [
        ("concurrency", concurrency, point.concurrency),
        ("load pattern", load_pattern, point.load_pattern),
    ]
    pairs += [("model", model, point.model)] if model else []
    pairs += [("min_duration_ms", min_duration_ms, point.min_duration_ms)] if min_duration_ms else []
    for name, wanted, found in pairs:
        if wanted != found:
            yield f"{name}: asked for {wanted}, the client ran {'nothing' if found in (None, '') else found}"


def judge_point(
    point: MeasuredPoint, rules: CurveRules, regions: Regions, *, dataset_size: int = 0
) -> tuple[PointFinding, ...]:
    """Judge one point by all rules. ``dataset_size``: 0 if unknown."""
    checks = (
        *(_check_end, _check_pattern, _check_place, _check_duration, _check_steadiness),
        *(_check_metrics, _check_figures, _check_streaming, _check_warmup),
    )
    found = [finding for check in checks for finding in check(point, rules, regions)]
    return (*found, *_check_counts(point, rules, dataset_size))


def judge_logged(
    logged: LoggedRun, point: MeasuredPoint, rules: CurveRules, *, dataset_size: int, least_seconds: int
) -> Iterator[PointFinding]:
    """Judge a run's sustained load and steady state by its events. ``dataset_size``: 0 if unknown; the steady state is
    then not judged."""
    if point.is_offline:
        return
    # In agentic runs, a user sends no request while tools run.
    sustained = 0 if point.is_agentic else min(point.concurrency, len(logged.requests))
    if not sustained <= logged.peak <= point.concurrency:
        text = f"at most {logged.peak} requests were under way at a time; the point is of {point.concurrency}"
        yield _reject("concurrency-sustained", text)
    passes = () if point.is_agentic else roll_up(logged, dataset_size)
    if not passes:
        return
    if point.window is not None:
        false = find_false_claims(point.window, passes, dataset_size, rules)
        yield from (_reject("steady-state-consistency", f"the client reports {text}") for text in false)
        return
    found = find_window(passes, least_seconds, rules)
    shown = "none" if not found.found else f"{found.seconds} s from super-pass {found.first} to {found.last}"
    yield _warn("steady-state-basis", f"looked for in the run's events, the steady state is {shown}")


def judge_agentic(
    point: MeasuredPoint, least_inline: Decimal | None, least_tokens: Decimal | None, most_tokens: Decimal | None
) -> Iterator[PointFinding]:
    """Judge the answers of an agentic benchmark's performance run by their accuracy, in percent, and their tokens per
    turn; None if there is no requirement."""
    share = point.inline_share
    if share is None:
        yield _reject("agentic-accuracy-inline", "the client wrote no score of the performance run")
    elif least_inline is not None and share * 100 < least_inline:
        yield _reject("agentic-accuracy-inline", f"inline accuracy {share * 100:.2f}, at least {least_inline}")
    if least_tokens is None or most_tokens is None:
        return
    if point.turn_tokens is None:
        text = "the client states no output_sequence_lengths_full_run, by which tokens of a turn are judged"
        yield _warn("agentic-osl-range", text)
    elif not least_tokens <= point.turn_tokens <= most_tokens:
        required = f"between {least_tokens} and {most_tokens} are required"
        yield _reject("agentic-osl-range", f"{point.turn_tokens:.1f} output tokens a turn, {required}")


def classify_window(window: SteadyWindow, least_seconds: int, rules: CurveRules) -> tuple[str, str]:
    """Return (coverage status, verdict) of §4.4 for a detected window. ``least_seconds``: the duration that the point's
    region requires."""
    if window.super_passes < 1 or not window.super_pass_size:
        return PARTIAL, NOT_FOUND
    drifting = window.drifting
    if not window.found:
        verdict = NOT_FOUND
    elif window.anomaly:
        verdict = ANOMALY
    elif any(window.states[name].endswith("Up") for name in drifting):
        verdict = UP
    else:
        verdict = DOWN if drifting else STEADY
    if window.super_passes < rules.values.least_super_passes or not window.found:
        return FEW, verdict
    # The rules' table has no row for a long window that drifts. In that case, the whole run counts.
    if drifting or window.seconds is None or window.seconds < least_seconds:
        return SHORT, verdict
    return WINDOWABLE, verdict


def find_least_seconds(point: MeasuredPoint, rules: CurveRules, regions: Regions) -> int:
    """Find the duration that the rules require of this point."""
    if point.is_offline:
        return rules.find_offline_seconds()
    return rules.find_least_seconds(regions.find(point.concurrency), point.concurrency, agentic=point.is_agentic)


def _reject(rule: str, text: str) -> PointFinding:
    return PointFinding(rule, Severity.ERROR, text)


def _warn(rule: str, text: str) -> PointFinding:
    return PointFinding(rule, Severity.WARNING, text)


def _check_end(point: MeasuredPoint, rules: CurveRules, _: Regions) -> Iterator[PointFinding]:
    if not point.finished:
        yield _reject("run-complete", "the run did not come to its end")
    if point.issued and point.completed + point.failed != point.issued:
        counted = f"{point.completed} completed and {point.failed} failed of {point.issued} issued"
        yield _reject("metric-consistency-accounting", counted)
    if point.failed > rules.values.failed_samples_allowed:
        yield _reject("failed-samples", f"{show_count(point.failed, 'sample')} failed")


def _check_pattern(point: MeasuredPoint, rules: CurveRules, _: Regions) -> Iterator[PointFinding]:
    allowed = (*rules.values.load_patterns, rules.values.offline_load_pattern)
    if point.load_pattern not in allowed:
        text = f"load pattern {point.load_pattern or 'unknown'}; a curve has {', '.join(allowed)}"
        yield _reject("load-pattern", text)


def _check_place(point: MeasuredPoint, _: CurveRules, regions: Regions) -> Iterator[PointFinding]:
    if not point.is_offline and not regions.find(point.concurrency):
        end = f"{regions.regions[-1].last}, 10 % above the maximum"
        yield _reject("concurrency-in-range", f"concurrency {point.concurrency} is beyond {end}")


def _check_duration(point: MeasuredPoint, rules: CurveRules, regions: Regions) -> Iterator[PointFinding]:
    """Check the duration of the run and of its steady-state window, if there is one."""
    least = find_least_seconds(point, rules, regions)
    spanned = point.window.seconds if point.window is not None else None
    if point.seconds < least:
        yield _reject("point-duration", f"the run took {point.seconds:.1f} s, its region needs {least} s")
    elif spanned is not None and spanned < least:
        text = f"the steady-state window spans {spanned:.1f} s, its region needs {least} s"
        yield _warn("point-duration", text)


def _check_steadiness(point: MeasuredPoint, rules: CurveRules, regions: Regions) -> Iterator[PointFinding]:
    if point.is_offline:
        return
    if point.window is None:
        yield _warn("steady-state-basis", "the client found no steady-state window: whole-run metrics are official")
        return
    status, verdict = classify_window(point.window, find_least_seconds(point, rules, regions), rules)
    if status != WINDOWABLE:
        yield _warn("steady-state-basis", f"status {status}, verdict {verdict}: whole-run metrics are official")


def _check_metrics(point: MeasuredPoint, _: CurveRules, __: Regions) -> Iterator[PointFinding]:
    if point.output_tokens <= 0:
        yield _reject("metric-consistency-output-tokens", "no output token was counted")
    tpot = point.tpot.get_percentile(90)
    if not point.is_offline and (tpot is None or tpot <= 0):
        yield _reject("metric-consistency-tpot-p90", "TPOT has no 90th percentile above 0")


def _check_figures(point: MeasuredPoint, _: CurveRules, __: Regions) -> Iterator[PointFinding]:
    for text in find_impossible_figures(point, turns=point.is_agentic):
        yield _reject("figures-possible", text)


def _check_streaming(point: MeasuredPoint, rules: CurveRules, _: Regions) -> Iterator[PointFinding]:
    if rules.values.streaming and not point.is_offline and not point.streaming:
        yield _reject("streaming-config", "responses were not streamed (model_params.streaming)")


def _check_warmup(point: MeasuredPoint, rules: CurveRules, _: Regions) -> Iterator[PointFinding]:
    """Check the salt of the warm-up, since the client warms up with the performance dataset."""
    if point.warmup is not None and not point.warmup.salt and rules.values.warmup_from_performance_dataset_needs_salt:
        yield _reject("warmup-salt", "the client warmed up with the performance dataset, and without salt")


def _check_counts(point: MeasuredPoint, rules: CurveRules, dataset_size: int) -> Iterator[PointFinding]:
    if point.is_agentic:  # its samples are turns
        if dataset_size and point.trajectories % dataset_size and rules.values.whole_passes:
            text = f"{point.trajectories} conversations, and the dataset has {dataset_size}; only whole passes count"
            yield _reject("whole-passes", text)
        return
    least: Mapping[str, int] = rules.values.least_queries
    # The client's dataset names may end with two colons and a preset's name.
    needed = least.get(point.dataset.partition("::")[0], 0) or dataset_size
    if rules.rehearsal:
        needed = dataset_size
    if point.completed < needed:
        yield _reject("min-query-count", f"{point.completed} samples completed, one pass has {needed}")
    if dataset_size and point.issued % dataset_size and rules.values.whole_passes:
        passes = Decimal(point.issued) / dataset_size
        text = f"{point.issued} samples issued are {passes:.2f} passes over {dataset_size}; only whole passes count"
        yield _reject("whole-passes", text)
