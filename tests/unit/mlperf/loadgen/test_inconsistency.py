"""How checks read values of a log and show them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from reconciler.loadgen.inconsistency import Inconsistency, elapsed_seconds, read_integer, read_number, show_value
from reconciler.loadgen.log import DetailLog, parse_detail


def make_log(**values: str) -> DetailLog:
    """Of the JSON text of values."""
    return parse_detail(
        "".join(f':::MLLOG {{"key": "{key}", "value": {text}}}\n' for key, text in values.items()).encode()
    )


def test_both_lines_are_named_where_there_are_two() -> None:
    assert str(Inconsistency("a", "1", "b is 2", 7, 9)) == "a: 1 (line 7), but b is 2 (line 9)"
    found = Inconsistency("a", "1", "b is 2", 7)
    assert str(found) == "a: 1 (line 7), but b is 2"
    assert (found.other, found.is_doubt) == (0, False)


@pytest.mark.parametrize(
    ("text", "number", "integer"),
    [
        ("7", Decimal(7), 7),
        ("-7", Decimal(-7), -7),
        ("7.5", Decimal("7.5"), None),
        ("7.0", Decimal("7.0"), None),
        ("true", None, None),
        ("false", None, None),
        ('"7"', None, None),
        ("null", None, None),
        ("NaN", None, None),
        ("Infinity", None, None),
        ("[7]", None, None),
    ],
)
def test_numbers_that_are_none_count_as_absent(text: str, number: Decimal | None, integer: int | None) -> None:
    log = make_log(a=text)
    assert (read_number(log, "a"), read_integer(log, "a")) == (number, integer)
    assert (read_number(log, "b"), read_integer(log, "b")) == (None, None)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('" a \\n  b "', "a b"),
        ("7", "7"),
        ("7.50", "7.50"),
        ("true", "True"),
        ("null", "null"),
        ("[1]", "a list of 1 value"),
        ("[]", "a list of 0 values"),
        (f'"{"x" * 60}"', "x" * 60),
        (f'"{"x" * 61}"', "x" * 57 + "..."),
    ],
)
def test_a_value_is_shown_in_one_short_line(text: str, shown: str) -> None:
    line = make_log(a=text).line("a")
    assert line is not None
    assert show_value(line) == shown


def test_a_list_that_is_none_is_what_it_is() -> None:
    broken = parse_detail(LISTED.format("[1, x]").encode()).line("a")
    assert broken is not None
    assert show_value(broken) == "what is not JSON"
    listed = parse_detail(LISTED.format("[1, 2]").encode()).line("a")
    assert listed is not None
    assert show_value(listed) == "a list of 2 values"


LISTED = (
    ':::MLLOG {{"key": "a", "value": {}, "time_ms": 0.5, "namespace": "mlperf::logging", "event_type": '
    '"POINT_IN_TIME", "metadata": {{"is_error": false, "is_warning": false, "file": "loadgen.cc", "line_no": 7, '
    '"pid": 1, "tid": 2}}}}\n'
)


def test_a_run_lasts_from_its_beginning_to_its_end() -> None:
    begun, ended = '"11-22-2026 12:00:00.250"', '"11-22-2026 12:00:10.500"'
    assert elapsed_seconds(make_log(power_begin=begun, power_end=ended)) == Decimal("10.25")
    for values in ({"power_begin": begun}, {"power_end": ended}, {"power_begin": begun, "power_end": '"late"'}):
        assert elapsed_seconds(make_log(**values)) is None
