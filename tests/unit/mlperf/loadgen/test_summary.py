"""Numbers of a summary beside those of the detail log, which has more or fewer of their digits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reconciler.mlperf.loadgen.summary import is_same_number


@pytest.mark.parametrize(
    ("said", "logged", "same"),
    [
        ("1000.25", "1000.25", True),
        ("1000.25", "1000.254", True),  # two decimals of three
        ("1000.25", "1000.27", False),
        ("1234567.89", "1.23457e+06", True),  # six digits are logged
        ("1234567.89", "1.2346e+06", False),
        ("512", "512", True),
        ("512", "513", False),
        ("100000", "100001", True),  # at one part in 100 000
        ("100000", "100002", False),
        ("-3.5", "3.5", False),
        ("0", "0", True),
        ("0", "1", False),
        ("nan", "1", False),
        ("inf", "1", False),
        ("VALID", "1", False),
    ],
)
def test_a_number_of_the_summary_is_the_logged_one_to_the_digits_shown(said: str, logged: str, same: bool) -> None:
    assert is_same_number(said, Decimal(logged)) is same
