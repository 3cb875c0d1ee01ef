"""Receivers of a watch's reports. Their answers do not steer the watch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from reconciler.errors import SpecError
from reconciler.execute.outcome import Event
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanResult
from reconciler.reconcile.run import PassReport
from reconciler.watch.backoff import Wait


class Reporter(Protocol):
    """Events of a watch, in their order. Called from several threads."""

    def say(self, event: str, text: str, **facts: Any) -> None:
        """One line for people, one event for programs."""

    def report_step(self, event: Event) -> None:
        """An event of a pass."""

    def report_next_try(self, step: Step, wait: Wait) -> None:
        """A step did not come to its end."""

    def report_unwatched(self, problem: str) -> None:
        """Changes in some place are seen only at a look."""

    def report_valid_spec(self, result: PlanResult) -> None:
        """The specs could be read."""

    def report_broken_spec(self, error: SpecError) -> None: ...

    def report_unchanged_spec(self) -> None:
        """Specs or sources changed, and no resolved value did."""

    def report_superseded(self, stopped: Step | None) -> None:
        """Report that a pass is not asked for any more. ``stopped``: the step that was under way."""

    def report_plan(self, result: PlanResult, due: Sequence[Step], topics: Sequence[str]) -> None:
        """Report the differences, and which of them are due now; ``topics``: what changed before."""

    def report_pass_begun(self, number: int) -> None: ...

    def report_pass(self, number: int, report: PassReport, due: Sequence[Step]) -> None:
        """A pass came to its end; ``due``: what is due after it."""

    def report_state(self, result: PlanResult, next_try: datetime) -> None:
        """A turn came to its end."""

    def report_trouble(self, error: Exception, wait: Wait, next_try: datetime) -> None:
        """A turn did not; one of our own bugs, too, when it is of no class that we raise."""

    def report_recovery(self) -> None:
        """A turn came to its end, whatever was wrong before."""

    def read_state(self) -> dict[str, Any]:
        """How the watch is now, for the health page."""
