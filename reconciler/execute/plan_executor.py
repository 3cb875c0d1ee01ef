"""Walks the steps of a plan one after another: decides which is tried, again or not at all. Each finished attempt is
handed over to be recorded before the next step begins."""

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
from reconciler.execute.perform import INTERRUPTED, AttemptContext, Check, Finished, derive_outcome, perform
from reconciler.execute.request_parts import load_power, select_slices
from reconciler.execute.service import Services
from reconciler.loadgen import keys
from reconciler.plan.plan import Plan, Step
from reconciler.resource.kinds import PERFORMANCE, Address, Kind, RunAddress
from reconciler.resource.quantities import show_duration
from reconciler.resource.queues import EXECUTOR
from reconciler.resource.records import REHEARSAL, Summary
from reconciler.resource.settings import STATE_SET, CellSettings
from reconciler.storage.files import Lock, RepositoryPaths
from reconciler.storage.launch.nodes import find_first_busy, probe_nodes
from reconciler.storage.machine_locks import make_machine_lock
from reconciler.storage.storage_errors import convert_storage_errors

# Other users of the machine while a run is to be timed: of this one, or of the nodes behind a launcher.

LOOK = 2.0  # seconds for which the processors must be loaded


def find_busy(settings: CellSettings, paths: RepositoryPaths, *, look: float = LOOK) -> Busy | None:
    """Find what speaks against timing a run with these settings now; None when its machine is quiet.

    ``look``: seconds for which the processors must be loaded; a tenth of a second at least. Raises ReconcilerError when
    the nodes behind a launcher cannot be seen.
    """
    if settings.is_queued:
        return None  # a job of a timed run has its nodes alone
    # GPUs that are cut: those whose slices it takes.
    slices = select_slices(settings)
    request = ProbeRequest(quiet=look, gpus=len(slices) or list_gpus(settings), slices=slices)
    try:
        nodes = probe_nodes(request, settings.launcher, paths.work, (paths.root.resolve(),))
    except ReconcilerError:
        if not settings.runs_here:
            raise
        return None  # a machine that cannot be probed runs nothing either, and the run will say why
    return find_first_busy(nodes, elsewhere=not settings.runs_here)


def list_gpus(settings: CellSettings) -> int:
    """How many GPUs a run takes, from the first on."""
    return settings.get_number("run.options.devices") or settings.hardware.count


RETRIES = 3  # of a step that a queue interrupted, where the spec does not say how many
NOT_QUIET = "end it, or wait; `--busy` times the run all the same, and its record says so"


