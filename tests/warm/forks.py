"""A process that has loaded some modules, and forks of it: what each is to be is asked for over a socket."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reconciler.storage import process

_SERVER = Path(__file__).with_name("server.py")
_ROOT = _SERVER.parents[2]


class Forks:
    """The process that is forked, started with the first fork that is asked for. ``main``: the module whose ``main``
    each fork calls."""

    def __init__(self, main: str, *modules: str) -> None:
        self.on = importlib.util.find_spec("mlperf_loadgen") is not None and hasattr(os, "pidfd_open")
        self._modules = (main, *modules)
        self._asking = threading.Lock()
        self._socket: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def ask(self, request: Mapping[str, object], files: Sequence[int]) -> None:
        with self._asking:
            if self._socket is None:
                self.start()
            assert self._socket is not None
            socket.send_fds(self._socket, [json.dumps(request).encode()], list(files))

    def start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        more = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(_ROOT)}
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-P", str(_SERVER), str(theirs.fileno()), *self._modules],
                env={**process.build_child_environment(), **more},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours
        atexit.register(self.end)  # or the interpreter complains of what is still open

    def use(self, asked: socket.socket) -> None:
        """A server that is there already, behind this socket."""
        self._socket = asked

    def end(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            self._server.wait()


class Fork:
    """One of them. ``streams``: its standard input, output and error, and what else it keeps open."""

    def __init__(
        self, forks: Forks, words: Sequence[str], folder: Path, environment: Mapping[str, str], streams: Sequence[int]
    ) -> None:
        self._reported, telling = os.pipe()
        try:
            request = {"words": list(words), "folder": str(folder), "environment": dict(environment)}
            forks.ask(request, [telling, *streams])
        finally:
            os.close(telling)
        self._said = b""
        self._receive(None, 1)
        self.pid = int(self._said.split(b"\n")[0])

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit status, negative for a signal; None while it lives on after these seconds. Not again after that."""
        if not self._receive(seconds, 2):
            return None
        os.close(self._reported)
        return int(self._said.split(b"\n")[1] or -9)

    def _receive(self, seconds: float | None, lines: int) -> bool:
        """Whether so many lines were said in that time, or nothing more will be."""
        while self._said.count(b"\n") < lines:
            if not select.select([self._reported], [], [], seconds)[0]:
                return False
            data = os.read(self._reported, 64)
            if not data:
                break
            self._said += data
        return True


class ForkedProcess(subprocess.Popen):  # type: ignore[type-arg]
    """One of them as a ``Popen``: overrides where that starts and waits for its process, which is none of this one's.
    ``named``: the environment, and what else that takes of folder, streams and files to keep open."""

    def __init__(self, forks: Forks, words: Sequence[str], **named: Any) -> None:
        self._forks = forks
        super().__init__(list(words), **named)

    def _execute_child(self, args: Any, _executable: Any, _before: Any, _close: Any, *rest: Any) -> None:
        others, cwd, env, *_, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[:12]
        streams = [own if end == -1 else end for own, end in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self._fork = Fork(self._forks, args, Path(cwd), env, (*streams, *others))
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        self.pid = self._fork.pid
        self._child_created = True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            self.returncode = self._fork.wait(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            self.returncode = self._fork.wait(timeout)
            if self.returncode is None:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode
