"""Execute the steps of a plan one after another: decide whether each is tried, retried or skipped. Each finished
attempt is recorded before the next step begins."""

from __future__ import annotations

import getpass
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from harness.contract import Busy, ProbeRequest, Progress
from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.change import Work
from reconciler.errors import LockedError, ReconcilerError
from reconciler.execute.executors.executor import Capacity
from reconciler.execute.outcome import Event, Message, Outcome, Status, StepProgress, StepStarted
from reconciler.execute.perform import (
    INTERRUPTED,
    AttemptContext,
    Check,
    Finished,
    derive_outcome,
    is_code_changed,
    perform,
)
from reconciler.execute.request_parts import load_power, select_slices
from reconciler.execute.service import Services
from reconciler.loadgen.settings import read_min_duration
from reconciler.plan.plan import Plan, Step
from reconciler.resource.kinds import Address, Kind, find_proved_run
from reconciler.resource.quantities import show_duration
from reconciler.resource.queues import EXECUTOR
from reconciler.resource.records import REHEARSAL, Summary
from reconciler.resource.settings import STATE_SET, CellSettings
from reconciler.storage.files import Lock, RepositoryPaths
from reconciler.storage.launch.nodes import find_first_busy, probe_nodes
from reconciler.storage.machine_locks import make_machine_lock
from reconciler.storage.storage_errors import convert_storage_errors

# Finds other users of a machine before a run is timed: of this machine, or of the nodes behind a launcher.

LOOK = 2.0  # seconds of sampling the processors' load


def find_busy(settings: CellSettings, paths: RepositoryPaths, *, look: float = LOOK) -> Busy | None:
    """Return the reason why a run with these settings should not be timed now; None if its machine is idle.

    ``look``: seconds of sampling the processors' load, at least a tenth of a second. Raises ReconcilerError if the
    nodes behind a launcher cannot be examined.
    """
    if settings.is_queued:
        return None  # a timed run's job has its nodes to itself
    # For partitioned GPUs: the GPUs whose slices it takes.
    slices = select_slices(settings)
    request = ProbeRequest(quiet=look, gpus=len(slices) or list_gpus(settings), slices=slices)
    try:
        nodes = probe_nodes(request, settings.launcher, paths.work, (paths.root.resolve(),))
    except ReconcilerError:
        if not settings.runs_here:
            raise
        return None  # a machine that cannot be probed cannot run anything either, and the run will report why
    return find_first_busy(nodes, elsewhere=not settings.runs_here)


def list_gpus(settings: CellSettings) -> int:
    """Return the number of GPUs that a run takes, counted from the first one."""
    return settings.get_number("run.options.devices") or settings.hardware.count


RETRIES = 3  # retries of a step that a queue interrupted, if the spec does not set their number
NOT_QUIET = "end it, or wait; `--busy` times the run anyway, and marks its record"