class PlanExecutor(Struct, dict=True):
    """One walk. ``used``: the record that satisfies each address, kept up to date; ``failures`` and ``made``: key →
    failed and successful attempts in this pass; ``interrupted``: those that a queue ended, which count apart.

    ``store`` makes an attempt permanent and gives its summary.
    ``busy``: a timed run may share the machine, and its record says so; else it waits ``wait_idle`` seconds at most for
    others to leave it. ``servers``: key → the step that starts it,
    once a run asks for it.
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
        """On the machine, for timed runs and servers."""
        return MachineTurns(self.context.check, self.report, patience=self.wait_idle)

    def execute_steps(self, plan: Plan) -> Iterator[Outcome]:
        """Every step whose turn it is; what hangs on a failed or blocked one is left for the next look."""
        for step in plan.steps:
            if step.change.how not in (Work.MAKE, Work.START):
                continue
            if self.is_skipped(step):
                continue
            if step.change.how is Work.START:
                self.servers[step.change.key] = step
            else:
                for outcome in self.execute_with_service(step):
                    if outcome.status is not Status.DONE:
                        self.stuck.update((outcome.step.change.address, *outcome.step.shared))
                    yield outcome

    def list_due(self, plan: Plan) -> tuple[Step, ...]:
        """List the steps that are tried, as far as no other fails."""
        stuck = set(self.stuck)
        return tuple(s for s in plan.steps if s.change.how is Work.MAKE and not self._find_stuck(s, stuck))

    def is_skipped(self, step: Step) -> bool:
        """True where it is not tried now; then nothing that depends on it is."""
        return self._find_stuck(step, self.stuck)

    def _find_stuck(self, step: Step, stuck: set[Address]) -> bool:
        """True where a step cannot be tried, which is added to those that are ``stuck``."""
        address = step.change.address
        waits = stuck.intersection(self.desired.by_address[address].upstream) or self._lacks_valid_run(address, stuck)
        dropped = bool(step.blocked or waits or self.is_given_up(step))
        if dropped:
            stuck.update((address, *step.shared))
        return dropped

    def _lacks_valid_run(self, address: Address, stuck: set[Address]) -> bool:
        """A compliance test of a run that failed or is INVALID would prove nothing: it comes after a valid one."""
        run = find_proved_run(address)
        return run is not None and (run in stuck or (run in self.used and self.used[run].validity == "INVALID"))

    def is_given_up(self, step: Step) -> bool:
        """A failure is tried once a pass; a transient one as often as ``attempts`` says. What was made and is due
        again all the same, as a run whose evidence never agrees, is left to people; so is what has another key each
        time, as a command's run that edits the command's code."""
        attempts = max(1, self.desired.by_address[step.change.address].attempts)
        names = _counted(step)
        if interrupted := max(self.interrupted.get(name, 0) for name in names):
            settings = self.desired.detail(step.change.address).settings
            if interrupted > settings.get_number(f"{EXECUTOR}.{settings.queue}.retries", RETRIES):
                return True
        return any(self.failures.get(name, 0) >= attempts or self.made.get(name, 0) > attempts for name in names)

    def execute_with_service(self, step: Step) -> Iterator[Outcome]:
        """A step's outcome, after that of starting the server which it asks. A server that it does not ask ends before
        anything is built or timed on its accelerators."""
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
        address = step.change.address
        detail, resource = self.desired.detail(address), self.desired.by_address[address]
        if missing := [str(up) for up in resource.upstream if up not in self.used]:
            return Outcome(step, Status.BLOCKED, f"waits for {', '.join(missing)}")
        self.report(StepStarted(step, attempt=self.failures.get(step.change.key, 0) + 1))

        def moved(progress: Progress) -> None:
            self.report(StepProgress(step, progress))

        def hold(lock: Lock) -> None:
            self.turns.take(lock, step, describe_turn(step, self.context.paths.root))

        try:
            with convert_storage_errors(self.context.paths.attempts):
                finished = self.services.start(step, detail, self.collect_upstream(detail), self.context, moved, hold)
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
        """Find an input that is not there; None where nothing is missing."""
        resource = self.desired.by_address[step.change.address]
        missing = [str(up) for up in resource.upstream if up not in self.used]
        return Outcome(step, Status.BLOCKED, f"waits for {', '.join(missing)}") if missing else None

    def carry_out(
        self, step: Step, detail: Detail, upstream: Mapping[str, Summary], context: AttemptContext, turns: MachineTurns
    ) -> Finished | Outcome:
        """One attempt, or why none was made. Changes nothing of this walk: several may be under way at a time."""
        address, report = step.change.address, turns.report
        minimum = compute_minimum_seconds(address, detail)
        with ExitStack() as stack:
            try:
                context = self.find_turn(step, detail, stack, context, turns)
            except _NotIdleError as error:
                return Outcome(step, Status.BLOCKED, str(error), error.fix)
            context.check(step, False)
            report(StepStarted(step, minimum, self.failures.get(step.change.key, 0) + 1))

            def moved(progress: Progress) -> None:
                report(StepProgress(step, progress, minimum))

            with convert_storage_errors(context.paths.attempts):
                return perform(step, detail, upstream, context, moved)

    def settle(self, step: Step, finished: Finished) -> Outcome:
        """Store what an attempt left, and count it."""
        address = step.change.address
        outcome = derive_outcome(step, finished)  # reads the attempt's log, and storing removes its folder
        summary = self.store(finished)
        names = _counted(step)
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
        """Input name → the record that an attempt is made from."""
        found = ((item, self.used.get(item.upstream)) for item in detail.inputs if item.upstream is not None)
        return {item.name: made for item, made in found if made is not None and made.key == item.value}

    def find_turn(
        self, step: Step, detail: Detail, stack: ExitStack, context: AttemptContext, turns: MachineTurns
    ) -> AttemptContext:
        """The machine, for a timed run: what it keeps is given back with the ``stack``. Others have it while this one
        waits for it to be idle."""
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
        """Find who else uses the machine of a timed run; "" where it is alone. A rehearsal only glances."""
        if not is_timed(address):
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
        """A timed run has the machine to itself: no other pass of any repository here times one until it ends."""
        alone = is_timed(step.change.address) or _sets_state(step.change.address, detail)
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
        """Find the capacity of the machine that it belongs to."""
        executors = self.context.executors
        return executors.choose_for_kind(step.change.address.kind, detail.settings).capacity(detail.settings)


class _NotIdleError(Exception):
    """Why a timed run does not begin. ``fix``: by default for a machine that others load; none of it ends a lock."""

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
    except (KeyError, OSError):  # of a container, where users may have no name
        return f"user {os.getuid()}"


_ON_DEVICE = (Kind.ENGINE, Kind.RUN, Kind.COMPLIANCE_TEST)


def _counted(step: Step) -> tuple[str, ...]:
    """Under which names an attempt is counted."""
    address = step.change.address
    runs = address.kind in (Kind.RUN, Kind.COMPLIANCE_TEST)
    return (step.change.key, str(address)) if runs else (step.change.key,)


def is_timed(address: Address) -> bool:
    """A compliance test is a performance run, too."""
    return address.mode == PERFORMANCE or address.kind is Kind.COMPLIANCE_TEST


def _sets_state(address: Address, detail: Detail) -> bool:
    """True where it changes the machine for as long as it runs."""
    return address.kind in (Kind.RUN, Kind.COMPLIANCE_TEST) and STATE_SET in detail.settings


def compute_minimum_seconds(address: Address, detail: Detail) -> float:
    """LoadGen's minimum duration of a performance run, in seconds; 0 for everything else."""
    values = detail.values()
    if not is_timed(address):
        return 0.0
    return float(values.get(keys.MIN_DURATION) or 0) / 1000


