"""Whether the figures of a result can be those of one run."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.mlperf.endpoints_program.plausibility import find_impossible_figures
from reconciler.mlperf.endpoints_program.point import Distribution
from reconciler.mlperf.endpoints_program.results import read_point

_RAN = read_point(Path(__file__).parent / "samples")


def spread(percentiles: dict[int, int], **ends: str | int | None) -> Distribution:
    """``least``, ``most``, ``mean`` and ``median`` as decimals."""
    named = {name: None if value is None else Decimal(value) for name, value in ends.items()}
    return Distribution(Decimal(0), percentiles={Decimal(p): Decimal(v) for p, v in percentiles.items()}, **named)


def test_the_figures_of_a_real_run_are_possible() -> None:
    assert list(find_impossible_figures(_RAN, turns=False)) == []


@pytest.mark.parametrize("name", ["ttft", "tpot", "latency"])
@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(spread({}), [], id="nothing"),
        pytest.param(spread({}, mean=5), [], id="a mean alone"),
        pytest.param(spread({50: 4, 90: 6}, least=1, most=9, mean=5, median=4), [], id="all"),
        pytest.param(spread({}, least=5, most=5, mean="5.000005"), [], id="a mean that was rounded"),
        pytest.param(spread({}, least=5, most=5, mean="4.9999951"), [], id="a mean that was rounded down"),
        pytest.param(spread({}, least=5, mean="4.9999"), ["the mean is 4.9999, and the least 5"], id="below the least"),
        pytest.param(spread({}, most=5, mean="5.0001"), ["the mean is 5.0001, and the most 5"], id="above the most"),
        pytest.param(spread({90: 3, 50: 4}), ["percentile 90 is 3, and percentile 50 is 4"], id="falling"),
        pytest.param(
            spread({50: 4}, least=5, mean=1), ["percentile 50 is 4, and min is 5"], id="below the least of all"
        ),
        pytest.param(spread({99: 9}, most=8), ["max is 8, and percentile 99 is 9"], id="above the most of all"),
        pytest.param(spread({}, least=9, most=8), ["max is 8, and min is 9"], id="ends turned"),
        pytest.param(spread({90: 100}, median=101), [], id="a median of a histogram"),
        pytest.param(
            spread({10: 50, 90: 100}, median=102),
            ["the median is 102, and the percentiles around it 50 and 100"],
            id="a median above",
        ),
        pytest.param(
            spread({10: 50, 90: 100}, median=49, least=7),
            ["the median is 49, and the percentiles around it 50 and 100"],
            id="a median below",
        ),
        pytest.param(
            spread({}, median=5, most=4), ["the median is 5, and the percentiles around it None and 4"], id="no rank"
        ),
    ],
)
def test_a_distribution_is_in_order_and_its_mean_between_its_ends(
    name: str, found: Distribution, said: list[str]
) -> None:
    point = replace(_RAN, **{each: spread({}) for each in ("ttft", "tpot", "latency")} | {name: found})
    assert list(find_impossible_figures(point, turns=True)) == [f"{name}: {text}" for text in said]
