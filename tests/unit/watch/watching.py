"""A watch as a process of its own, and waiting for what it reports."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any, Self

from tests.passes.repository import Repository
from tests.warm.commands import start_command

LIMIT = 60.0  # seconds; nothing here takes so long unless it is broken


class Watching:
    """Starts ``reconcile watch`` over a repository; its events are read from a file."""

    def __init__(self, repository: Repository, *arguments: str) -> None:
        self.repository = repository
        self.events = repository.root.parent / f"events-{time.monotonic_ns()}.jsonl"
        self.output = self.events.with_suffix(".txt")
        words = ["watch", "--debounce", "0.05", "--events", str(self.events), *arguments]
        with self.output.open("wb") as stream:
            self.process = start_command(words, repository.root, stdout=stream, stderr=subprocess.STDOUT)
        self.read = 0

    def reported(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in self.events.read_text().splitlines()]
        except (FileNotFoundError, ValueError):
            return []  # its last line may be half written

    def wait(self, name: str, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        """The first such event behind the one that was waited for last."""
        return self._wait(lambda event: event["event"] == name and fits(event), f"no event {name!r}")

    def in_sync(self) -> dict[str, Any]:
        """A pass or a plan after which nothing is left to do."""
        return self._wait(lambda event: event["event"] in ("pass", "plan") and event["in_sync"], "not in sync")

    def _wait(self, fits: Callable[[dict[str, Any]], bool], problem: str) -> dict[str, Any]:
        give_up = time.monotonic() + LIMIT
        while time.monotonic() < give_up:
            for number, event in enumerate(self.reported()):
                if number >= self.read and fits(event):
                    self.read = number + 1
                    return event
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.02)
        raise AssertionError(f"{problem}:\n{self.output.read_text()}")

    def count(self, name: str) -> int:
        return sum(1 for event in self.reported() if event["event"] == name)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LIMIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(LIMIT)


def equals_a_clean_pass(repository: Repository) -> None:
    """A pass finds nothing to do, and nothing lies around."""
    before = repository.tree()
    report = repository.reconcile()
    assert not report.outcomes
    assert report.after.plan.in_sync
    assert repository.tree() == before
    assert not repository.damage()
