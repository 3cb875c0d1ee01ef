"""A user's server: started once for all runs of a pass that query it, watched until the end, then stopped in order.

Only one server runs at a time, because two with loaded weights would compete for the accelerators.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from harness.contract import LOG_PARTS, Progress, Ready, Result, ServiceRequest, copy_log, read_progress
from reconciler.desired.detail import Detail
from reconciler.execute.attempt import Attempt, ServerAccess
from reconciler.execute.attempt_record import build_record
from reconciler.execute.child import read_last_lines
from reconciler.execute.commands import collect_environment, collect_placeholder_values, find_folder, find_part_location
from reconciler.execute.executors.executor import Executor, Handle, Submission
from reconciler.execute.perform import AttemptContext, Finished, begin
from reconciler.execute.request_parts import enclose, select_slices
from reconciler.plan.plan import Step
from reconciler.resource.placeholders import fill_placeholders, fill_words
from reconciler.resource.records import Summary
from reconciler.resource.settings import SERVICE, CellSettings
from reconciler.storage.files import Lock, RepositoryPaths, remove
from reconciler.storage.machine_locks import make_machine_lock
from reconciler.storage.process import explain_signal

_READY, _STOP = 30 * 60.0, 30.0  # seconds; loading weights takes minutes
_PATIENCE = 120.0  # seconds for which a loaded server may leave a probe unanswered
_LOOK = 0.1
ENDED = "ended.json"  # in the folder of an attempt: how the server's keeper ended


class RunningServer(Struct):
    """A server that is starting or running. ``ended``: path of its keeper's own result; ``settings``: what an attempt
    needs to query it."""

    key: str
    attempt: Attempt
    request: ServiceRequest
    executor: Executor
    handle: Handle
    access: ServerAccess

    @property
    def ended(self) -> Path:
        return self.attempt.folder / ENDED

    def find_exit(self) -> Result | None:
        """Return how the server ended; None while it runs."""
        found = self.executor.poll(self.handle)
        if found.goes_on:
            return None
        status = found.status or 0
        with contextlib.suppress(OSError, ValueError):
            result = Result.read(self.ended)
            if not result.done:
                return dataclasses.replace(result, seconds=0.0, facts={})
        fix = explain_signal(-status) if status < 0 else "it ended by itself"
        problem = f"the service's keeper ended with {f'signal {-status}' if status < 0 else f'status {status}'}"
        said = read_last_lines(Path(self.request.log) / LOG_PARTS[0])
        return Result(
            done=False,
            seconds=0.0,
            problem=problem,
            problem_class="resources",
            fix=f"{fix}; see what the service printed last",
            values={"log": said},
        )

    def end(self) -> None:
        self.executor.cancel(self.handle, self.request.stop_grace + _STOP)
        self.executor.harvest(self.handle)
        remove(self.attempt.folder)


class Services(Struct):
    """The pass's current server, if any, which ends when the context exits. ``seconds``: time spent on stopping
    servers."""

    server: RunningServer | None = None
    lock: Lock | None = None
    seconds: float = 0.0

    def find_running(self, key: str) -> RunningServer | None:
        """Return the running server with this key."""
        return (
            self.server if self.server is not None and self.server.key == key and not self.server.find_exit() else None
        )

    def stop(self) -> None:
        began = time.monotonic()
        try:
            if self.server is not None:
                self.server.end()
        finally:
            self.server = None
            if self.lock is not None:
                self.lock.release()
            self.lock = None
            self.seconds += time.monotonic() - began

    def start(
        self,
        step: Step,
        detail: Detail,
        upstream: Mapping[str, Summary],
        context: AttemptContext,
        moved: Callable[[Progress], None],
        hold: Callable[[Lock], None],
    ) -> Finished:
        """End the current server, start this one, and wait until it is ready or has failed."""
        self.stop()
        lock = make_machine_lock("service")  # one server per machine, across all repositories
        hold(lock)
        self.lock = lock
        port = free_port()
        attempt = begin(step, detail, upstream, replace(context, server=ServerAccess(port)))
        began = time.monotonic()
        try:
            self.server = _start_server(step.change.key, attempt, context, port, self.lock)
            if not _await_ready(self.server, moved, lambda: context.check(step, True)):
                _fail(self.server)
            record, kept = build_record(attempt)
        except BaseException:
            self.stop()
            remove(attempt.folder)
            raise
        lives = attempt.result.exists() and not record.problem
        return Finished(attempt, record, kept, time.monotonic() - began, lives=lives)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.stop()


def free_port() -> int:
    """Find a port of this machine on which nothing is listening."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_service_request(attempt: Attempt, paths: RepositoryPaths) -> ServiceRequest:
    settings = attempt.intent.settings
    attempt.run_dir.mkdir(exist_ok=True)
    image = settings.get_part_text(SERVICE, "image")
    values = collect_placeholder_values(attempt, paths, attempt.list_inputs())
    values |= {"run_dir": str(attempt.run_dir), "image": image}
    env, secrets = collect_environment(settings, values, SERVICE)
    return ServiceRequest(
        command=fill_words(settings.service_command, values),
        cwd=find_folder(settings, SERVICE, values, paths.root) or str(attempt.run_dir),
        counter=str(attempt.counter),
        ready=str(attempt.result),
        probe=_make_probe(settings, values),
        log=str(attempt.server_log),
        env=env,
        secrets=secrets,
        stop_signal=settings.get_text(f"{SERVICE}.stop.signal", "SIGTERM"),
        stop_grace=settings.get_seconds(f"{SERVICE}.stop.timeout", _STOP),
        code=find_part_location(settings, SERVICE, "code", values, paths.root),
        hides=(key,) if (key := settings.get_text("run.options.api_key_env")) else (),
        slices=select_slices(settings),
    )


