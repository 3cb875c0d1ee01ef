"""One whole pass: plan, execute, record and render, under the repository's lock. It is level-based: it starts from the
present state, whatever an earlier pass left."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.diff.change import Work
from reconciler.errors import RepositoryError
from reconciler.execute.executors.executor import open_transport
from reconciler.execute.outcome import Event, Message, Outcome, Status, StepsDue, StepStarted
from reconciler.execute.perform import Check, skip_check
from reconciler.observed.node_probe import probe_machines
from reconciler.plan.plan import Plan, Step
from reconciler.plan.saved import refuse_stale
from reconciler.reconcile.planning import Options, PlanCache, PlanResult, compute_plan
from reconciler.reconcile.worker import Recorder, Worker
from reconciler.storage.event_log import RECONCILING, add_context, facts, open_log
from reconciler.storage.files import RepositoryLock, RepositoryPaths, ignore_work
from reconciler.storage.leftovers import sweep, sweep_repository
from reconciler.storage.storage_errors import convert_storage_errors

# Planning of a pass: each look at the world gives the plan that follows from it.


class Planner(Struct):
    """Plans a pass. ``waited``: seconds spent on probing machines."""

    paths: RepositoryPaths
    options: Options
    memory: PlanCache
    report: Callable[[Event], None]
    waited: float = 0.0

    def look(self) -> PlanResult:
        return self._compute(self.options)

    def look_again(self) -> PlanResult:
        """Plan again without the deep tier (this pass has hashed everything once) and without the requested reruns
        (they are done)."""
        return self._compute(replace(self.options, deep=False, rerun=()))

    def look_at_machines(self, result: PlanResult) -> PlanResult:
        """Plan again after probing the machines on which steps are due, if only a probe can identify them."""
        due = {cell.system for s in result.plan.steps if s.change.how is Work.MAKE and (cell := s.change.address.cell)}
        began = time.monotonic()
        systems = result.desired.submission.systems
        looked = probe_machines(self.paths, systems, due, lambda text: self.report(Message(text)))
        self.waited += time.monotonic() - began
        return self.look() if looked else result

    def _compute(self, options: Options) -> PlanResult:
        result = compute_plan(self.paths, options, self.memory)
        self.memory.save()  # a pass may last for days, and other processes plan during it
        return result


# Journal of a pass: hands its events to the caller, and writes each one as a line in the pass's own log.

log = logging.getLogger(__name__)


class Journal(Struct):
    """Journal of a pass. ``id``: the pass's id, included in every line."""

    id: str
    to: Callable[[Event], None]

    def report(self, event: Event) -> None:
        match event:
            case StepStarted(step=step, attempt=attempt):
                log.info("step started", extra=facts(**_describe_step(step), attempt=attempt))
            case Outcome(step=step, status=status):
                level = logging.INFO if status is Status.DONE else logging.WARNING
                record = event.record
                extra = facts(
                    **_describe_step(step),
                    status=status.value,
                    seconds=round(event.seconds, 3),
                    attempt=record.attempt if record else "",
                    problem="" if status is Status.DONE else event.message,
                )
                log.log(level, "step ended", extra=extra)
            case StepsDue(steps=steps):
                log.info("steps due", extra=facts(due=[(str(step.change.address), step.seconds) for step in steps]))
            case Message(text=text):
                log.info("message", extra=facts(text=text))
        self.to(event)

    def begin(self, result: PlanResult) -> None:
        add_context(submission=result.desired.name)
        plan = result.plan
        log.info("planned", extra=facts(steps=len(plan.steps), unchanged=plan.unchanged, desired=plan.desired))

    def end(self, result: PlanResult, own: float, children: float) -> None:
        extra = facts(in_sync=result.plan.in_sync, own_seconds=round(own, 3), child_seconds=round(children, 3))
        log.info("pass ended", extra=extra)


