"""Stands in for ``subprocess`` where a pass starts its children, and starts everything else as that does."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from reconciler import process

_SERVER = Path(__file__).with_name("server.py")
_CHILD = [sys.executable, "-P", "-m", "harness"]


class Warm:
    """The process that is forked, started with the first child that is asked for."""

    def __init__(self) -> None:
        self.on = importlib.util.find_spec("mlperf_loadgen") is not None and hasattr(os, "pidfd_open")
        self._asking = threading.Lock()
        self._socket: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def ask(self, request: Mapping[str, Any], files: Sequence[int]) -> None:
        with self._asking:
            if self._socket is None:
                self.start()
            assert self._socket is not None
            socket.send_fds(self._socket, [json.dumps(request).encode()], list(files))

    def start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", str(_SERVER), str(theirs.fileno())],
                env={**process.build_child_environment(), "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before

    def stand_in(self) -> SimpleNamespace:
        """What ``reconciler.process`` is to find as ``subprocess``."""

        def start(command: Sequence[str], **named: Any) -> Any:
            if self.on and command[: len(_CHILD)] == _CHILD:
                return WarmChild(self, command, **{name: named[name] for name in ("cwd", "env", "stdout", "pass_fds")})
            return subprocess.Popen(command, **named)

        return SimpleNamespace(**{**vars(subprocess), "Popen": start})

    def end(self) -> None:
        if self._socket is not None and self._server is not None:
            self._socket.close()
            self._server.wait()


class WarmChild:
    """What ``reconciler.process.Child`` uses of a ``Popen``."""

    def __init__(
        self,
        warm: Warm,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdout: IO[bytes],
        pass_fds: Sequence[int],
    ) -> None:
        self._command = list(command)
        self._told, telling = os.pipe()
        given, giving = os.pipe()
        self.stdin: IO[bytes] = os.fdopen(giving, "wb")
        self.returncode: int | None = None
        try:
            request = {"words": self._command[len(_CHILD) :], "folder": str(cwd), "environment": dict(env)}
            warm.ask(request, [telling, given, stdout.fileno(), *pass_fds])
        finally:
            os.close(telling)
            os.close(given)
        self._said = b""
        self._hear(None, 1)
        self.pid = int(self._said.split(b"\n")[0])

    def _hear(self, seconds: float | None, lines: int) -> bool:
        """Whether so many lines were said in that time, or nothing more will be."""
        while self._said.count(b"\n") < lines:
            if not select.select([self._told], [], [], seconds)[0]:
                return False
            data = os.read(self._told, 64)
            if not data:
                break
            self._said += data
        return True

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not self._hear(timeout, 2):
                raise subprocess.TimeoutExpired(self._command, timeout or 0.0)
            os.close(self._told)
            self.returncode = int(self._said.split(b"\n")[1] or -9)
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None


@contextlib.contextmanager
def warm_children() -> Iterator[Warm]:
    """Every child that a pass of this process starts is a fork, unless ``on`` is False."""
    warm = Warm()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "subprocess", warm.stand_in())
        try:
            yield warm
        finally:
            warm.end()
