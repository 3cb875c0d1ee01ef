"""Figures of a result that no run can have, at their limits."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.endpoints.rules.judge import find_impossible_figures
from reconciler.endpoints.rules.point import Distribution
from tests.unit.endpoints.rules.good_point import RAN

RANKS = {50: 100, 90: 200, 99: 300}


def distribute(percentiles: dict[int, int], **values: float) -> Distribution:
    exact: dict[str, Any] = {name: Decimal(str(value)) for name, value in values.items()}
    return Distribution(percentiles={Decimal(at): Decimal(value) for at, value in percentiles.items()}, **exact)


FINE = {
    "at the least": distribute(RANKS, least=100, most=300, mean=100, median=100),
    "at the most": distribute(RANKS, least=100, most=300, mean=300),
    "nothing": distribute({}),
    "mean rounded at the least": distribute({}, least=100, mean=99.99995),
    "mean rounded at the most": distribute({}, most=100, mean=100.0001),
    "median about the percentile below": distribute({40: 202, 60: 300}, median=200),
    "median about the percentile above": distribute({40: 100, 60: 200}, median=202),
    "median alone": distribute({}, median=102),
    "median over its own percentile": distribute({50: 90}, median=102),
    "median below its own percentile": distribute({50: 900}, median=102),
    "mean a millionth beyond the most": distribute({}, most=999_999, mean=10**6),
    "mean a millionth below the least": distribute({}, least=1_000_001, mean=10**6),
}
WRONG = {
    "order": distribute({50: 200, 90: 199}),
    "least": distribute(RANKS, least=101),
    "most": distribute(RANKS, most=299),
    "ends": distribute({}, least=9, most=8),
    "mean below the least": distribute({}, least=100, mean=99.9),
    "mean beyond the most": distribute({}, most=100, mean=100.1),
    "median below": distribute({40: 203, 60: 300}, median=200),
    "median above": distribute({40: 100, 60: 200}, median=203),
    "median below alone": distribute({40: 100}, least=50, median=98),
    "median above alone": distribute({60: 100}, most=150, median=102),
    "median below the least": distribute({}, least=100, median=98),
    "median beyond the most": distribute({}, most=100, median=102),
}


@pytest.mark.parametrize("case", [*FINE, *WRONG])
@pytest.mark.parametrize("name", ["ttft", "tpot", "latency"])
def test_figures_of_one_distribution_fit_each_other(name: str, case: str) -> None:
    empty: dict[str, Any] = dict.fromkeys(("ttft", "tpot", "latency"), Distribution())
    point = replace(RAN, **{**empty, name: {**FINE, **WRONG}[case]})
    found = [text.partition(": ")[0] for text in find_impossible_figures(point, turns=True)]
    assert found == [name] * (case in WRONG)


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
    point = replace(RAN, **{**COUNTED, "latency": waited, **changes})
    found = [text.partition(": ")[0] for text in find_impossible_figures(point, turns=False)]
    assert found == ["latency"] * wrong