def _make_probe(settings: CellSettings, values: Mapping[str, str]) -> Ready:
    url, tcp, line = (
        fill_placeholders(settings.get_text(f"{SERVICE}.ready.{n}"), values) for n in ("url", "tcp", "log")
    )
    if not (url or tcp or line):
        tcp = f"127.0.0.1:{values['port']}"
    patience = settings.get_seconds(f"{SERVICE}.ready.unanswered", _PATIENCE)
    return Ready(
        url=url,
        tcp=tcp,
        line=line,
        timeout=settings.get_seconds(f"{SERVICE}.ready.timeout", _READY),
        patience=0.0 if line else patience,
    )


def _start_server(key: str, attempt: Attempt, context: AttemptContext, port: int, lock: Lock | None) -> RunningServer:
    request = enclose(make_service_request(attempt, context.paths), attempt, context.paths)
    executor = context.executors.choose(attempt, request)
    open_files = (*context.keep_open, *((lock.descriptor,) if lock else ()))
    # The keeper ends the processes that the server started.
    handle = executor.submit(Submission(attempt, request, attempt.folder / ENDED, open_files, sweeps=False))
    return RunningServer(key, attempt, request, executor, handle, ServerAccess(port, request.log))


def _await_ready(server: RunningServer, moved: Callable[[Progress], None], check: Callable[[], None]) -> bool:
    """Wait until the server is ready; return False if it has ended instead."""
    while not server.attempt.result.exists():
        if not server.executor.poll(server.handle, _LOOK).goes_on:
            return server.attempt.result.exists() and not server.find_exit()
        check()
        progress = read_progress(server.attempt.counter)
        if progress is not None:
            moved(dataclasses.replace(progress, text=server.attempt.read_last_line()))
    return True


def _fail(server: RunningServer) -> None:
    """Write a result that says how the server ended and includes its output."""
    copy_log(Path(server.request.log), server.attempt.service_log)
    lost = server.find_exit()
    assert lost is not None
    lost.write(server.attempt.result)
