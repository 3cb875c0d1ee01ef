"""``reconcile`` as a process of its own without its start: a fork of one that has loaded what it loads.

For tests of what a pass does, however it is ended. What the start itself does is for ``subprocess``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.warm.command import LOADED
from tests.warm.forks import Fork, Forks
from tests.warm.server import CHILD
from tests.warm.server import LOADED as LOADED_BY_CHILDREN

_forks = Forks("tests.warm.command", *LOADED, CHILD, *LOADED_BY_CHILDREN)  # it ends with this process


def start_command(words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None, **streams: Any) -> Any:
    """A ``Popen``. ``streams``: as that takes them."""
    command = [sys.executable, "-P", "-m", "reconciler.cli.main", *words]
    kind = WarmCommand if _forks.on else subprocess.Popen
    return kind(command, cwd=cwd, env=dict(os.environ if env is None else env), **streams)


class WarmCommand(subprocess.Popen):  # type: ignore[type-arg]
    """Overrides where a ``Popen`` starts and waits for its process, which is none of this one's."""

    def _execute_child(self, args: Any, _executable: Any, _before: Any, _close: Any, *rest: Any) -> None:
        _, cwd, env, *_, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = rest[:12]
        streams = [own if end == -1 else end for own, end in enumerate((p2cread, c2pwrite, errwrite))]
        try:
            self._fork = Fork(_forks, args[4:], Path(cwd), env, streams)
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
