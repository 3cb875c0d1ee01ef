from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.spec.quantities import DURATION, SIZE, UnfitError, parse_count, parse_duration, parse_power, parse_rate

whole = st.integers(1, 10**6)


@given(whole, st.sampled_from(["us", "ms", "s", "min", "h"]), st.sampled_from(["", " "]))
def test_whole_durations_convert_exactly(number: int, unit: str, space: str) -> None:
    assert parse_duration(f"{number}{space}{unit}", "ns") == number * DURATION.units[unit]
    assert parse_duration(f"{number:_}{space}{unit}", "us") * 1000 == number * DURATION.units[unit]


@given(st.decimals(min_value=0, max_value=10**6, places=6))
def test_fractions_of_a_second_lose_nothing(number: Decimal) -> None:
    assert parse_duration(f"{number} s", "us") == int(number * 10**6)


@given(st.decimals(min_value=Decimal("0.001"), max_value=10**9, places=3))
def test_rates_keep_their_decimal_value(number: Decimal) -> None:
    assert Decimal(parse_rate(f"{number}")) == Decimal(parse_rate(f"{number} /s")) == number
    assert "e" not in parse_rate(str(number)).lower()


@given(whole)
def test_counts_may_be_grouped(number: int) -> None:
    assert parse_count(f"{number:_}") == parse_count(str(number)) == number


@given(whole, st.sampled_from(sorted(SIZE.units)))
def test_a_unit_of_another_dimension_is_named(number: int, unit: str) -> None:
    with pytest.raises(UnfitError, match="is a size") as caught:
        parse_duration(f"{number} {unit}", "ms")
    assert "600 s" in caught.value.fix


@given(st.text(max_size=30) | st.integers() | st.none() | st.booleans() | st.floats() | st.lists(st.text()))
def test_nothing_but_unfit_is_raised(value: object) -> None:
    for parse in (lambda v: parse_duration(v, "ms"), parse_power, parse_rate, parse_count):
        with contextlib.suppress(UnfitError):
            parse(value)


@pytest.mark.parametrize("text", ["600", "0.5", "-1 s", "1 parsec", "s", "", "1.5 ns", "1e99 h", "1 s s"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(UnfitError):
        parse_duration(text, "ns")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10 min 5 s", "605 s"),
        ("1h30m", "90 min"),
        ("1 hour, 30 minutes and 30 seconds", "5430 s"),
        ("59m60s", "1 h"),
        ("1.5 min 250 ms", "90250 ms"),
    ],
)
def test_a_duration_of_several_units_is_added_up(text: str, meant: str) -> None:
    with pytest.raises(UnfitError, match="has several units") as caught:
        parse_duration(text, "ms")
    assert caught.value.fix == f"write '{meant}'"


@pytest.mark.parametrize("text", ["1e400", "9" * 32, "9" * 5000, "1e+123456789", "1" + "0" * 50, "1e99"])
def test_numbers_beyond_all_bounds_are_out_of_range(text: str) -> None:
    with pytest.raises(UnfitError, match="is out of range") as caught:
        parse_rate(text)
    assert "rate" in caught.value.fix
    with pytest.raises(UnfitError, match=r"is out of range|is too large"):
        parse_duration(f"{text} s", "ns")


@pytest.mark.parametrize("text", [str(2**63), "9" * 32, "9" * 5000])
def test_a_count_that_is_too_large_is_refused_with_the_most(text: str) -> None:
    with pytest.raises(UnfitError, match="is out of range") as caught:
        parse_count(text)
    assert caught.value.fix == f"write a whole number from 1 to {2**63 - 1}"
