"""Figures of a result that no run can have, at their limits."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.endpoints.rules.judge import find_impossible_figures
from reconciler.endpoints.rules.point import Distribution
from reconciler.endpoints.rules.results import read_point

POINT = read_point(Path(__file__).parent / "samples")
RANKS = {50: 100, 90: 200, 99: 300}


def distribute(percentiles: dict[int, int], **values: float) -> Distribution:
    exact: dict[str, Any] = {name: Decimal(str(value)) for name, value in values.items()}
    return Distribution(percentiles={Decimal(at): Decimal(value) for at, value in percentiles.items()}, **exact)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(distribute(RANKS, least=100, most=300, mean=100, median=100), "", id="at-the-least"),
        pytest.param(distribute(RANKS, least=100, most=300, mean=300), "", id="at-the-most"),
        pytest.param(distribute({}), "", id="nothing"),
        pytest.param(distribute({50: 200, 90: 199}), "percentile 90 is 199, and percentile 50 is 200", id="order"),
        pytest.param(distribute(RANKS, least=101), "percentile 50 is 100, and min is 101", id="least"),
        pytest.param(distribute(RANKS, most=299), "max is 299, and percentile 99 is 300", id="most"),
        pytest.param(distribute({}, least=9, most=8), "max is 8, and min is 9", id="ends"),
        pytest.param(distribute({}, least=100, mean=99.99995), "", id="mean-rounded-at-the-least"),
        pytest.param(
            distribute({}, least=100, mean=99.9), "the mean is 99.9, and the least 100", id="mean-below-the-least"
        ),
        pytest.param(distribute({}, most=100, mean=100.0001), "", id="mean-rounded-at-the-most"),
        pytest.param(
            distribute({}, most=100, mean=100.1), "the mean is 100.1, and the most 100", id="mean-beyond-the-most"
        ),
        pytest.param(distribute({40: 202, 60: 300}, median=200), "", id="median-about-the-percentile-below"),
        pytest.param(
            distribute({40: 203, 60: 300}, median=200),
            "the median is 200, and the percentiles around it 203 and 300",
            id="median-below",
        ),
        pytest.param(distribute({40: 100, 60: 200}, median=202), "", id="median-about-the-percentile-above"),
        pytest.param(
            distribute({40: 100, 60: 200}, median=203),
            "the median is 203, and the percentiles around it 100 and 200",
            id="median-above",
        ),
        pytest.param(
            distribute({40: 100}, least=50, median=98),
            "the median is 98, and the percentiles around it 100 and None",
            id="median-below-alone",
        ),
        pytest.param(
            distribute({60: 100}, most=150, median=102),
            "the median is 102, and the percentiles around it None and 100",
            id="median-above-alone",
        ),
        pytest.param(
            distribute({}, least=100, median=98),
            "the median is 98, and the percentiles around it 100 and None",
            id="median-below-the-least",
        ),
        pytest.param(
            distribute({}, most=100, median=102),
            "the median is 102, and the percentiles around it None and 100",
            id="median-beyond-the-most",
        ),
        pytest.param(distribute({}, median=102), "", id="median-alone"),
        pytest.param(distribute({50: 900}, median=102), "", id="of-the-percentile-it-is"),
        pytest.param(distribute({50: 90}, median=102), "", id="of-the-percentile-that-it-is"),
        pytest.param(distribute({}, most=999_999, mean=10**6), "", id="mean-a-millionth-beyond-the-most"),
        pytest.param(distribute({}, least=1_000_001, mean=10**6), "", id="mean-a-millionth-below-the-least"),
    ],
)
@pytest.mark.parametrize("name", ["ttft", "tpot", "latency"])
def test_figures_of_one_distribution_fit_each_other(name: str, found: Distribution, said: str) -> None:
    empty: dict[str, Any] = dict.fromkeys(("ttft", "tpot", "latency"), Distribution())
    point = replace(POINT, **{**empty, name: found})
    assert list(find_impossible_figures(point, turns=True)) == ([f"{name}: {said}"] if said else [])


COUNTED: dict[str, Any] = {
    "issued": 100,
    "completed": 90,
    "failed": 10,
    "duration_ns": 10**9,
    "concurrency": 2,
    **dict.fromkeys(("ttft", "tpot", "latency"), Distribution()),
}


def count(samples: float, each: int = 10**6) -> Distribution:
    return Distribution(total=Decimal(str(samples)) * each, mean=Decimal(each))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"ttft": count(101)}, ""),
        ({"ttft": count(101.1)}, "ttft: total by avg are 101.1 samples, and 100 were issued"),
        ({"tpot": count(101.1)}, "tpot: total by avg are 101.1 samples, and 100 were issued"),
        ({"tpot": count(101.1), "issued": 0}, ""),
        ({"ttft": count(5), "tpot": count(0)}, ""),
        ({"latency": count(89)}, ""),
        ({"latency": count(88.9)}, "latency: total by avg are 88.9 samples, and 90 were completed"),
        ({"latency": count(101)}, ""),
        ({"latency": count(101.1)}, "latency: total by avg are 101.1 samples, and 90 were completed"),
        ({"latency": count(101.1), "issued": 0}, ""),
        # a millionth, and one sample
        ({"ttft": count(10**6), "issued": 999_998}, ""),
        ({"latency": count(10**6, 1), "issued": 999_998}, ""),
        ({"latency": count(10**6, 1), "issued": 2 * 10**6, "completed": 1_000_002}, ""),
    ],
)
def test_a_sum_by_its_mean_counts_the_samples(changes: dict[str, Any], said: str) -> None:
    point = replace(POINT, **{**COUNTED, **changes})
    assert list(find_impossible_figures(point, turns=False)) == ([said] if said else [])
    assert list(find_impossible_figures(point, turns=True)) == []


@pytest.mark.parametrize(
    ("total", "changes", "wrong"),
    [
        pytest.param(2_220_000_000, {}, False, id="at-the-limit"),
        pytest.param(2_220_000_001, {}, True, id="beyond"),
        pytest.param(2_220_000_001, {"concurrency": 3}, False, id="more-users"),
        pytest.param(2_220_000_001, {"duration_ns": 0}, False, id="no-duration"),
        pytest.param(2_220_000_001, {"load_pattern": "max_throughput"}, False, id="offline"),
    ],
)
def test_users_who_wait_for_one_answer_at_a_time_wait_no_longer_than_the_run(
    total: int, changes: dict[str, Any], wrong: bool
) -> None:
    """2 of them, for 1 s by clocks that differ by a hundredth, and each for the slowest answer of 0.1 s."""
    waited = Distribution(total=Decimal(total), most=Decimal(10**8))
    point = replace(POINT, **{**COUNTED, "latency": waited, **changes})
    said = "latency: 2.22000 s in all, and 2 requests at a time in 1 s cannot take that long"
    assert list(find_impossible_figures(point, turns=False)) == [said] * wrong
