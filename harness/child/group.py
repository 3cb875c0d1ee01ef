"""Run a command up to its time limit, so that nothing it starts outlives this process, however this process ends.

Between this process and the command is a keeper. It owns every process that the command starts, even those in their own
session (orphans become its children), and waits for the end of the command or of a pipe that this process keeps open.
Then it kills the remaining processes, cleans up, and exits. So a SIGKILL of this process, or of the pass above it, ends
the command as well.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from harness.child.orphan import adopt_orphans
from harness.child.output import BoundedOutput
from harness.errors import HarnessError

GRACE = 5.0  # seconds between asking a group to end and killing it
_LOOK = 0.05
_TAKEN = 65536  # bytes of one read
_ENDING = 30.0  # seconds for removing a container


@dataclass(frozen=True, slots=True)
class Command:
    """``timeout``: in seconds, 0 for no limit. ``stdin``: the command's first input, which then stays open until the
    pass or the command ends; None: no input. ``grace``: seconds that the command has to end by itself once its input
    has ended, and again after the stop signal; 0: it is killed. ``stop_signal`` requests its end; it is killed
    ``stop_grace`` seconds later. ``apart``: standard error is logged, but not captured."""

    arguments: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    timeout: float = 0.0
    stdin: bytes | None = None
    grace: float = 0.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_grace: float = GRACE
    apart: bool = False


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """``status``: the command's exit status, or the negative signal that ended it. It does not prove success."""

    status: int
    timed_out: bool


class StopRequest:
    """Requests the end of a command, from any thread or signal handler, even before it has started."""

    def __init__(self) -> None:
        self._descriptor = -1
        self.asked = False

    def ask(self) -> None:
        self.asked = True
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, b"stop")

    def attach(self, descriptor: int) -> None:
        self._descriptor = descriptor
        if self.asked and descriptor >= 0:
            self.ask()


def run_group(
    command: Command,
    output: BoundedOutput,
    afterwards: Callable[[], None],
    during: AbstractContextManager[object] | None = None,
    stop: StopRequest | None = None,
) -> GroupEnd:
    """``afterwards`` cleans up whatever must not outlive the command; it is always called, perhaps more than once.
    ``during`` is entered after the keeper is forked, since it may start threads, which must not exist during the fork.
    ``stop`` requests an orderly end of the command.

    Raises HarnessError if the command does not start.
    """
    adopt_orphans()
    pipes = control, printed, aside, ending = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    keeper = os.fork()
    own, others = (control[0], *(pipe[1] for pipe in pipes[1:])), (control[1], *(pipe[0] for pipe in pipes[1:]))
    if keeper == 0:
        _keep(command, own, others, afterwards)
    for descriptor in own:
        os.close(descriptor)
    stop = stop or StopRequest()
    stop.attach(control[1])
    try:
        with during or contextlib.nullcontext():
            answer = _follow(printed[0], aside[0], ending[0], output)
    finally:
        stop.attach(-1)
        for descriptor in others:
            os.close(descriptor)
        os.waitpid(keeper, 0)
        _end_children()
        afterwards()
        output.close()
    status, _, rest = answer.partition(" ")
    if not status.lstrip("-").isdigit():
        problem = f"{command.arguments[0]} failed to start: {rest}" if rest else "the command's supervisor was killed"
        raise HarnessError(problem, "missing" if rest else "resources", "check the command, its folder and its PATH")
    return GroupEnd(int(status), rest == "timeout")


def run_end_command(command: Sequence[str]) -> None:
    """End what a command left behind and signals cannot reach, such as a container. Usually nothing is left; this
    process's folder may be gone, too."""
    if command:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_ENDING, check=False
            )


def _follow(printed: int, aside: int, ending: int, output: BoundedOutput) -> str:
    """Follow the keeper's report after all output has been read. A killed keeper reports nothing, and its output is not
    awaited because it might continue forever."""
    answer, sources = b"", [printed, aside, ending]
    while printed in sources or aside in sources:
        for source in select.select(sources, [], [])[0]:
            data = os.read(source, _TAKEN)
            if not data:
                sources.remove(source)
            elif source != ending:
                output.take(data, captured=source == printed)
            else:
                answer += data
        if ending not in sources and not answer:
            break
    return (answer or os.read(ending, _TAKEN)).decode(errors="replace")


def _keep(command: Command, own: tuple[int, ...], others: tuple[int, ...], afterwards: Callable[[], None]) -> None:
    """The keeper's main function. ``own``: descriptors for the end of the pass, the command's output, its separate
    errors, and the status."""
    control, printed, aside, ending = own
    answer = "error the keeper failed"
    try:
        os.setsid()  # signals to our parent's group must not reach the keeper
        for number in (signal.SIGINT, signal.SIGTERM):  # the command must not inherit our handlers
            signal.signal(number, signal.SIG_DFL)
        for descriptor in others:
            os.close(descriptor)
        adopt_orphans()
        answer = _run(command, control, printed, aside)
    except OSError as error:
        answer = f"error {error.strerror or error}"
    finally:
        with contextlib.suppress(BaseException):
            _end_children()
            afterwards()
        with contextlib.suppress(OSError):
            os.write(ending, answer.encode())
        os._exit(0)


def _run(command: Command, control: int, printed: int, aside: int) -> str:
    process = subprocess.Popen(
        list(command.arguments),
        cwd=command.cwd,
        env=dict(command.environment),
        stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
        stdout=printed,
        stderr=aside if command.apart else subprocess.STDOUT,
        start_new_session=True,
    )
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # the command has ended, and will not read it
            process.stdin.write(command.stdin or b"")  # less than a pipe's capacity
            process.stdin.flush()
    give_up = time.monotonic() + command.timeout if command.timeout else float("inf")
    asked = timed_out = False
    while process.poll() is None:
        stop = bool(select.select([control], [], [], _LOOK)[0])
        if stop and not os.read(control, 64):
            break  # the pass is gone
        late = time.monotonic() >= give_up
        if late and asked:
            break
        if (stop or late) and not asked:
            if process.stdin is None:
                _kill_group(process.pid, command.stop_signal)
            else:  # a command with an input ends with it
                _close_input(process)
            asked, timed_out, give_up = True, late, time.monotonic() + command.stop_grace
    _let_end(process, command.grace)
    _kill_group(process.pid, signal.SIGKILL)
    return f"{process.wait()} {'timeout' if timed_out else ''}".strip()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _let_end(process: subprocess.Popen[bytes], grace: float) -> None:
    """Let a command end by itself, because its remote processes end with its input, and a launcher forwards the
    request. A killed command could do neither."""
    _close_input(process)
    if not grace or process.poll() is not None:
        return
    for number in (0, signal.SIGTERM):
        _kill_group(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
            return


def _kill_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _end_children() -> None:
    """End the command's remaining processes; their children become ours when they end."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for _ in range(200):
        with contextlib.suppress(OSError, ValueError):
            for child in children.read_text(encoding="ascii").split():
                os.kill(int(child), signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return
