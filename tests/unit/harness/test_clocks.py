"""What is seen of a clock that is set: time that passes, and other load, are none."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from harness.machine import clocks
from harness.machine.clocks import CLOCK_SET, ClockWatch


def count_from(monkeypatch: pytest.MonkeyPatch, *apart: float, lost: float = 0.0) -> None:
    """Both clocks go on by a microsecond with each reading; the time of day is ``apart``, more once for each further
    watch. Once in five readings the processor is ``lost`` between two of them."""
    ticks, days = itertools.count(), itertools.count()

    def monotonic() -> float:
        tick = next(ticks)
        return tick * 1e-6 + lost * (tick // 10)

    def now() -> float:
        return 1.7e9 + monotonic() + apart[min(next(days) // 5, len(apart) - 1)]

    monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic=monotonic, time=now))


@pytest.mark.parametrize("seconds", [3600.0, -12.5, 0.1])
def test_a_clock_that_was_set_is_said_with_its_direction(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    count_from(monkeypatch, 0.0, seconds)
    assert ClockWatch().values() == {CLOCK_SET: pytest.approx(seconds, abs=0.001)}


@pytest.mark.parametrize("lost", [0.0, 7.0])
def test_a_clock_that_no_one_set_says_nothing(lost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    count_from(monkeypatch, 0.0, 0.001, lost=lost)
    assert ClockWatch().values() == {}
