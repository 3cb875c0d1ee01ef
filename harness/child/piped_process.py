"""Start, end and serve the harness's own processes, which communicate through a pipe."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from harness.child.orphan import die_with_parent


def start_process(module: str, environment: Mapping[str, str]) -> tuple[Connection, subprocess.Popen[bytes]]:
    """``environment``: variables in addition to this process's own. ``module`` receives the descriptor of the pipe's
    other end as its argument."""
    pipe, there = Pipe()
    whole = {**os.environ, **environment, "RECONCILE_PARENT": str(os.getpid())}
    words = [sys.executable, "-P", "-m", module, str(there.fileno())]
    with there:
        process = subprocess.Popen(words, env=whole, stdin=subprocess.DEVNULL, pass_fds=(there.fileno(),))
    return pipe, process


def end_process(process: subprocess.Popen[bytes], patience: float) -> None:
    """``patience``: seconds that it has to end by itself."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    process.kill()
    process.wait()


def serve_pipe(arguments: list[str], serve: Callable[[Connection], None]) -> None:
    """Run such a process, and end it without unloading native libraries."""
    die_with_parent()
    faulthandler.enable()
    with suppress(EOFError, OSError):  # the caller is gone
        serve(Connection(int(arguments[0])))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
