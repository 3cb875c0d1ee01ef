"""``launch``: start another child through a launcher, relay its progress and result, and clean up everything."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from harness.child.group import Command, GroupEnd, StopRequest, run_end_command, run_group
from harness.child.output import BoundedOutput
from harness.contract import CounterCopy, LaunchRequest, Result
from harness.errors import HarnessError
from harness.verbs.command import LAST_LINE, read_declared_secrets

_LOOK = 0.25  # seconds between two readings of the remote counter
_GRACE = 8.0  # seconds; longer than the time that a remote command has to end


def execute(request: LaunchRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Return the child's own result. Raises HarnessError if there is no result: the launcher failed, or the child did
    not find its request or was killed."""
    secrets = read_declared_secrets(request.secrets)
    environment = {name: value for name, value in os.environ.items() if name not in request.secrets.values()}
    environment.pop("RECONCILE_PARENT", None)
    # The child has already limited its own output, and the remote command writes its last line.
    output = BoundedOutput(sys.stdout.fileno(), Path(request.counter).with_name(f"{LAST_LINE}-launcher"))
    command = Command(
        request.command,
        Path(request.cwd),
        environment,
        stdin=json.dumps(secrets).encode() + b"\n",
        grace=_GRACE,
        stop_grace=request.stop_grace,
    )
    stop = StopRequest()
    if request.stop_grace:
        signal.signal(signal.SIGTERM, lambda *_: stop.ask())
    relay = CounterRelay(CounterCopy(request.counter_there, request.counter))
    ended = run_group(command, output, lambda: run_end_command(request.ending), relay, stop)
    answer = Path(request.answer)
    if not answer.exists():
        raise _explain_silence(request, ended, output)
    return Result.read(answer)


def _explain_silence(request: LaunchRequest, ended: GroupEnd, output: BoundedOutput) -> HarnessError:
    how = f"was ended by signal {-ended.status}" if ended.status < 0 else f"ended with status {ended.status}"
    said = output.read_last_lines(5)
    return HarnessError(
        f"the launcher {request.command[0]} {how} without a result of its child{': ' if said else ''}{said}",
        "resources" if ended.status < 0 else "missing",
        f"it must have access to {Path(request.answer).parent} and this mlperf-reconciler in the "
        "interpreter set as the system's `python`",
    )


class CounterRelay:
    """Context manager that copies the progress of a child on another machine to this one."""

    def __init__(self, copy: CounterCopy) -> None:
        self._copy = copy
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="relay", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._copy.copy()

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK):
            self._copy.copy()
