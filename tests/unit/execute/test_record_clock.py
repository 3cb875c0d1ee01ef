"""Which time a record gets where clocks disagree."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconciler.execute.record_clock import RecordClock
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Recorded, Summary

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CELL = "open/box/tiny/Offline"
PERFORMANCE, ACCURACY = (Address(Kind.RUN, f"{CELL}/{mode}") for mode in ("performance", "accuracy"))
OTHER = Address(Kind.RUN, "open/box/tiny/Server/performance")


def test_a_clock_that_goes_on_is_believed() -> None:
    order = RecordClock()
    assert order.choose_start([PERFORMANCE], NOON) == "2026-01-01T12:00:00.000000Z"
    assert order.choose_start([ACCURACY], NOON + timedelta(seconds=1)) == "2026-01-01T12:00:01.000000Z"


def test_what_is_measured_after_the_clock_was_put_back_comes_later_all_the_same() -> None:
    order = RecordClock()
    times = [
        order.choose_start([address], NOON - timedelta(hours=n)) for n, address in enumerate([PERFORMANCE, ACCURACY])
    ]
    assert times == ["2026-01-01T12:00:00.000000Z", "2026-01-01T12:00:00.000001Z"]


def test_another_cell_keeps_the_clock() -> None:
    order = RecordClock()
    order.choose_start([PERFORMANCE], NOON + timedelta(days=1))
    assert order.choose_start([OTHER], NOON) == "2026-01-01T12:00:00.000000Z"
    assert order.choose_start([OTHER, ACCURACY], NOON) == "2026-01-02T12:00:00.000001Z"  # an outcome that both share


@pytest.mark.parametrize("newest", ["soon", "9999-12-31T23:59:59.999999Z"])
def test_a_time_that_nothing_can_follow_stops_no_one(newest: str) -> None:
    order = RecordClock({CELL: newest})
    assert order.choose_start([PERFORMANCE], NOON) == "2026-01-01T12:00:00.000000Z"


def test_of_two_that_begin_at_once_one_comes_later() -> None:
    order = RecordClock()
    times = [order.choose_start([address], NOON) for address in (PERFORMANCE, ACCURACY, OTHER)]
    assert [time.rpartition(".")[2] for time in times] == ["000000Z", "000001Z", "000000Z"]


def test_what_belongs_to_no_cell_comes_after_what_is_recorded_of_itself() -> None:
    order, data, model = RecordClock(), Address(Kind.DATASET, "net"), Address(Kind.MODEL, "net")
    old, new = (
        Summary("Dataset/1", data, "k" * 64, Ended.DONE, f"2026-01-01T{hour}:00:00.000000Z", 1.0, ())
        for hour in (12, 13)
    )
    order.learn(Recorded({}, {data: (new, old)}, ""))
    assert order.choose_start([data], NOON) == "2026-01-01T13:00:00.000001Z"
    assert order.choose_start([model], NOON) == "2026-01-01T12:00:00.000000Z"
