"""What a generator reported of: first tokens and results, by id."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from harness.errors import HarnessError
from harness.run.tokens import GenerationPlan, Sampling


class Recorder:
    """``limit``: seconds after which an answer counts as never coming."""

    def __init__(self, limit: float) -> None:
        self.firsts: dict[int, list[int]] = {}
        self.results: dict[int, Any] = {}
        self._limit, self._changed = limit, threading.Condition()

    def make_plan(self, **changed: Any) -> GenerationPlan:
        """A plan that reports to this recorder."""
        plan: dict[str, Any] = {"model": None, "source": None, "scenario": "Offline", "sampling": Sampling()}
        plan |= {"streaming": False, "logged": True, "threads": 0, "precision": "fp32", "options": {}}
        plan |= {"first": self.first, "completed": self.result, "failed": self.result}
        return GenerationPlan(**plan | changed)

    def first(self, identity: int, tokens: Sequence[int]) -> None:
        assert identity not in self.firsts
        self.firsts[identity] = list(tokens)

    def result(self, identity: int, result: Any) -> None:
        with self._changed:
            assert identity not in self.results, "answered twice"
            self.results[identity] = result
            self._changed.notify_all()

    def wait(self, count: int) -> dict[int, Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.results) >= count, self._limit), self.results
        return self.results

    def failure(self, count: int = 1) -> HarnessError:
        """The one that all prompts ended with."""
        found = {str(result): result for result in self.wait(count).values()}
        (error,) = found.values()
        assert isinstance(error, HarnessError)
        return error
