"""Stand-in for ``subprocess`` where a pass starts its children, and starts everything else as that does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from reconciler.storage import process
from tests.warm.forks import Fork, Forks
from tests.warm.server import CHILD, LOADED

_CHILD = [sys.executable, "-P", "-m", "harness"]


class Warm(Forks):
    """Children of passes are forks while it is ``on``."""

    def __init__(self) -> None:
        super().__init__(CHILD, *LOADED)

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        before, self.on = self.on, False
        try:
            yield
        finally:
            self.on = before

    def stand_in(self) -> SimpleNamespace:
        """What ``reconciler.storage.process`` is to find as ``subprocess``."""

        def start(command: Sequence[str], **named: Any) -> Any:
            if self.on and command[: len(_CHILD)] == _CHILD:
                return WarmChild(self, command, **{name: named[name] for name in ("cwd", "env", "stdout", "pass_fds")})
            return subprocess.Popen(command, **named)

        return SimpleNamespace(**{**vars(subprocess), "Popen": start})


class WarmChild:
    """What ``reconciler.storage.process.Child`` uses of a ``Popen``."""

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
        given, giving = os.pipe()
        self.stdin: IO[bytes] = os.fdopen(giving, "wb")
        self.returncode: int | None = None
        try:
            output = stdout.fileno()
            self._fork = Fork(warm, command[len(_CHILD) :], cwd, env, (given, output, output, *pass_fds))
        finally:
            os.close(given)
        self.pid = self._fork.pid

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._fork.wait(timeout)
            if self.returncode is None:
                raise subprocess.TimeoutExpired(self._command, timeout or 0.0)
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