class PlanExecutor(Struct, dict=True):
    """One execution of a plan. ``used``: the record that satisfies each address, kept up to date; ``failures`` and
    ``made``: key → number of failed and successful attempts in this pass; ``interrupted``: attempts that a queue ended,
    counted separately.

    ``store`` makes an attempt permanent and returns its summary. ``busy``: a timed run may share the machine, which its
    record then states; otherwise it waits up to ``wait_idle`` seconds for other users to finish. ``servers``: key → the
    step that starts the server, once a run needs it.
    """

    desired: Desired
    context: AttemptContext
    report: Callable[[Event], None]
    store: Callable[[Finished], Summary]
    used: dict[Address, Summary]
    failures: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    interrupted: dict[str, int] = field(default_factory=dict)
    stuck: set[Address] = field(default_factory=set)
    busy: bool = False
    wait_idle: float = 0.0
    services: Services = field(default_factory=Services)
    servers: dict[str, Step] = field(default_factory=dict)

    @cached_property
    def turns(self) -> MachineTurns:
        """Turns on the machine, for timed runs and servers."""
        return MachineTurns(self.context.check, self.report, patience=self.wait_idle)

    def execute_steps(self, plan: Plan) -> Iterator[Outcome]:
        """Execute every step that is due; steps that depend on a failed or blocked one are left for the next round of
        planning."""
        for step in plan.steps:
            if step.change.how not in (Work.MAKE, Work.START) or self.is_skipped(step, self.stuck):
                continue
            if step.change.how is Work.START:
                self.servers[step.change.key] = step
            else:
                for outcome in self.execute_with_service(step):
                    yield self.note(outcome)

    def note(self, outcome: Outcome) -> Outcome:
        """Return the outcome. Steps that depend on one that is not done are not tried now."""
        if outcome.status is not Status.DONE:
            self.stuck.update((outcome.step.change.address, *outcome.step.shared))
        return outcome

    def list_due(self, plan: Plan) -> tuple[Step, ...]:
        """List the steps to try, assuming that no other step fails."""
        stuck = set(self.stuck)
        return tuple(s for s in plan.steps if s.change.how is Work.MAKE and not self.is_skipped(s, stuck))

    def is_skipped(self, step: Step, stuck: set[Address]) -> bool:
        """Return True if the step is not tried now; it is then added to ``stuck``, whose dependents are not tried."""
        address = step.change.address
        waits = stuck.intersection(self.desired.by_address[address].upstream) or self._lacks_valid_run(address, stuck)
        dropped = bool(step.blocked or waits or self.is_given_up(step))
        if dropped:
            stuck.update((address, *step.shared))
        return dropped

    def _lacks_valid_run(self, address: Address, stuck: set[Address]) -> bool:
        """Return True if a compliance test's run failed or is INVALID: the test would prove nothing without a valid
        run."""
        run = find_proved_run(address)
        return run is not None and (run in stuck or (run in self.used and self.used[run].validity == "INVALID"))

    def is_given_up(self, step: Step) -> bool:
        """Return True if the step is not tried again. A failure is tried once per pass, a transient one up to
        ``attempts`` times. A step that succeeded but is due again is left to the user, for example a run whose evidence
        never agrees; so is one whose key changes each time, such as a command's run that edits the command's code."""
        attempts = max(1, self.desired.by_address[step.change.address].attempts)
        names = _list_counted_names(step)
        if interrupted := max(self.interrupted.get(name, 0) for name in names):
            settings = self.desired.detail(step.change.address).settings
            if interrupted > settings.get_number(f"{EXECUTOR}.{settings.queue}.retries", RETRIES):
                return True
        return any(self.failures.get(name, 0) >= attempts or self.made.get(name, 0) > attempts for name in names)

    def execute_with_service(self, step: Step) -> Iterator[Outcome]:
        """Yield the outcome of starting the server that the step queries, then the step's own. A server that the step
        does not query ends before anything is built or timed on its accelerators."""
        service = self.find_service(step.change.address)
        key = self.desired.by_address[service].key if service else ""
        if step.change.address.kind in _ON_DEVICE and not self.services.find_running(key):
            self.services.stop()
            if service and key in self.servers:
                started = self.start(self.servers[key])
                yield started
                if started.status is not Status.DONE:
                    self.stuck.update((step.change.address, *step.shared))
                    return
        yield self.attempt(step)

    def find_service(self, address: Address) -> Address | None:
        return next((up for up in self.desired.by_address[address].upstream if up.kind is Kind.SERVICE), None)

    def start(self, step: Step) -> Outcome:
        detail = self.desired.detail(step.change.address)
        if missing := self.find_missing_upstream(step):
            return missing
        self.report(StepStarted(step, attempt=self.failures.get(step.change.key, 0) + 1))

        def report_progress(progress: Progress) -> None:
            self.report(StepProgress(step, progress))

        def hold(lock: Lock) -> None:
            self.turns.take(lock, step, describe_turn(step, self.context.paths.root))

        try:
            with convert_storage_errors(self.context.paths.attempts):
                finished = self.services.start(
                    step, detail, self.collect_upstream(detail), self.context, report_progress, hold
                )
        except LockedError as error:
            return Outcome(step, Status.BLOCKED, error.message, error.fix)
        outcome = self.settle(step, finished)
        if not finished.lives:
            self.services.stop()
        return outcome

    def attempt(self, step: Step) -> Outcome:
        server = self.services.server if self.find_service(step.change.address) else None
        if absent := self.find_missing_upstream(step):
            return absent
        context = self.context
        if server is not None:
            context = replace(context, server=server.access, lost=server.find_exit)
        detail = self.desired.detail(step.change.address)
        ended = self.carry_out(step, detail, self.collect_upstream(detail), context, self.turns)
        if isinstance(ended, Outcome):
            self.report(ended)
            return ended
        return self.settle(step, ended)

    def find_missing_upstream(self, step: Step) -> Outcome | None:
        """Return the outcome for a missing input; None if all inputs exist."""
        missing = [str(up) for up in self.desired.by_address[step.change.address].upstream if up not in self.used]
        return Outcome(step, Status.BLOCKED, f"waits for {', '.join(missing)}") if missing else None

    def carry_out(
        self, step: Step, detail: Detail, upstream: Mapping[str, Summary], context: AttemptContext, turns: MachineTurns
    ) -> Finished | Outcome:
        """Make one attempt, or return the reason for making none. It does not change this object: several may run at a
        time."""
        address, report = step.change.address, turns.report
        minimum = compute_minimum_seconds(address, detail)
        with ExitStack() as stack:
            try:
                context = self.find_turn(step, detail, stack, context, turns)
            except _NotIdleError as error:
                return Outcome(step, Status.BLOCKED, str(error), error.fix)
            context.check(step, False)
            if is_code_changed(detail, context):
                fix = "run the pass again"
                return Outcome(step, Status.BLOCKED, "the command's code has changed since this was planned", fix)
            report(StepStarted(step, minimum, self.failures.get(step.change.key, 0) + 1))

            def report_progress(progress: Progress) -> None:
                report(StepProgress(step, progress, minimum))

            with convert_storage_errors(context.paths.attempts):
                return perform(step, detail, upstream, context, report_progress)

    def settle(self, step: Step, finished: Finished) -> Outcome:
        """Store an attempt's results and count the attempt."""
        address = step.change.address
        outcome = derive_outcome(step, finished)  # reads the attempt's log, and storing removes its folder
        summary = self.store(finished)
        names = _list_counted_names(step)
        if outcome.status is Status.DONE:
            self.made.update({name: self.made.get(name, 0) + 1 for name in names})
            self.used.update(dict.fromkeys((address, *step.shared), summary))
        elif finished.record.problem_class in INTERRUPTED:
            self.interrupted.update({name: self.interrupted.get(name, 0) + 1 for name in names})
        else:
            more = outcome.status is Status.RETRY
            attempts = self.desired.by_address[address].attempts
            counts = {name: self.failures.get(name, 0) + 1 if more else max(1, attempts) for name in names}
            self.failures.update(counts)
        self.report(outcome)
        return outcome

    def collect_upstream(self, detail: Detail) -> dict[str, Summary]:
        """Return input name → the record that an attempt is made from."""
        found = ((item, self.used.get(item.upstream)) for item in detail.inputs if item.upstream is not None)
        return {item.name: made for item, made in found if made is not None and made.key == item.value}

    def find_turn(
        self, step: Step, detail: Detail, stack: ExitStack, context: AttemptContext, turns: MachineTurns
    ) -> AttemptContext:
        """Wait for the machine's turn for a timed run; the turn ends with ``stack``. While this run waits for the
        machine to be idle, other runs may use it."""
        give_up = turns.find_end()
        while True:
            with ExitStack() as taken:
                ready = self.reserve_machine(step, detail, taken, context, turns, give_up)
                found = self.find_other_user(step.change.address, detail, turns)
                if not found or self.busy or REHEARSAL in detail.marks:
                    stack.push(taken.pop_all())
                    return replace(ready, shared_with=found) if found else ready
            if not turns.pause(step, found, give_up):
                raise _NotIdleError(f"the machine is not idle: {found}")

    def find_other_user(self, address: Address, detail: Detail, turns: MachineTurns) -> str:
        """Find another user of a timed run's machine; "" if there is none. A rehearsal checks only briefly."""
        if not address.is_timed:
            return ""
        began = time.monotonic()
        alone = not (self.busy or REHEARSAL in detail.marks)
        look = 0.0 if REHEARSAL in detail.marks else LOOK
        try:
            found = find_busy(detail.settings, self.context.paths, look=look)
        except ReconcilerError as error:
            unseen = f"its nodes cannot be probed: {error.message}"
            if alone:
                raise _NotIdleError(f"the machine is not idle: {unseen}") from error
            return unseen
        finally:
            turns.probed += time.monotonic() - began
        return str(found) if found else ""

    def reserve_machine(
        self, step: Step, detail: Detail, stack: ExitStack, context: AttemptContext, turns: MachineTurns, give_up: float
    ) -> AttemptContext:
        """Reserve the machine for a timed run: no other pass of any repository here times a run until it ends."""
        address = step.change.address
        alone = address.is_timed or (address.is_run and STATE_SET in detail.settings)  # power_state changes the machine
        name = self.find_capacity(step, detail).lock if alone else ""
        if not name:
            return context
        lock = make_machine_lock(name)
        try:
            turns.take(lock, step, describe_turn(step, context.paths.root), give_up)
        except LockedError as error:
            raise _NotIdleError(error.message, error.fix) from error
        stack.enter_context(lock)
        if (power := load_power()) is not None:
            power.put_back_state()
        return replace(context, keep_open=(*context.keep_open, lock.descriptor))

    def find_capacity(self, step: Step, detail: Detail) -> Capacity:
        """Find the capacity of the step's machine."""
        executors = self.context.executors
        return executors.choose_for_kind(step.change.address.kind, detail.settings).get_capacity(detail.settings)


