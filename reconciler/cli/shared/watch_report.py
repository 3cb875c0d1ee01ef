"""Report of a watch in words: the plan when it is a new one, each problem once."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from reconciler.cli.shared.watch_output import WatchOutput
from reconciler.errors import ReconcilerError, SpecError
from reconciler.execute.outcome import Event
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanResult
from reconciler.reconcile.run import PassReport
from reconciler.render.plan import LIMIT, render_plan_text, summarise_plan
from reconciler.render.progress import count_outcomes, name_step
from reconciler.resource.embargo import explain_refusal, make_embargo
from reconciler.resource.quantities import show_duration
from reconciler.watch.backoff import Wait
from reconciler.watch.settings import WatchSettings

_SPEC = "the spec"


class WatchReport:
    """Report of watch mode, which keeps the plan that was shown last and the problem that is not over."""

    def __init__(self, output: WatchOutput, settings: WatchSettings) -> None:
        self._output, self._settings = output, settings
        self._last_plan = self._wrong = ""

    def say(self, event: str, text: str, **facts: Any) -> None:
        self._output.say(event, text, **facts)

    def report_step(self, event: Event) -> None:
        self._output.step(event)

    def report_next_try(self, step: Step, wait: Wait) -> None:
        self._output.line(f"{step.change.address}: next try in {show_duration(wait.seconds)}")

    def report_unwatched(self, problem: str) -> None:
        every = show_duration(self._settings.resync)
        self.say("unwatched", f"{problem}; changes there are seen at a look each {every}")

    def report_valid_spec(self, result: PlanResult) -> None:
        embargo, today = make_embargo(result.desired.submission), datetime.now(UTC).date()
        self._output.hook_refused = explain_refusal(embargo, self._output.hook_address, today)
        if self._wrong.startswith(_SPEC):
            self.say("valid", "the spec is valid again")
            self._wrong = ""

    def report_broken_spec(self, error: SpecError) -> None:
        """Once for each way in which it is broken."""
        text = f"{_SPEC} is broken: the last good result stays, and nothing is made until it is valid\n{error}"
        if text != self._wrong:
            self._wrong = text
            self._last_plan = ""
            self.say("broken", text)
        self._output.now(state="broken spec", problem=str(error), next_try=None)

    def report_unchanged_spec(self) -> None:
        self._output.line("specs or sources changed, but no resolved value: the pass goes on")

    def report_superseded(self, stopped: Step | None) -> None:
        name = name_step(stopped) if stopped else ""
        text = f"{name} is stopped, and " if name else ""
        text = f"the spec asks for something else now: {text}what was queued is given up"
        self.say("superseded", text, stopped=name)

    def report_plan(self, result: PlanResult, due: Sequence[Step], topics: Sequence[str]) -> None:
        """Print the plan when it is not the one printed last."""
        plan = render_plan_text(result.plan, limit=LIMIT)
        if self._last_plan == f"{plan} {len(due)}":
            return
        self._last_plan = f"{plan} {len(due)}"
        waiting = len(result.plan.steps) - len(due)
        why = f"changed: {', '.join(topics)}\n" if topics else ""
        text = why + plan + (f"\nHeld back now: {waiting}." if waiting else "")
        self.say("plan", text, due=len(due), held=waiting, in_sync=result.plan.in_sync)

    def report_pass_begun(self, number: int) -> None:
        self._output.now(state="reconciling", passes=number)

    def report_pass(self, number: int, report: PassReport, due: Sequence[Step]) -> None:
        plan = report.after.plan
        took = show_duration(report.own_seconds + report.child_seconds)
        text = f"pass {number}: {count_outcomes(report.outcomes)}, in {took}. {summarise_plan(plan)}"
        self.say("pass", text, number=number, in_sync=plan.in_sync)
        self._output.now(last_pass=datetime.now().astimezone().isoformat(timespec="seconds"))
        self._last_plan = f"{render_plan_text(plan, limit=LIMIT)} {len(due)}"

    def report_state(self, result: PlanResult, next_try: datetime) -> None:
        state = "in sync" if result.plan.in_sync else "not in sync"
        at = next_try.isoformat(timespec="seconds")
        self._output.now(state=state, summary=summarise_plan(result.plan), next_try=at, problem=None)

    def report_trouble(self, error: Exception, wait: Wait, next_try: datetime) -> None:
        said, fix = str(error) or type(error).__name__, ""
        if isinstance(error, ReconcilerError):
            fix = error.fix
        elif not isinstance(error, OSError):
            fix = f"this is a bug in reconcile: report it\n{''.join(traceback.format_exception(error))}"
        if said != self._wrong:
            self._wrong = said
            self.say("trouble", said + (f"\nfix: {fix}" if fix else ""), kind=wait.kind)
        self._output.line(f"next try in {show_duration(wait.seconds)}")
        self._output.now(state="in trouble", problem=said, next_try=next_try.isoformat(timespec="seconds"))

    def report_recovery(self) -> None:
        if self._wrong:
            self._wrong = ""
            self.say("recovered", "recovered: reconciling again")

    def read_state(self) -> dict[str, Any]:
        return self._output.state()
