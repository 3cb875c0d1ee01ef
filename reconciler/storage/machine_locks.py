"""Locks shared by all repositories and users of this machine, and their folder."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from reconciler.errors import StorageError
from reconciler.storage.files import Lock, find_temporary_folder

_PURPOSES = {"quiet": "exclusive use of this machine"}


def make_machine_lock(name: str) -> Lock:
    """Make a lock shared by all repositories and users of this machine (``quiet``: one timed run at a time)."""
    purpose = _PURPOSES.get(name, f"{name} lock of this machine")
    return Lock(find_lock_folder() / name, purpose=purpose, shared_folder=True)


def find_lock_folder() -> Path:
    """Return the folder in RECONCILE_LOCKS, or one below the machine's temporary folder. Anyone may have created an
    entry of that name there, so unless it is a folder in which users cannot change each other's files, a folder that
    only this user uses is returned instead. Permissions of existing folders are never changed."""
    if named := os.environ.get("RECONCILE_LOCKS", ""):
        _make_folder(Path(named), 0o1777)
        if Path(named).is_dir():
            return Path(named)
        raise StorageError(f"RECONCILE_LOCKS is {named}, which is not a folder", fix="export RECONCILE_LOCKS=DIR")
    shared = find_temporary_folder() / "mlperf-reconciler-locks"
    _make_folder(shared, 0o1777)
    own = shared.with_name(f"{shared.name}-{os.getuid()}")
    if _is_folder(shared, 0o1777):
        return shared
    _make_folder(own, 0o700)
    if _is_folder(own, 0o700, owner=os.getuid()):
        return own
    fix = f"remove {own}, or use another folder: export RECONCILE_LOCKS=DIR"
    raise StorageError(f"neither {shared} nor {own} is a usable folder for this machine's locks", fix=fix)


def _make_folder(path: Path, mode: int) -> None:
    """Create the folder; an existing entry is left unchanged."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
        path.chmod(mode)  # the user's umask removed bits


def _is_folder(path: Path, mode: int, owner: int | None = None) -> bool:
    """Return True for an actual folder, not a link, with exactly these permissions."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_mode & 0o7777 == mode and owner in (None, status.st_uid)
