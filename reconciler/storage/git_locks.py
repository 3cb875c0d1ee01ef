"""Locks of refs that a git of ours left because it was killed in the very moment in which it moved the branch.

git makes ``HEAD.lock`` and one for the branch, and every later commit fails until somebody removes them. Nothing in
them says whose they are. They go where all of this holds: they were made after a git of ours had begun its commit on
this host, that git and what it started are dead (they hold a flock for as long as they live), the locks then stay as
they are for a while, and no other git works in the repository. Else they are left to the user, as git does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from reconciler.storage.files import try_flock
from reconciler.storage.git_process import ask

log = logging.getLogger(__name__)

_TURN = "turn"  # the file, in the folder of a commit, that a git at work holds
_STILL = 1.0  # seconds in which a lock that somebody uses would have gone
_PAUSE = 0.05
_LONGEST = 4096  # bytes that are read of anything here


@contextlib.contextmanager
def open_turn(folder: Path) -> Iterator[int]:
    """A descriptor for git to inherit: for as long as it lives, it can be seen to."""
    descriptor = os.open(folder / _TURN, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, platform.node().encode())
        try_flock(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def end_turn(root: Path, folder: Path) -> bool:
    """Remove the locks of refs that a dead git left which had its turn in this folder. Whether it is dead: else nothing
    is removed, and its folder is still wanted."""
    try:
        descriptor = os.open(folder / _TURN, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True  # none began
    try:
        if not try_flock(descriptor):
            return False
        if os.read(descriptor, _LONGEST) == platform.node().encode():
            began = os.fstat(descriptor).st_mtime_ns
            for lock in _list_ref_locks(root):
                _remove_dead(root, lock, began)
        return True
    finally:
        os.close(descriptor)


def _list_ref_locks(root: Path) -> list[Path]:
    """List the locks that a commit takes: of HEAD, of the branch, and of all refs where git keeps them in tables."""
    branch = ask(root, "symbolic-ref", "--quiet", "HEAD").out.decode(errors="surrogateescape").strip()
    names = ["HEAD", *filter(None, [branch]), "reftable/tables.list"]
    words = [word for name in names for word in ("--git-path", f"{name}.lock")]
    answer = ask(root, "rev-parse", *words)
    rows = answer.out.decode(errors="surrogateescape").splitlines() if answer.status == 0 else []
    return [root / row for row in rows]


def _remove_dead(root: Path, lock: Path, began: int) -> None:
    """``began``: nanoseconds since 1970, by the clock of the file system."""
    first = _identify(lock)
    if first is None or first[-1] < began:
        return
    give_up = time.monotonic() + _STILL
    while time.monotonic() < give_up:
        time.sleep(_PAUSE)
        if _identify(lock) != first:
            return
    if _is_in_use(root) or _identify(lock) != first:
        log.warning("%s: left alone, since a git works in the repository", lock)
        return
    lock.unlink(missing_ok=True)
    log.warning("%s: removed; it was left by a git that was killed during a commit of ours", lock)


def _identify(lock: Path) -> tuple[int, ...] | None:
    """(device, inode, time of its content) of a regular file."""
    try:
        found = lock.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def is_in_use(root: Path) -> bool:
    """True where a git that can be seen, and is no child of ours, works in the repository."""
    return sys.platform.startswith("linux") and _is_in_use(root, unseen=False)


def _is_in_use(root: Path, *, unseen: bool = True) -> bool:
    """True where any other git works in the repository. ``unseen``: one that cannot be seen counts as such."""
    if not sys.platform.startswith("linux"):
        return True
    answer = ask(root, "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel")
    places = [Path(row) for row in answer.out.decode(errors="surrogateescape").splitlines()]
    if answer.status or not places:
        return unseen
    return any(_works_in(entry, places, unseen=unseen) for entry in Path("/proc").glob("[0-9]*"))


def _works_in(process: Path, places: list[Path], *, unseen: bool) -> bool:
    try:
        if not (process / "comm").read_bytes().startswith(b"git"):
            return False
        state, parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[:2]
        if state in (b"Z", b"X") or int(parent) == os.getpid():
            return False
        words = (process / "cmdline").read_bytes()
        folder = (process / "cwd").readlink()
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended since
    except OSError:
        return unseen
    return any(folder.is_relative_to(place) or os.fsencode(place) in words for place in places)
