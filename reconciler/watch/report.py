"""Report a watch as text and JSON lines: the plan when it changes, each problem once."""

from __future__ import annotations

import json
import shlex
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from reconciler.errors import ReconcilerError, SpecError
from reconciler.execute.outcome import Event, StepProgress
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanResult
from reconciler.reconcile.run import PassReport
from reconciler.render.colour import Paint, show_plain
from reconciler.render.documents import convert_plain_value
from reconciler.render.plan import LIMIT, render_plan_text, summarise_plan
from reconciler.render.progress import EVERY, Failures, Lines, count_outcomes, name_step, render_event_part
from reconciler.resource.embargo import HOOK, explain_refusal, make_embargo
from reconciler.resource.quantities import show_duration
from reconciler.storage.process import call
from reconciler.watch.settings import Wait, WatchSettings

HOOK_LIMIT = 10.0  # seconds that the hook may run
# Events whose texts never contain measured values; all others lose their text under an embargo.
_OPEN = frozenset(
    {
        *("started", "stopped", "valid", "broken", "recovered", "superseded", "head", "committed", "pushed"),
        *("refused", "fetched", "rewritten", "remote"),
    }
)

_SPEC = "the spec"
_TROUBLES = frozenset({"broken", "refused", "trouble", "unwatched"})  # a quiet watch prints these too


class WatchReport:
    """Report of watch mode, called from several threads; remembers the plan shown last and the current problem.

    ``stream`` gets one JSON object per line. ``hook`` is started for every event except those of single steps, with the
    event on its standard input. ``hook_refused``: why it must receive no measured value; none is passed until the
    embargo has been read. ``quiet``: print only problems."""

    def __init__(
        self,
        write: Callable[[str], None],
        settings: WatchSettings,
        *,
        stream: TextIO | None = None,
        hook: Sequence[str] = (),
        folder: Path = Path(),
        paint: Paint = show_plain,
        quiet: bool = False,
    ) -> None:
        self._write, self._stream, self._hook, self._folder = write, stream, tuple(hook), folder
        self._settings, self._quiet, self._paint = settings, quiet, paint
        self._lines = self._number_steps()
        self.hook_refused = "no spec has been read"
        self._moved = 0.0
        self._last_plan = self._wrong = ""
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {"state": "starting"}

    def _number_steps(self) -> Lines:
        """Count the steps of a new pass from 1."""
        return (Failures if self._quiet else Lines)(self._write_line, paint=self._paint)

    def _write_line(self, text: str) -> None:
        first, *rest = text.split("\n")
        with suppress(OSError):  # neither a full disk nor a closed terminal may end the watch
            self._write("\n".join([f"{datetime.now():%H:%M:%S}  {first}", *(f"          {line}" for line in rest)]))

    def say(self, event: str, text: str, **facts: Any) -> None:
        """Report one event as one line."""
        if not self._quiet or event in _TROUBLES:
            self._write_line(text)
        self._emit({"event": event, "text": text, **facts})
        if self._hook:
            kept = text if event in _OPEN or not self.hook_refused else f"withheld: {self.hook_refused}"
            self._call({"event": event, "text": kept, **facts})

    def report_step(self, event: Event) -> None:
        """Report an event of a pass; progress at most every few seconds."""
        self._lines.report(event)
        if isinstance(event, StepProgress):
            if time.monotonic() - self._moved < EVERY:
                return
            self._moved = time.monotonic()
        self._emit(render_event_part(event))

    def _update_state(self, **facts: Any) -> None:
        """Set parts of the state that the health page shows."""
        with self._lock:
            self._state.update(convert_plain_value(facts))

    def read_state(self) -> dict[str, Any]:
        with self._lock:
            return dict(self._state)

    def _emit(self, facts: dict[str, Any]) -> None:
        if self._stream is not None:
            with suppress(OSError):
                self._stream.write(_encode_document(facts) + "\n")
                self._stream.flush()

    def _call(self, facts: dict[str, Any]) -> None:
        try:
            call(self._hook, folder=self._folder, stdin=_encode_document(facts).encode(), limit=HOOK_LIMIT)
        except ReconcilerError as error:
            self._write_line(f"hook: {error}")

    def report_next_try(self, step: Step, wait: Wait) -> None:
        self._write_line(f"{step.change.address}: next try in {show_duration(wait.seconds)}")

    def report_unwatched(self, problem: str) -> None:
        every = show_duration(self._settings.resync)
        self.say("unwatched", f"{problem}; changes there are noticed every {every}")

    def report_valid_spec(self, result: PlanResult) -> None:
        embargo, today = make_embargo(result.desired.submission), datetime.now(UTC).date()
        self.hook_refused = explain_refusal(embargo, HOOK + shlex.join(self._hook), today)
        self.report_repaired_spec()

    def report_repaired_spec(self) -> None:
        if self._wrong.startswith(_SPEC):
            self.say("valid", "the spec is valid again")
            self._wrong = ""
            self._update_state(state="reconciling", problem=None)

    def report_broken_spec(self, error: SpecError) -> None:
        """Report each distinct problem of the spec once."""
        text = f"{_SPEC} has errors: results stay, and nothing runs until it is valid\n{error}"
        if text != self._wrong:
            self._wrong = text
            self._last_plan = ""
            self.say("broken", text)
        self._update_state(state="broken spec", problem=str(error), next_try=None)

    def report_unchanged_spec(self) -> None:
        self._write_line("specs or sources changed, but no resolved value: the pass continues")

    def report_superseded(self, stopped: Step | None) -> None:
        """Report that a changed spec superseded the pass. ``stopped``: the step in progress."""
        name = name_step(stopped) if stopped else ""
        text = f"{name} is stopped, and " if name else ""
        text = f"the spec has changed: {text}the queue is dropped"
        self.say("superseded", text, stopped=name)

    def report_plan(self, result: PlanResult, due: Sequence[Step], topics: Sequence[str]) -> None:
        """Print the plan if it differs from the one printed last. ``topics``: the changes that triggered it."""
        plan = render_plan_text(result.plan, limit=LIMIT)
        if self._last_plan == f"{plan} {len(due)}":
            return
        self._last_plan = f"{plan} {len(due)}"
        waiting = len(result.plan.steps) - len(due)
        why = f"changed: {', '.join(topics)}\n" if topics else ""
        text = why + plan + (f"\nWaiting: {waiting}." if waiting else "")
        self.say("plan", text, due=len(due), held=waiting, in_sync=result.plan.in_sync)

    def report_pass_begun(self, number: int) -> None:
        self._lines = self._number_steps()
        self._update_state(state="reconciling", passes=number)

    def report_pass(self, number: int, report: PassReport, due: Sequence[Step]) -> None:
        plan = report.after.plan
        took = show_duration(report.seconds)
        text = f"pass {number}: {count_outcomes(report.outcomes)}, in {took}. {summarise_plan(plan)}"
        self.say("pass", text, number=number, in_sync=plan.in_sync)
        self._update_state(last_pass=datetime.now().astimezone().isoformat(timespec="seconds"))
        self._last_plan = f"{render_plan_text(plan, limit=LIMIT)} {len(due)}"

    def report_state(self, result: PlanResult, next_try: datetime) -> None:
        state = "in sync" if result.plan.in_sync else "not in sync"
        at = next_try.isoformat(timespec="seconds")
        self._update_state(state=state, summary=summarise_plan(result.plan), next_try=at, problem=None)

    def report_trouble(self, error: Exception, wait: Wait, next_try: datetime) -> None:
        said, fix = str(error) or type(error).__name__, ""
        if isinstance(error, ReconcilerError):
            fix = error.fix
        elif not isinstance(error, OSError):
            fix = f"this is a bug in reconcile: report it\n{''.join(traceback.format_exception(error))}"
        if said != self._wrong:
            self._wrong = said
            self.say("trouble", said + (f"\nfix: {fix}" if fix else ""), kind=wait.kind)
        self._write_line(f"next try in {show_duration(wait.seconds)}")
        self._update_state(state="in trouble", problem=said, next_try=next_try.isoformat(timespec="seconds"))

    def report_recovery(self) -> None:
        if self._wrong:
            self._wrong = ""
            self.say("recovered", "recovered: reconciling again")


def _encode_document(facts: dict[str, Any]) -> str:
    document = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **convert_plain_value(facts)}
    return json.dumps(document, ensure_ascii=False)


_UNIT = """\
# Save as ~/.config/systemd/user/reconcile-watch.service, then:
#   systemctl --user daemon-reload && systemctl --user enable --now reconcile-watch
[Unit]
Description=Reconcile the MLPerf submission in {folder}
After=network-online.target

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={command}
# Ended at once by SIGTERM: what is done is recorded, the run under way is dropped.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=30
Restart=on-failure
RestartSec=10

[Install]
WantedBy=default.target
"""


def render_systemd_unit(root: Path, words: Sequence[str]) -> str:
    """Return the systemd unit that keeps this command line running. "%" begins a specifier in it, so it is doubled."""
    folder, command = (text.replace("%", "%%") for text in (str(root), shlex.join(words)))
    return _UNIT.format(folder=folder, command=command)
