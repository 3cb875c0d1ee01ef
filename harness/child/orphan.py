"""A child never outlives the pass that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
ORPHANED = 70  # exit status


def die_with_parent() -> None:
    """Request to be killed when the parent ends, then check that the parent has not already ended.

    Linux delivers the signal when the *thread* that started this process ends, so the parent starts children from a
    permanent thread. RECONCILE_PARENT is the parent's process id and closes the race between fork and prctl; without
    it, as for a child started manually, only the signal is set. On other systems a thread waits for the end of stdin.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not sys.platform.startswith("linux"):
        threading.Thread(target=_wait_for_end_of_input, daemon=True).start()
        return
    _control_process(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = os.environ.get("RECONCILE_PARENT", "")
    if parent.isdigit() and os.getppid() != int(parent):
        os._exit(ORPHANED)


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process. Linux only."""
    if sys.platform.startswith("linux"):
        _control_process(_PR_SET_CHILD_SUBREAPER, 1)


def _control_process(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def keep_descriptors() -> None:
    """Keep inherited descriptors, above all the pass's locks, from the programs that this process starts: a program
    that outlives the pass would keep them forever."""
    for entry in Path("/proc/self/fd" if sys.platform.startswith("linux") else "/dev/fd").iterdir():
        if int(entry.name) > 2:
            with contextlib.suppress(OSError):  # the descriptor of the folder itself, which is closed again
                os.set_inheritable(int(entry.name), False)


def _wait_for_end_of_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":  # runs a program that ends with its parent
    die_with_parent()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - an argument list, as for every child