def find_proved_run(address: Address) -> Address | None:
    """The performance run of which a compliance test or its verdict proves something; None of any other resource."""
    if address.kind not in (Kind.COMPLIANCE_TEST, Kind.VERDICT) or address.cell is None:
        return None
    return RunAddress(address.cell, PERFORMANCE).address


# Whose turn it is on a machine: one timed run at a time, and one server; and none while others load it.

_LOOK = 0.5  # seconds between two looks at whether a step that waits is wanted still
_PAUSE = 5.0  # seconds between two looks at a busy machine, each of which takes some itself
_AGAIN = 600.0  # seconds after which a pass that still waits says so again


class MachineTurns(Struct):
    """``waited``: seconds spent waiting for others, ``probed``: looking at machines. ``patience``: the most that a step
    waits; once it was in vain, none waits again. ``said``: which step waits for what, and when that was."""

    check: Check
    report: Callable[[Event], None]
    waited: float = 0.0
    probed: float = 0.0
    patience: float = math.inf
    said: tuple[Step | None, str, float] = (None, "", 0.0)

    def take(self, lock: Lock, step: Step, note: str = "", give_up: float | None = None) -> None:
        """Others time a run, or keep a server for their runs. LockedError where that takes longer than patience lasts,
        or the clock shows ``give_up``; raises what ``check`` raises. ``note``: what others who wait are shown."""
        try:
            lock.acquire(note=note)
        except LockedError as error:
            began = time.monotonic()
            self._say(step, error.message)
            try:
                self._wait(lock, step, note, self.find_end() if give_up is None else give_up)
            finally:
                self.waited += time.monotonic() - began

    def find_end(self) -> float:
        """When patience ends for what begins to wait now."""
        return time.monotonic() + self.patience

    def _wait(self, lock: Lock, step: Step, note: str, give_up: float) -> None:
        while True:
            self.check(step, False)
            try:
                lock.acquire(wait=_LOOK, note=note)
                return
            except LockedError as error:
                self._say(step, error.message)
                if time.monotonic() >= give_up:
                    self.patience = 0.0
                    raise

    def pause(self, step: Step, busy: str, give_up: float) -> bool:
        """Let some time pass in which a busy machine may become idle; False where patience is at its end."""
        began = time.monotonic()
        if began >= give_up:
            self.patience = 0.0
            return False
        self._say(step, f"an idle machine ({busy})")
        until = min(give_up, began + _PAUSE)
        while (left := until - time.monotonic()) > 0:
            self.check(step, False)
            time.sleep(min(left, _LOOK))
        self.waited += time.monotonic() - began
        return True

    def _say(self, step: Step, what: str) -> None:
        """Once for each step and what it waits for, and again after a while."""
        now, (*before, when) = time.monotonic(), self.said
        if [step, what] == before and now - when < _AGAIN:
            return
        most = "" if math.isinf(self.patience) else f", at most {show_duration(self.patience)} (--wait-idle)"
        self.said = step, what, now
        self.report(Message(f"waiting for {what}{most}", step))
