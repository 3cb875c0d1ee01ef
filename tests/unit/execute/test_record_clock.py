"""Which time a record gets where clocks disagree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.execute.record_clock import RecordClock
from reconciler.resource.kinds import Address, Kind

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CELL = "open/box/tiny/Offline"
PERFORMANCE, ACCURACY = (Address(Kind.RUN, f"{CELL}/{mode}") for mode in ("performance", "accuracy"))
OTHER = Address(Kind.RUN, "open/box/tiny/Server/performance")


def test_a_clock_that_goes_on_is_believed() -> None:
    order = RecordClock()
    assert order.started([PERFORMANCE], NOON) == "2026-01-01T12:00:00.000000Z"
    assert order.started([ACCURACY], NOON + timedelta(seconds=1)) == "2026-01-01T12:00:01.000000Z"


def test_what_is_measured_after_the_clock_was_put_back_comes_later_all_the_same() -> None:
    order = RecordClock()
    times = [order.started([address], NOON - timedelta(hours=n)) for n, address in enumerate([PERFORMANCE, ACCURACY])]
    assert times == ["2026-01-01T12:00:00.000000Z", "2026-01-01T12:00:00.000001Z"]


def test_another_cell_keeps_the_clock() -> None:
    order = RecordClock()
    order.started([PERFORMANCE], NOON + timedelta(days=1))
    assert order.started([OTHER], NOON) == "2026-01-01T12:00:00.000000Z"
    assert order.started([OTHER, ACCURACY], NOON) == "2026-01-02T12:00:00.000001Z"  # an outcome that both share


@pytest.mark.parametrize("newest", ["soon", "9999-12-31T23:59:59.999999Z"])
def test_a_time_that_nothing_can_follow_stops_nobody(newest: str) -> None:
    order = RecordClock({CELL: newest})
    assert order.started([PERFORMANCE], NOON) == "2026-01-01T12:00:00.000000Z"
