"""Early stopping's counts, as LoadGen's tables have them."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.loadgen.early_stopping import (
    compute_allowed_over,
    compute_least_queries,
    compute_queries_at_rate,
    is_allowed_over,
)

OVER = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200)
TABLE = {
    "90": (44, 64, 81, 97, 127, 197, 325, 681, 1246, 2337),
    "97": (152, 219, 277, 332, 433, 667, 1097, 2293, 4182, 7831),
    "99": (459, 662, 838, 1001, 1307, 2010, 3304, 6898, 12571, 23527),
    "99.9": (4603, 6636, 8403, 10042, 13105, 20140, 33097, 69058, 125826, 235427),
}


@pytest.mark.parametrize("percentile", TABLE)
def test_least_queries(percentile: str) -> None:
    assert tuple(compute_least_queries(over, Decimal(percentile)) for over in OVER) == TABLE[percentile]


@settings(max_examples=40)
@given(st.integers(0, 3000), st.sampled_from(sorted(TABLE)))
def test_allowed_over_is_the_inverse(over: int, percentile: str) -> None:
    needed = compute_least_queries(over, Decimal(percentile))
    assert compute_allowed_over(needed, Decimal(percentile)) == over
    assert compute_allowed_over(needed - 1, Decimal(percentile)) == over - 1


@pytest.mark.parametrize(("late", "of"), [(0, 100), (9, 1000), (5, 662), (1, 300), (99, 10_000)])
def test_as_many_queries_as_are_needed_at_a_rate_of_late_ones_prove_the_percentile(late: int, of: int) -> None:
    percentile, rate = Decimal(99), Fraction(late, of)
    needed = compute_queries_at_rate(rate, percentile, 10**8)
    assert needed is not None
    assert is_allowed_over(math.ceil(needed * rate), needed, percentile)
    assert not is_allowed_over(math.ceil((needed - 1) * rate), needed - 1, percentile)


def test_too_many_late_queries_prove_no_percentile_however_many_run() -> None:
    assert compute_queries_at_rate(Fraction(1, 100), Decimal(99), 10**6) is None
    assert compute_queries_at_rate(Fraction(99, 10_000), Decimal(99), 10**6) is None


@pytest.mark.parametrize(
    ("over", "queries", "allowed"),
    [(-1, 1, True), (0, 458, False), (0, 459, True), (1, 661, False), (1, 662, True), (5, 5, False), (459, 459, False)],
)
def test_queries_over_the_latency_are_allowed_once_enough_ran(over: int, queries: int, allowed: bool) -> None:
    assert is_allowed_over(over, queries, Decimal(99)) is allowed


@pytest.mark.parametrize(("late", "needed"), [(Fraction(0), 459), (Fraction(1, 662), 662), (Fraction(1, 2000), 662)])
def test_the_fewest_queries_are_found_and_none_beyond_the_most(late: Fraction, needed: int) -> None:
    assert compute_queries_at_rate(late, Decimal(99), 10**8) == needed
