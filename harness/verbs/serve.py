"""``serve``: start a user's server, probe it until it is ready and while runs use it, and keep it running until its
end."""

from __future__ import annotations

import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from harness.child.digests import hash_code
from harness.child.group import Command, GroupEnd, StopRequest, run_end_command, run_group
from harness.child.output import RotatedOutput
from harness.contract import Counter, Fact, Ready, Result, ServiceRequest, as_evidence
from harness.errors import HarnessError
from harness.machine.facts import collect_machine_notes
from harness.verbs.command import LAST_LINE, build_command_environment, find_code_commit, list_secrets

_FIRST, _EVERY = 0.1, 10.0  # seconds between probes, before and after the server is ready; probes hardly disturb a run


def execute(request: ServiceRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Serve. values: exit_status, log (the last lines). ``done``: the server became ready, and its end was
    requested."""
    began = time.monotonic()
    stop = StopRequest()
    signal.signal(signal.SIGTERM, lambda *_: stop.ask())
    cwd = Path(request.cwd)
    if not cwd.is_dir():
        problem = f"the service's folder does not exist: {cwd}"
        raise HarnessError(problem, "missing", "check harness.service.cwd and code")
    facts = as_evidence({"harness.code": hash_code()}) | collect_machine_notes() | find_code_commit(request.code)
    command = Command(
        request.command,
        cwd,
        build_command_environment(request),
        stop_signal=signal.Signals[request.stop_signal],
        stop_grace=request.stop_grace,
    )
    _refuse_stranger(request.probe)
    last_line = Path(request.counter).with_name(LAST_LINE)
    output = WatchedOutput(Path(request.log), last_line, secrets=list_secrets(request))
    output.line = request.probe.line.encode()
    watch = _Watch(request, output, stop, facts)
    ended = run_group(command, output, lambda: run_end_command(request.ending), watch, stop)
    problem, problem_class, fix = _explain_end(request.probe, watch, ended, asked=stop.asked)
    return Result(
        done=not problem,
        seconds=time.monotonic() - began,
        values={"exit_status": ended.status, "log": output.read_last_lines()},
        problem=problem,
        problem_class=problem_class,
        fix=fix,
    )


def _refuse_stranger(probe: Ready) -> None:
    """Refuse if another process answers before the server has started, since it would be mistaken for the server."""
    place = probe.url or probe.tcp
    if place and not find_unanswered(probe, None):
        fix = "stop it, or let the service listen on {port}, a free port"
        raise HarnessError(f"another server already answers at {place}", "resources", fix)


class _Watch:
    """Context manager that probes the server from its own thread."""

    def __init__(
        self, request: ServiceRequest, output: WatchedOutput, stop: StopRequest, facts: dict[str, Fact]
    ) -> None:
        self._request, self._output, self._stop, self._facts = request, output, stop, facts
        self._counter = Counter(request.counter)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self.ready = False
        self.silent = ""

    def __enter__(self) -> None:
        self._counter.stage("starting service")
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _poll(self) -> None:
        probe, began = self._request.probe, time.monotonic()
        give_up = began + probe.timeout
        every = min(_EVERY, probe.patience / 4)
        while not self._over.wait(every if self.ready else _FIRST):
            silent = find_unanswered(probe, self._output)
            if self._over.is_set():
                return
            if not silent:
                if not self.ready:
                    self._report_ready(time.monotonic() - began)
                if not probe.patience:
                    return
                give_up = time.monotonic() + probe.patience
            elif time.monotonic() >= give_up:
                self.silent = silent
                self._stop.ask()
                return

    def _report_ready(self, seconds: float) -> None:
        self.ready = True
        Result(done=True, seconds=seconds, facts=self._facts).write(Path(self._request.ready))
        self._counter.stage("serving")


def _explain_end(probe: Ready, watch: _Watch, ended: GroupEnd, *, asked: bool) -> tuple[str, str, str]:
    """Return the problem, its class and the fix; all empty if the end was requested."""
    if watch.silent and watch.ready:
        problem = f"the service stopped answering for {probe.patience:g} s ({watch.silent})"
        return problem, "resources", "see its last output; raise harness.service.ready.unanswered for a busy one"
    if watch.silent:
        problem = f"the service was not ready within {probe.timeout:g} s ({watch.silent})"
        return problem, "backend", "see its output; raise harness.service.ready.timeout if it needs longer"
    if asked:
        return "", "", ""
    ending = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
    when = "died" if watch.ready else "exited before it was ready"
    killed = watch.ready or ended.status == -signal.SIGKILL
    fix = "see its last output, and fix harness.service or its code"
    if ended.status == -signal.SIGKILL:
        fix += "; signal 9 usually means that the kernel ran out of memory"
    return f"the service {when} with {ending}", "resources" if killed else "backend", fix


_LONGEST = 10.0  # seconds within which a probe must be answered
_OVERLAP = 8192  # bytes that are searched again, in case the line arrives in pieces

# Probes are local and ignore any proxy in the environment.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class WatchedOutput(RotatedOutput):
    """A server's output, which is searched for a line. ``seen``: whether the line was found."""

    line = b""
    seen = False
    _end = b""

    def take(self, data: bytes, *, captured: bool = True) -> None:
        if self.line and not self.seen:
            self.seen = self.line in self._end + data
            self._end = (self._end + data)[-_OVERLAP:]
        super().take(data, captured=captured)


def find_unanswered(ready: Ready, output: WatchedOutput | None) -> str:
    """Explain why the server does not count as ready; "" if it does."""
    longest = min(_LONGEST, ready.patience or _LONGEST)
    if ready.url:
        return _get(ready.url, longest)
    if ready.tcp:
        return _connect(ready.tcp, longest)
    return "" if output and output.seen else f"it has printed no line with {ready.line!r}"


def _get(url: str, longest: float) -> str:
    try:
        with _DIRECT.open(url, timeout=longest) as answer:
            answer.read(1)
        return ""
    except urllib.error.HTTPError as error:
        return f"GET {url}: status {error.code}"
    except (OSError, ValueError) as error:
        return f"GET {url}: {getattr(error, 'reason', None) or error}"


def _connect(place: str, longest: float) -> str:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), longest).close()
        return ""
    except (OSError, ValueError, OverflowError) as error:
        return f"{place}: {error}"
