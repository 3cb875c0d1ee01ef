"""How far a repeat may lie off: the recorded spread, and never more than TEST01 allows."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest

from reconciler.history.rerun import Bound, compute_bound
from reconciler.rules.compliance.scores import Scored, Slack
from reconciler.rules.compliance.test01 import find_slack
from reconciler.rules.rounds import load_ruleset

OFFLINE = Scored("Offline", "VALID", 100.0)


@pytest.mark.parametrize("recorded", [[100.0], [100.0, 99.0]])
def test_few_runs_have_no_spread_and_test01_rules(recorded: list[float]) -> None:
    found = compute_bound(recorded, 100.0, OFFLINE, Slack(), lower=False)
    assert found.value == pytest.approx(90)
    assert "TEST01" in found.source
    assert found.allows(90.1, lower=False)
    assert not found.allows(89.9, lower=False)
    assert found.allows(150, lower=False)  # better than published contradicts nothing


def student(quantile: float, freedom: int) -> float:
    """How many of all runs lie below it: the density of Student's t, integrated by Simpson's rule from 0."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(value: float) -> float:
        return float(scale * (1 + value * value / freedom) ** (-(freedom + 1) / 2))

    steps = 100
    width = quantile / steps
    inner = sum((4 if step % 2 else 2) * density(step * width) for step in range(1, steps))
    return 0.5 + width / 3 * (density(0) + inner + density(quantile))


@pytest.mark.parametrize("count", range(3, 32))
def test_the_bound_of_a_spread_is_one_that_99_of_100_runs_keep(count: int) -> None:
    recorded = [100 + 0.01 * number for number in range(count)]
    found = compute_bound(recorded, recorded[-1], OFFLINE, Slack(), lower=False)
    quantile = (fmean(recorded) - found.value) / (stdev(recorded) * math.sqrt(1 + 1 / count))
    assert student(quantile, count - 1) == pytest.approx(0.99, abs=2e-5)


def test_a_wide_spread_never_widens_the_bound() -> None:
    found = compute_bound([100.0, 20.0, 180.0, 60.0], 100.0, OFFLINE, Slack(), lower=False)
    assert found.value == pytest.approx(90)
    assert "TEST01" in found.source


def test_a_latency_is_bounded_from_above() -> None:
    score = Scored("SingleStream", "VALID", 5e6)
    assert compute_bound([5.0], 5.0, score, Slack(), lower=True).value == pytest.approx(5.5)
    spread = compute_bound([4.9, 5.0, 5.1], 5.0, score, Slack(), lower=True)
    assert spread.value == pytest.approx(5.5)  # 5 + 6.965 * 0.1 * sqrt(4/3) = 5.80 would be wider
    narrow = compute_bound([4.99, 5.0, 5.01], 5.0, score, Slack(), lower=True)
    assert narrow.value == pytest.approx(5.0804, abs=1e-3)
    assert narrow.allows(5.08, lower=True)
    assert not narrow.allows(5.09, lower=True)


def test_a_very_short_latency_may_vary_twice_as_much() -> None:
    score = Scored("SingleStream", "VALID", 150_000.0)
    assert compute_bound([0.15], 0.15, score, Slack(), lower=True).value == pytest.approx(0.18)


def test_what_the_round_allows_bounds_a_repeat() -> None:
    strict = Slack.from_limits({"most_score_change": "5"}, "most_score_change")
    assert compute_bound([100.0], 100.0, OFFLINE, strict, lower=False).value == pytest.approx(95)
    short = Slack.from_limits({"most_score_change_when_short": "30"}, "most_score_change")
    score = Scored("SingleStream", "VALID", 150_000.0)
    assert compute_bound([0.15], 0.15, score, short, lower=True).value == pytest.approx(0.195)


@pytest.mark.parametrize("round_name", ["v4.1", "v6.1"])
def test_a_round_without_limits_of_its_own_allows_what_is_usual(round_name: str) -> None:
    ruleset = load_ruleset(round_name)
    assert find_slack(ruleset.find_benchmark("resnet"), "Offline") == Slack()
    assert find_slack(None, "Offline") == Slack()


@pytest.mark.parametrize(("repeat", "higher", "lower"), [(4.9, False, True), (5.0, True, True), (5.1, True, False)])
def test_a_bound_is_kept_by_the_bound_itself(repeat: float, higher: bool, lower: bool) -> None:
    bound = Bound(5.0, "by hand")
    assert (bound.allows(repeat, lower=False), bound.allows(repeat, lower=True)) == (higher, lower)