@contextlib.contextmanager
def open_journal(paths: RepositoryPaths, report: Callable[[Event], None]) -> Iterator[Journal]:
    """Open a log file for this pass."""
    with open_log(paths.log, RECONCILING) as identity:
        yield Journal(identity, report)


def _describe_step(step: Step) -> dict[str, str]:
    address = step.change.address
    cell = str(address.cell) if address.cell else ""
    return {"resource": str(address), "cell": cell, "key": step.change.key[:12]}


_LOOKS = 40  # per pass; each look but the last has led to work, so the limit only guards against a bug here


class PassReport(Struct, frozen=True):
    """The report of a pass. ``after``: the state after the pass. ``own_seconds``: time spent in the pass itself,
    ``child_seconds``: in its child processes. ``rendered``: files of the tree, 0 if it was not rendered.
    ``not_committed``: why nothing was committed. ``id``: in the log. ``left``: queue jobs that continue without this
    pass. ``seconds``: total time, of which ``waited_seconds`` were spent waiting for machines that others used."""

    after: PlanResult
    outcomes: tuple[Outcome, ...]
    tree: Path
    own_seconds: float
    child_seconds: float
    harvested: int
    commit: str = ""
    rendered: int = 0
    not_committed: RepositoryError | None = None
    id: str = ""
    left: int = 0
    waited_seconds: float = 0.0
    seconds: float = 0.0


def run_pass(
    paths: RepositoryPaths,
    options: Options,
    *,
    report: Callable[[Event], None],
    saved: Plan | None = None,
    memory: PlanCache | None = None,
    check: Check = skip_check,
) -> PassReport:
    """Make recorded and observed state match the desired one, as far as selected. ``memory``: what this process kept
    from earlier plans. Raises LockedError, StalePlanError, SpecError; RepositoryError before anything is done; and any
    exception that ``check`` raises.

    KeyboardInterrupt propagates: every finished attempt is recorded by then, and the child has ended.
    """
    lock = RepositoryLock(paths, purpose="pass over this repository")
    with (
        convert_storage_errors(paths.work),
        lock.acquire(wait=options.wait),
        open_journal(paths, report) as journal,
    ):
        planner = Planner(paths, options, memory or PlanCache.of(paths), journal.report)
        recorder = Recorder(paths, journal.report)
        open_files = (lock.descriptor,)
        worker = Worker(paths, options, journal.report, check, open_files, recorder, open_transport(paths))
        if options.commit:
            recorder.require_git()
        ignore_work(paths)
        sweep_repository(paths)
        recorder.end_killed_commits()
        harvested = worker.harvest()
        result = planner.look_at_machines(planner.look())
        journal.begin(result)
        if saved is not None:
            refuse_stale(saved, result.plan)
        if options.sign:
            recorder.prepare_signing(result)
        worker.end_unasked(result)
        sweep(result.tree)
        if result.damaged:
            recorder.repair_records(result)
            result = planner.look()  # steps that a restored record satisfies need not run again
        if worker.take_up_refused(result):
            result = planner.look()
        with worker.services as services:
            for _ in range(_LOOKS):
                did = worker.execute(result, saved)
                if did or worker.left:
                    result = planner.look_again()
                if not did or worker.left:
                    break
        rendered = worker.render(result)
        if rendered is not None:
            result = planner.look_again()
        tries = worker.tries
        commit = recorder.commit(tries.outcomes) if options.commit else ""
        waited = tries.waited + tries.probed + services.seconds + planner.waited
        own = time.monotonic() - worker.began - tries.child_seconds - waited
        pass_report = PassReport(
            result,
            tuple(tries.outcomes),
            result.tree,
            own,
            tries.child_seconds,
            harvested,
            commit,
            rendered or 0,
            recorder.not_committed,
            journal.id,
            len(worker.list_left()),
            tries.waited,
            time.monotonic() - worker.began,
        )
        journal.end(result, own, tries.child_seconds)
        return pass_report
