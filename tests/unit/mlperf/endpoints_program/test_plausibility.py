"""Figures of a result that no run can have, at their limits."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.rules.endpoints_program.plausibility import find_impossible_figures
from reconciler.rules.endpoints_program.point import Distribution
from reconciler.rules.endpoints_program.results import read_point

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
