"""Locks that all repositories and users of this machine share, and the folder that they are in."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from reconciler.errors import StorageError
from reconciler.storage.files import Lock, find_temporary_folder

_PURPOSES = {"quiet": "exclusive use of this machine"}


def make_machine_lock(name: str) -> Lock:
    """A lock that all repositories and users of this machine share (``quiet``: one timed run at a time)."""
    return Lock(lock_folder() / name, purpose=_PURPOSES.get(name, f"{name} lock of this machine"), shared_folder=True)


def lock_folder() -> Path:
    """The folder that RECONCILE_LOCKS names, else one below the machine's folder for temporary files, where anybody may
    have put something under its name: what is not a folder in which users cannot touch each other's files gives way to
    one of this user's own. Permissions of what is there already are never changed."""
    if named := os.environ.get("RECONCILE_LOCKS", ""):
        _make_folder(Path(named), 0o1777)
        if Path(named).is_dir():
            return Path(named)
        raise StorageError(f"RECONCILE_LOCKS names {named}, which is not a folder", fix="export RECONCILE_LOCKS=DIR")
    shared = find_temporary_folder() / "mlperf-reconciler-locks"
    _make_folder(shared, 0o1777)
    own = shared.with_name(f"{shared.name}-{os.getuid()}")
    if _is_folder(shared, 0o1777):
        return shared
    _make_folder(own, 0o700)
    if _is_folder(own, 0o700, owner=os.getuid()):
        return own
    fix = f"remove {own}, or name a folder of your own: export RECONCILE_LOCKS=DIR"
    raise StorageError(f"neither {shared} nor {own} is a folder that can hold the locks of this machine", fix=fix)


def _make_folder(path: Path, mode: int) -> None:
    """Nothing is changed where something is there."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
        path.chmod(mode)  # the user's mask took bits away


def _is_folder(path: Path, mode: int, owner: int | None = None) -> bool:
    """True for a folder itself, no link to one, with exactly these permissions."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_mode & 0o7777 == mode and owner in (None, status.st_uid)
