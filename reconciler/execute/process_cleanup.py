"""Ends what a child leaves behind: processes that it started and that left its session, so that none of them uses the
machine of the next timed run, or keeps a lock."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import sys
import time
from collections.abc import Iterator

import psutil

MARK = "RECONCILE_CHILD"  # in the environment of a child and of whatever it starts; another value for each child
_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 200  # a process that is killed may have started another since
_LOOK = 0.01


@contextlib.contextmanager
def find_adopted(mark: str) -> Iterator[None]:
    """Whose parent ends while this is entered becomes a child of this process. At the end those are killed that carry
    the mark, and what they started; no other process of ours or of the user's."""
    _adopt(1)
    try:
        yield
    finally:
        try:
            _end(mark)
        finally:
            _adopt(0)


def make_mark() -> str:
    return secrets.token_hex(8)


def _adopt(on: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, on, 0, 0, 0)


def _end(mark: str) -> None:
    ending: dict[int, psutil.Process] = {}
    for _ in range(_ROUNDS):
        ending |= _marked(mark)
        ending = {pid: process for pid, process in ending.items() if not _gone(process)}
        if not ending:
            break
        for process in ending.values():
            with contextlib.suppress(psutil.Error):
                process.kill()  # never another process that has taken over the number
        time.sleep(_LOOK)
    _reap_orphans()


def _marked(mark: str) -> dict[int, psutil.Process]:
    """Descendants of this process that carry the mark, and their own, whatever these did to their environment."""
    found: dict[int, psutil.Process] = {}
    for process in _below(psutil.Process()):
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found |= {each.pid: each for each in (process, *_below(process))}
    return found


def _gone(process: psutil.Process) -> bool:
    """It has ended, and where it was a child of ours nothing is left of it."""
    try:
        return os.waitpid(process.pid, os.WNOHANG)[0] == process.pid
    except ChildProcessError:
        return not process.is_running()


def _reap_orphans() -> None:
    """Reap processes that had ended already, which show no mark. What this process starts itself is in its session or
    leads one."""
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() == psutil.STATUS_ZOMBIE and os.getsid(process.pid) not in (process.pid, os.getsid(0)):
                os.waitpid(process.pid, os.WNOHANG)


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []
