"""An audit.config in the folder of a command: LoadGen takes whatever is there, so none may stay behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.child.digests import hash_file
from harness.errors import HarnessError

NAME = "audit.config"


@contextmanager
def audit_config(settings: str, cwd: Path, lock: str) -> Iterator[Callable[[], None]]:
    """Gives what removes the file again. ``settings`` "": none is placed, and none may be there.

    ``lock``: of a folder where files are placed. Nothing was there when the command began, so that what is there
    afterwards is of this command, also where it replaced what was placed, as some harnesses do, or placed its own.
    """
    target = cwd / NAME
    with _lock_folder(lock):
        digest = hash_file(Path(settings)) if settings else ""
        if target.exists() and not (digest and hash_file(target) == digest):
            raise HarnessError(
                f"audit: {target} is there already, and would turn the run into a test",
                "input",
                "remove it, or let the process that placed it finish",
            )

        def clear() -> None:
            if digest or lock:
                with contextlib.suppress(OSError):
                    target.unlink()

        try:
            if settings:
                shutil.copyfile(settings, target)
            yield clear
        finally:
            clear()


@contextmanager
def _lock_folder(lock: str) -> Iterator[None]:
    """One command at a time where files are placed; the lock goes with the process."""
    if not lock:
        yield
        return
    path = Path(lock)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