class _NotIdleError(Exception):
    """Why a timed run does not begin. ``fix``: by default, the fix for a machine that other processes load. No fix
    removes a lock."""

    def __init__(self, message: str, fix: str = NOT_QUIET) -> None:
        super().__init__(message)
        self.fix = fix


def describe_turn(step: Step, root: Path) -> str:
    """Describe the use of a machine, for others who wait for it."""
    address = step.change.address
    took = f", about {show_duration(step.seconds)}" if step.seconds else ""
    what = f"{address.cell or address.name} {address.label}"
    return f"{_name_user()}, {root.resolve()}, {what}, since {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}{took}"


def _name_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, where users may have no name
        return f"user {os.getuid()}"


_ON_DEVICE = (Kind.ENGINE, Kind.RUN, Kind.COMPLIANCE_TEST)


def _list_counted_names(step: Step) -> tuple[str, ...]:
    """Return the names under which an attempt is counted."""
    address = step.change.address
    return (step.change.key, str(address)) if address.is_run else (step.change.key,)


def compute_minimum_seconds(address: Address, detail: Detail) -> float:
    """Return LoadGen's minimum duration of a performance run in seconds; 0 for everything else."""
    return read_min_duration(detail.collect_values()) / 1000 if address.is_timed else 0.0


# Turns on a machine: one timed run and one server at a time, and none while other processes load it.

_LOOK = 0.5  # seconds between two checks whether a waiting step is still wanted
_PAUSE = 5.0  # seconds between two checks of a busy machine, each of which takes time itself
_AGAIN = 600.0  # seconds after which a waiting pass reports it again


class MachineTurns(Struct):
    """Waits for turns on a machine. ``waited``: seconds spent waiting for others; ``probed``: seconds spent examining
    machines. ``patience``: the longest wait of a step; after one has waited in vain, none waits again. ``said``: which
    step waits for what, and when that was reported."""

    check: Check
    report: Callable[[Event], None]
    waited: float = 0.0
    probed: float = 0.0
    patience: float = math.inf
    said: tuple[Step | None, str, float] = (None, "", 0.0)

    def take(self, lock: Lock, step: Step, note: str = "", give_up: float | None = None) -> None:
        """Wait while others time a run or keep a server for their runs. Raises LockedError if that outlasts the
        patience or ``give_up``, and any exception that ``check`` raises. ``note``: text shown to others who wait."""
        began, end = 0.0, 0.0
        try:
            while True:
                try:
                    lock.acquire(wait=_LOOK if began else 0.0, note=note)
                    return
                except LockedError as error:
                    self._report_wait(step, error.message)
                    if not began:
                        began, end = time.monotonic(), self.find_end() if give_up is None else give_up
                    elif time.monotonic() >= end:
                        self.patience = 0.0
                        raise
                self.check(step, False)
        finally:
            self.waited += time.monotonic() - began if began else 0.0

    def find_end(self) -> float:
        """Return the time when patience ends for a wait that begins now."""
        return time.monotonic() + self.patience

    def pause(self, step: Step, busy: str, give_up: float) -> bool:
        """Wait a moment in which a busy machine may become idle; return False if patience has ended."""
        began = time.monotonic()
        if began >= give_up:
            self.patience = 0.0
            return False
        self._report_wait(step, f"an idle machine ({busy})")
        until = min(give_up, began + _PAUSE)
        while (left := until - time.monotonic()) > 0:
            self.check(step, False)
            time.sleep(min(left, _LOOK))
        self.waited += time.monotonic() - began
        return True

    def _report_wait(self, step: Step, what: str) -> None:
        """Report once for each step and what it waits for, and again after a while."""
        now, (*before, when) = time.monotonic(), self.said
        if [step, what] == before and now - when < _AGAIN:
            return
        most = "" if math.isinf(self.patience) else f", at most {show_duration(self.patience)} (--wait-idle)"
        self.said = step, what, now
        self.report(Message(f"waiting for {what}{most}", step))
