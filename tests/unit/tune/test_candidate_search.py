"""Choosing among candidates, over engines whose best is known."""

from __future__ import annotations

import math

import pytest

from reconciler.tune.candidate_search import Ask, BestMetric, BestRate, decide_metrics, decide_rates
from reconciler.tune.search import NotFound, RateTrial
from tests.unit.tune.queueing import Engine

np = pytest.importorskip("numpy")


def choose_rate(engines: list[Engine], start: float) -> tuple[BestRate | NotFound, list[list[RateTrial]]]:
    trials: list[list[RateTrial]] = [[] for _ in engines]
    while isinstance(ask := decide_rates(trials, start), Ask):
        assert ask.rate is not None
        trials[ask.candidate].append(engines[ask.candidate].measure(ask.rate, sum(map(len, trials))))
    return ask, trials


def test_the_candidate_with_the_highest_capacity_wins_and_a_worse_one_costs_one_trial() -> None:
    engines = [Engine(0.002, 0.1, 0.05, 8_000), Engine(0.003, 0.1, 0.05, 8_000), Engine(0.001, 0.1, 0.05, 8_000)]
    best, trials = choose_rate(engines, 100.0)
    assert isinstance(best, BestRate)
    assert best.candidate == 2
    assert best.found.capacity == pytest.approx(engines[2].find_capacity(15), rel=0.03)
    assert len(trials[1]) == 1


def test_the_first_of_equal_candidates_wins() -> None:
    best, trials = choose_rate([Engine(0.002, 0.05, 0.05, 8_000)] * 2, 400.0)
    assert isinstance(best, BestRate)
    assert best.candidate == 0
    assert len(trials[1]) <= 2


def test_no_candidate_that_is_ever_valid_is_no_result() -> None:
    trials = [[RateTrial(100 * 0.8**n, False, 50.0) for n in range(40)]]
    assert isinstance(decide_rates(trials, 100.0), NotFound)


def choose_metric(means: list[float], spread: float, seed: int, *, lower: bool) -> tuple[BestMetric, list[list[float]]]:
    random = np.random.default_rng(seed)
    measured: list[list[float]] = [[] for _ in means]
    while isinstance(ask := decide_metrics(measured, lower_is_better=lower), Ask):
        measured[ask.candidate].append(means[ask.candidate] * (1 + spread * random.standard_normal()))
    return ask, measured


@pytest.mark.parametrize("lower", [False, True])
def test_a_difference_above_the_noise_is_found_with_few_runs(lower: bool) -> None:
    means = [100.0, 90.0, 115.0, 60.0]
    made = []
    for seed in range(20):
        best, measured = choose_metric(means, 0.01, seed, lower=lower)
        assert best.candidate == (3 if lower else 2)
        assert best.mean == pytest.approx(means[best.candidate], rel=0.03)
        made.append(sum(map(len, measured)))
    assert max(made) <= 8


def test_candidates_that_the_noise_does_not_distinguish_are_repeated_but_not_for_ever() -> None:
    best, measured = choose_metric([100.0, 100.0, 50.0], 0.02, 3, lower=False)
    assert best.candidate in (0, 1)
    assert max(map(len, measured)) <= 4
    assert len(measured[2]) == 1


def test_an_invalid_run_never_wins() -> None:
    decision = decide_metrics([[math.inf], [5.0, 5.1]], lower_is_better=True)
    assert isinstance(decision, BestMetric)
    assert decision.candidate == 1
