"""How far a run stayed inside each constraint, in the words that are shown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.loadgen.margins import compute_margins, show_measured, show_seconds
from tests.unit.loadgen.test_contradictions import make_log

ENDED = {"power_end": "02-22-2023 08:54:58.600"}  # after 10.5 s


def shown(**values: Any) -> list[str]:
    return list(map(str, compute_margins(make_log(**values))))


@pytest.mark.parametrize(
    ("scenario", "count", "least", "unit"),
    [
        ("Offline", "generated_samples_per_query", "requested_min_query_count", "samples"),
        ("SingleStream", "result_query_count", "effective_min_query_count", "queries"),
        ("Server", "result_query_count", "effective_min_query_count", "queries"),
    ],
)
def test_as_many_are_issued_as_are_asked(scenario: str, count: str, least: str, unit: str) -> None:
    def first(**values: object) -> list[str]:
        return [text for text in shown(effective_scenario=scenario, **values) if text.startswith(unit)]

    assert first(**{count: 1500, least: 1000}) == [f"{unit} 1500 {unit}, limit 1000 {unit}: met (+50.0%)"]
    few = {count: 999, least: 1000, "result_min_queries_met": False}
    assert first(**few) == [f"{unit} 999 {unit}, limit 1000 {unit}: not met (-0.1%)"]
    assert first(**{count: 999}) == first(**{least: 1000}) == []
    other = "effective_min_query_count" if least.startswith("requested") else "requested_min_query_count"
    assert first(**{count: 999, other: 1000}) == []


def test_a_run_lasts_to_the_millisecond() -> None:
    assert show_seconds(make_log(power_end="02-22-2023 08:54:58.6004")) == Decimal("10.5")
    assert show_seconds(make_log(power_end="02-22-2023 08:54:58.6006")) == Decimal("10.501")
    assert show_seconds(make_log()) is show_seconds(make_log(power_begin=None, **ENDED)) is None
    assert show_seconds(make_log(result_max_latency_ns=1_500_000_000)) == Decimal("1.5")


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [("123456.7", 5, "123460"), ("1.234567", 5, "1.2346"), ("123.4567", 2, "120"), ("-Infinity", 5, "0")],
)
def test_a_number_is_shown_in_as_many_digits_as_are_asked(number: str, digits: int, text: str) -> None:
    assert show_measured(Decimal(number), digits) == text
