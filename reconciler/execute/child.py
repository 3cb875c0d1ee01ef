"""Follow the submission of one attempt: read progress from its counter, and end a run that makes no progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from harness.contract import STAGES, FileMessage, Progress, Result, copy_log, read_progress
from reconciler.execute.attempt import Attempt, read_placement
from reconciler.execute.executors.executor import START, Executor, Handle, Progressing, State, Submission
from reconciler.execute.executors.table import Executors
from reconciler.loadgen.log_files import SUMMARY
from reconciler.storage.process import explain_signal

STALL = 900.0  # seconds without a finished sample after which a run counts as hung, unless the spec sets another limit
_LOOK = 0.25
_LAST_LINES = 20  # lines of a child's output to show in messages


class Watch(Struct, frozen=True):
    """The limits and callbacks for following a child. ``moved`` is called with each reading of the counter. ``stall``:
    seconds without progress, in any stage, after which the child counts as hung; ``start``: the limit before it begins.
    A ``stall`` of 0 disables both. ``check`` is called several times a second, whatever the child does; an exception
    from it ends the child. ``lost``: how the server that the child queries has ended; the child has then failed,
    whatever it reports."""

    moved: Callable[[Progress], None]
    stall: float = STALL
    start: float = START
    keep_open: Sequence[int] = ()
    check: Callable[[], None] = lambda: None
    lost: Callable[[], Result | None] = lambda: None


class Detached(BaseException):
    """Raised by ``Watch.check``: the submission continues without this pass, and a later pass takes it over."""


def run_child(
    attempt: Attempt, request: FileMessage, watch: Watch, executors: Executors, seconds: float | None = None
) -> Result:
    """Submit a request that is expected to take ``seconds``, and follow it to its end like ``follow_submission``."""
    executor = executors.choose(attempt, request)
    handle = executor.submit(Submission(attempt, request, attempt.result, tuple(watch.keep_open), seconds=seconds))
    return follow_submission(executor, handle, attempt, watch)


def follow_submission(executor: Executor, handle: Handle, attempt: Attempt, watch: Watch) -> Result:
    """Return a result in every case, and write it to ``result.json``. If a child dies without a result, the result
    describes its death.

    KeyboardInterrupt and exceptions of ``watch.check`` propagate after the child has ended: an interrupted attempt
    leaves no result. Detached propagates at once.
    """
    reason = ""
    began, queued = time.monotonic(), 0.0
    loadgen = _LoadgenStart(attempt)
    try:
        while (found := executor.poll(handle, _LOOK)).goes_on:
            watch.check()
            progress = read_progress(attempt.counter)
            if found.state is State.QUEUED:
                watch.moved(Progress(State.QUEUED, 0, 0, time.monotonic() - began, 0.0, found.note))
                queued = time.monotonic() - began
            elif progress is not None:
                text = ", ".join(filter(None, (attempt.read_last_line(), found.note)))
                watch.moved(replace(loadgen.count_seconds(progress), text=text))
            idle = time.monotonic() - began - queued
            if watch.lost() or (found.state is State.RUNNING and (reason := _explain_hang(watch, progress, idle))):
                executor.cancel(handle)
    except Detached:
        raise
    except BaseException:
        executor.cancel(handle)
        raise
    finally:
        executor.harvest(handle)
    if lost := watch.lost():
        assert attempt.intent.server is not None
        copy_log(Path(attempt.intent.server.log), attempt.service_log)
        lost.write(attempt.result)
        return lost
    return _read_result(attempt, reason, found)


class _LoadgenStart(Struct):
    """When LoadGen started in a harness command that first loads a model. LoadGen opens an empty summary when it
    starts."""

    attempt: Attempt
    began: float = 0.0

    def count_seconds(self, progress: Progress) -> Progress:
        """Return the progress with the seconds since LoadGen started, 0 before that. Return the progress of other runs
        unchanged."""
        rules, folder = self.attempt.intent.rules, self.attempt.run_dir
        if progress.stage != "running" or progress.expected or rules is None or rules.endpoints or not folder.is_dir():
            return progress
        if not self.began:
            opened = [path for pattern in (f"*{SUMMARY}", f"*/*{SUMMARY}") for path in folder.glob(pattern)]
            self.began = min((path.stat().st_mtime for path in opened), default=0.0)
        return replace(progress, seconds=max(0.0, time.time() - self.began) if self.began else 0.0)


def _explain_hang(watch: Watch, progress: Progress | None, seconds: float) -> str:
    """Explain why a child that has run for ``seconds`` counts as hung; "" if it does not."""
    if not watch.stall:
        return ""
    if progress is None or progress.stage == STAGES[0]:
        return f"the child did not start work within {seconds:.0f} s" if seconds > watch.start else ""
    if progress.idle <= watch.stall:
        return ""
    if progress.stage == "running":
        return f"no sample was completed for {progress.idle:.0f} s"
    return f"no progress for {progress.idle:.0f} s while {progress.stage}"


def _read_result(attempt: Attempt, reason: str, found: Progressing) -> Result:
    status, kind, fix = found.status, "crash", "see the child's log"
    unreadable = ""
    if attempt.result.exists():
        try:
            return Result.read(attempt.result)
        except ValueError as error:
            unreadable = str(error)
    if unreadable:
        problem = f"the child's result cannot be read: {unreadable}"
    elif reason:
        problem, kind, fix = reason, "resources", "its log shows what it waits for"
        if attempt.intent.address.is_run:
            fix += "; raise run.stall_timeout for slow models"
    elif found.why is not None:
        problem, kind, fix = found.why.problem, found.why.problem_class, found.why.fix
    elif status is None:
        problem = f"its job ended without a result{_show_nodes(attempt)}"
        fix = f"see the child's log; what it starts must see {attempt.folder.parent} and have this mlperf-reconciler"
    elif status < 0:
        problem, kind = f"the child process was ended by signal {-status}", "resources"
        fix = f"{explain_signal(-status, 'lower batch_size or streams')}; see the child's log"
    else:
        problem = f"the child process ended with status {status} and no result"
    if not attempt.output.is_dir():
        attempt.output.mkdir(parents=True)
        problem, kind = f"the folder of the attempt was removed while it ran: {attempt.folder}", "input"
        fix = "the command must not delete anything outside {run_dir}"
    tail = read_last_lines(attempt.log)
    result = Result(done=False, seconds=0.0, problem=problem, problem_class=kind, fix=fix, values={"log": tail})
    result.write(attempt.result)
    return result


def _show_nodes(attempt: Attempt) -> str:
    nodes = read_placement(attempt.placed).nodes
    return f", on {', '.join(nodes)}" if nodes else "; it never began"


def read_last_lines(log: Path) -> str:
    """Return the end of a child's output, for messages and its record."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - 8192))
            return "\n".join(stream.read().decode(errors="replace").splitlines()[-_LAST_LINES:])
    except OSError:
        return ""
