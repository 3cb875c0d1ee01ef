"""The search of the highest VALID rate, over queues whose capacity is known; choosing among candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.resource.kinds import Cell
from reconciler.tune.candidate_search import Ask, BestMetric, BestRate, decide_metrics, decide_rates
from reconciler.tune.report import render_tuned_part, render_tuned_text
from reconciler.tune.search import FoundRate, Next, NotFound, RateTrial, conclude, decide, find_bracket
from reconciler.tune.session import Goal, Tuned
from tests.unit.tune.queueing import Engine

np = pytest.importorskip("numpy")


def search(
    measure: Callable[[float], RateTrial], start: float, **limits: float
) -> tuple[FoundRate | NotFound, list[RateTrial]]:
    trials: list[RateTrial] = []
    while isinstance(decision := decide(trials, start, **limits), Next):  # type: ignore[arg-type]
        trials.append(measure(decision.rate))
    return decision, trials


# Engine → its capacity: half of 151 runs at it are VALID (Engine.find_capacity).
ENGINES = {
    "steady": (Engine(service=0.001, jitter=0.05, limit=0.015, queries=24_000), 855.32),
    "jittery": (Engine(service=0.004, jitter=0.3, limit=0.1, queries=60_000), 223.04),
    "tight limit": (Engine(service=0.002, jitter=0.1, limit=0.0045, queries=60_000), 78.61),
    "slow": (Engine(service=0.1, jitter=0.02, limit=2.0, queries=6_000), 8.997),
}
# So few that the same rate is VALID in one run and not in the next, over a range of 8 percent.
NOISY = Engine(service=0.02, jitter=0.2, limit=0.2, queries=3_000), 35.29


def search_20_times(engine: Engine, capacity: float) -> tuple[list[FoundRate], list[int]]:
    """From as many places, up to seven times too high or too low."""
    found, made = [], []
    for seed in range(20):
        start = capacity * math.exp(np.random.default_rng(seed).uniform(-2, 2))
        runs = iter(range(1000 * seed, 1000 * (seed + 1)))
        result, trials = search(lambda rate, runs=runs: engine.measure(rate, next(runs)), start)
        assert isinstance(result, FoundRate)
        assert result.settled
        found.append(result)
        made.append(len(trials))
    return found, made


@pytest.mark.parametrize("name", ENGINES)
def test_a_planted_capacity_is_found_within_2_percent_in_12_trials(name: str) -> None:
    engine, capacity = ENGINES[name]
    found, made = search_20_times(engine, capacity)
    assert max(abs(result.capacity / capacity - 1) for result in found) <= 0.02
    assert mean(made) <= 12
    again = [engine.measure(result.rate, 50_000 + run).valid for result in found for run in range(3)]
    assert mean(again) >= 0.8
    assert all(result.rate <= result.capacity * 1.01 for result in found)


def test_the_capacity_of_a_stand_in_is_what_half_of_its_runs_hold() -> None:
    engine, capacity = ENGINES["slow"]
    assert engine.find_capacity() == pytest.approx(capacity, rel=0.003)


def test_noise_that_is_wider_than_the_tolerance_does_not_keep_the_search_going() -> None:
    engine, capacity = NOISY
    found, made = search_20_times(engine, capacity)
    assert mean(made) <= 12
    assert mean(engine.measure(result.rate, 50_000 + run).valid for result in found for run in range(5)) >= 0.8


def steep(rate: float, capacity: float) -> RateTrial:
    """A queue without noise: the inverse latency falls in a straight line to nothing at 1.1 times the capacity."""
    ease = max(1.1 * capacity - rate, 0.0) / (0.1 * capacity)
    return RateTrial(rate, rate <= capacity, 1 / ease if ease else math.inf, min(rate, 1.1 * capacity))


@settings(max_examples=80, deadline=None)
@given(
    capacity=st.floats(0.01, 1e6),
    off=st.floats(-5, 5),
    tolerance=st.floats(0.005, 0.1),
    latency=st.sampled_from(["straight", "none", "step"]),
)
def test_without_noise_the_capacity_is_between_what_is_found_and_the_first_invalid_rate(
    capacity: float, off: float, tolerance: float, latency: str
) -> None:
    def measure(rate: float) -> RateTrial:
        trial = steep(rate, capacity)
        if latency == "none":
            return RateTrial(rate, trial.valid)
        return trial if latency == "straight" else RateTrial(rate, trial.valid, 0.3 if trial.valid else 40.0)

    found, trials = search(measure, capacity * 10**off, tolerance=tolerance)
    assert isinstance(found, FoundRate)
    assert found.settled
    assert found.above is not None
    assert found.rate <= capacity < found.above
    highest = max(trial.rate for trial in trials if trial.valid)
    assert found.above / highest - 1 <= (2 if latency == "straight" else 1) * tolerance * 1.000001
    assert found.rate >= 0.9 * highest
    assert latency == "straight" or found.rate == highest
    asked = [trial.rate for trial in trials]
    again = {rate for rate in asked if asked.count(rate) > 1 and rate != found.rate}
    assert len(again) <= (latency == "step")  # which looks like a disturbed run, until it fails once more
    assert max(map(asked.count, asked)) <= 2


@settings(max_examples=80, deadline=None)
@given(
    verdicts=st.lists(st.booleans(), min_size=50, max_size=50),
    pressures=st.lists(st.floats(0.01, 100), min_size=50, max_size=50),
)
def test_any_verdicts_come_to_an_end_and_every_rate_is_a_rate(verdicts: list[bool], pressures: list[float]) -> None:
    said = iter(zip(verdicts, pressures, strict=True))

    def measure(rate: float) -> RateTrial:
        assert math.isfinite(rate)
        assert rate > 0
        valid, pressure = next(said)
        return RateTrial(rate, valid, pressure)

    result, trials = search(measure, 100.0)
    assert len(trials) <= 40
    if isinstance(result, FoundRate):
        assert any(trial.valid and trial.rate == result.rate for trial in trials)
        assert result.above is None or result.rate < result.above or not result.settled
    else:
        assert result.why


def test_a_saturated_run_reports_where_to_go_on() -> None:
    decision = decide([RateTrial(1000, False, 80.0, completed=210)], 1000)
    assert isinstance(decision, Next)
    assert decision.rate == pytest.approx(0.95 * 210)


@pytest.mark.parametrize(
    ("verdicts", "low", "high"),
    [
        ([(100, True), (110, True), (110, False)], 100, 110),
        ([(100, False), (110, True), (120, True), (125, False)], 120, 125),
    ],
    ids=["valid and invalid is not taken for valid", "one verdict against two does not move the cut"],
)
def test_the_highest_valid_rate_is_between(verdicts: list[tuple[float, bool]], low: float, high: float) -> None:
    bracket = find_bracket([RateTrial(rate, valid, 0.9 if valid else 1.1) for rate, valid in verdicts])
    assert (bracket.low, bracket.high) == (low, high)


def test_verdicts_that_contradict_each_other_ask_for_more_confirmations() -> None:
    calm = [RateTrial(1000, True), RateTrial(1009, False), RateTrial(1000, True)]
    assert isinstance(decide(calm, 1000), FoundRate)
    decision = decide([RateTrial(990, False), *calm, RateTrial(1000, True)], 1000)
    assert isinstance(decision, Next)
    assert decision.rate == 1000


def test_a_search_that_ends_early_says_what_it_knows() -> None:
    found = conclude([RateTrial(100, True, 0.5), RateTrial(200, False, 3)], "the time is over")
    assert isinstance(found, FoundRate)
    assert (found.rate, found.above, found.settled, found.why) == (100, 200, False, "the time is over")
    assert conclude([RateTrial(100, False, 5)], "") == NotFound("no rate was VALID")


def test_a_report_of_nothing_valid_does_not_call_it_settled() -> None:
    goal = Goal(Cell.parse("open/box/digits/Server"), ((),), 100.0, lower_is_better=False)
    nothing = Tuned(goal, NotFound("no rate was VALID"), (), known=0, made=3, why="")
    best = Tuned(goal, BestMetric(0, 5.0, 0.0, 2), (), known=0, made=3, why="")
    assert render_tuned_text(best, "").splitlines()[2:]
    assert not render_tuned_text(nothing, "").splitlines()[2:]
    assert not render_tuned_part(nothing, "", [])["settled"]


def test_one_disturbed_run_does_not_pass_for_the_capacity() -> None:
    """As a backup that began in the meantime would have it: the first run fails at less than half of the capacity."""
    engine, capacity = ENGINES["jittery"]
    for seed in range(10):
        disturbed = [RateTrial(90.0, False, 1.41, 90.0, 60_000, 900, 500)]
        runs = iter(range(1000 * seed, 1000 * (seed + 1)))

        def measure(rate: float, first: list[RateTrial] = disturbed, runs: Iterator[int] = runs) -> RateTrial:
            return first.pop() if first else engine.measure(rate, next(runs))

        result, trials = search(measure, 90.0)
        assert isinstance(result, FoundRate)
        assert result.capacity == pytest.approx(capacity, rel=0.02)
        assert len(trials) <= 20


def test_what_fails_twice_is_believed_whatever_was_seen_below() -> None:
    """A server that drops requests from some rate on, however fast it is below."""
    cliff = 100.0

    def measure(rate: float) -> RateTrial:
        return RateTrial(rate, rate <= cliff, 0.2 + rate / 1000 if rate <= cliff else 3.0, rate)

    result, trials = search(measure, 60.0)
    assert isinstance(result, FoundRate)
    assert result.capacity == pytest.approx(cliff, rel=0.02)
    assert len(trials) <= 16


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
