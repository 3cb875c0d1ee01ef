"""A step that waits for its machine, and says so once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.errors import LockedError
from reconciler.execute import plan_executor
from reconciler.execute.outcome import Event, Message
from reconciler.execute.plan_executor import MachineTurns
from reconciler.storage.files import Lock

STEP: Any = "the step"


class Kept:
    """A lock that others give back at the third attempt; each takes as long as somebody waits for it."""

    def __init__(self, clock: list[float], times: int) -> None:
        self.clock, self.times = clock, times
        self.asked: list[float] = []

    def acquire(self, wait: float = 0.0, note: str = "") -> None:
        self.asked.append(wait)
        self.clock[0] += wait
        if len(self.asked) <= self.times:
            raise LockedError("a pass of ann holds it")


@pytest.mark.parametrize(
    ("times", "asked", "waited", "said"),
    [
        (0, [0.0], 0.0, []),
        (1, [0.0, 0.5], 0.5, ["waiting for a pass of ann holds it"]),
        (3, [0.0, 0.5, 0.5, 0.5], 1.5, ["waiting for a pass of ann holds it"]),
    ],
)
def test_who_waits_for_a_machine_says_so_once_and_looks_whether_it_is_wanted_still(
    times: int, asked: list[float], waited: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(plan_executor, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    events, checks = list[Event](), list[tuple[object, bool]]()
    turns = MachineTurns(lambda step, begun: checks.append((step, begun)), events.append)
    lock = Kept(clock, times)
    turns.take(cast(Lock, lock), STEP)
    assert (lock.asked, turns.waited) == (asked, waited)
    assert events == [Message(text, STEP) for text in said]
    assert checks == [(STEP, False)] * times
    turns.take(cast(Lock, Kept(clock, 1)), STEP)
    assert turns.waited == waited + 0.5


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the step is left for a later pass; what it waited counts all the same."""
    clock = [100.0]
    monkeypatch.setattr(plan_executor, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=None))
    events = list[Event]()
    turns = MachineTurns(lambda *_: None, events.append, patience=2.0)
    lock = Kept(clock, 99)
    with pytest.raises(LockedError):
        turns.take(cast(Lock, lock), STEP)
    assert turns.waited == 2.0
    assert not turns.pause(STEP, "others use it", clock[0])
    assert turns.waited == 2.0
    assert len(events) == 1


def test_a_busy_machine_is_looked_at_again_while_the_step_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, checks = [100.0], list[object]()

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(plan_executor, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    events = list[Event]()
    turns = MachineTurns(lambda step, _: checks.append(step), events.append, patience=3600.0)
    end = turns.find_end()
    paused = 0
    while turns.pause(STEP, "GPU 0 is used by ann", end):
        paused += 1
    assert turns.waited == 3600.0
    assert paused > 100
    assert len(checks) >= 7200
    assert 3600 / 600 <= len(events) <= 3600 / 600 + 1  # said again from time to time
    assert all(isinstance(event, Message) and "GPU 0 is used by ann" in event.text for event in events)
