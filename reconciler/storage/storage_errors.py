"""Turn failures of a file system or the machine into errors with the problem, the place and the fix.

None of these is about the file itself: a record on a failing disk is not a damaged record, and a lock that a file
system does not support is not taken. Code that treats an OSError as "file missing" calls ``refuse_storage_error``
first.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb

from reconciler.errors import StorageError
from reconciler.storage.untrusted_files import SpecialFileError

PARTIAL = ".partial"  # suffix of a file that is being written; its name begins with a dot
_ROOM = "`reconcile gc` removes unreferenced objects"
_FIXES = {
    errno.ENOSPC: f"free space on that file system ({_ROOM}) and run again",
    errno.EDQUOT: f"free space within your quota ({_ROOM}) and run again",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or use a file system that takes larger ones",
    errno.EACCES: "make it readable and writable for this user",
    errno.EPERM: "make it readable and writable for this user",
    errno.EROFS: "the file system is read-only: work in a writable checkout, or mount it writable",
    errno.EIO: "the disk or its connection fails: see `dmesg`, copy the repository to another disk, and run again",
    errno.ESTALE: "the file handle is stale: remount the file system, and run again",
    errno.ENOTCONN: "the file server is gone: remount the file system, and run again",
    errno.ECONNABORTED: "the file server is gone: remount the file system, and run again",
    errno.ETIMEDOUT: "the file server does not respond: run again once it does",
    errno.ENOLCK: "this file system does not support locks: mount it with locks (NFS: run lockd, drop `nolock`), or "
    "work in a repository on a local disk",
    errno.ENOTSUP: "this file system lacks a needed feature: work in a repository on a local disk",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n 4096) and run again",
    errno.ENFILE: "the machine has too many open files: stop their owner (`lsof`) and run again",
    errno.ENOMEM: "the machine is out of memory: free memory and run again",
    errno.ENODEV: "the device is gone: reconnect or remount it, and run again",
    errno.ENXIO: "the device is gone: reconnect or remount it, and run again",
}
# Something of another type is in the path. Its purpose is unknown, so it is left unchanged.
_IN_THE_WAY = "another file or folder is in the way: move it away, or restore it from git, and run again"
_FIXES_OF_PATHS = {
    errno.ENOENT: "another process removed it, or a program is not installed: restore it, and run again",
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EISDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.ELOOP: "a link in its path leads back to itself: remove it, or restore it from git, and run again",
    errno.ENAMETOOLONG: "choose a shorter name, or work in a folder with a shorter path",
}
# Read errors that are about the machine and not about the file.
_OF_THE_MACHINE = frozenset(
    {
        *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNABORTED, errno.ENODEV),
        *(errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    }
)

_SPEAKERS = ("click.", "rich.")  # modules that write a command's output
_OF_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


def refuse_storage_error(error: Exception, path: Path | str) -> None:
    """Raise StorageError for an error that says nothing about the file; the caller handles all others."""
    if isinstance(error, StorageError):
        raise error
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        raise explain_storage_error(error, path, "read") from error


def find_refusal(folder: Path) -> OSError | None:
    """Return the disk's error if this folder cannot be read right now: called after another operation failed without a
    reason."""
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except OSError as error:
        return error if error.errno in _OF_THE_MACHINE else None
    return None


def find_refusal_in(said: str) -> OSError | None:
    """Find such an error in the English message of a program."""
    named = (number for number in _OF_THE_MACHINE if os.strerror(number) in said)
    return next((OSError(number, os.strerror(number)) for number in named), None)


def find_refusal_behind(error: BaseException | None) -> OSError | None:
    """Find the disk or machine error behind this error: libraries wrap it in their own errors."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE | _OF_WRITING:
            return error
        error = error.__cause__ or error.__context__
    return None


def can_explain(error: OSError) -> bool:
    """Return True if the machine, or a file that is in the way, caused the error, and not a bug."""
    named = error.errno in _FIXES_OF_PATHS and (error.errno != errno.ENOENT or error.filename is not None)
    return error.errno in _FIXES or named or isinstance(error, SpecialFileError)


def is_output_error(error: OSError, *modules: str) -> bool:
    """Return True if the error was raised while writing output to a stream without a file name. ``modules``: further
    modules that write output."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return error.filename is None and frame.f_globals["__name__"].startswith((*_SPEAKERS, *modules))


def explain_storage_error(error: OSError, path: Path | str = "", verb: str = "write") -> StorageError:
    """Explain an error with the file that it names, or with ``path`` if that file only replaces ``path`` while it is
    written. ``verb``: the action on ``path``."""
    number = error.errno or 0
    name, said = errno.errorcode.get(number, f"error {number}"), error.strerror or os.strerror(number)
    named = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    where = str(path) if not named or named.endswith(PARTIAL) else named
    if isinstance(error, SpecialFileError):
        return StorageError(f"cannot read {where or 'a file'}: {said}", fix=_IN_THE_WAY)
    fix = _FIXES.get(number) or _FIXES_OF_PATHS.get(number, "see the error")
    tried = "write" if number in _OF_WRITING else verb if where == str(path) else "use"
    done = f"{tried} {where}" if where else "go on" if number in _OF_THE_MACHINE else f"{tried} a file"
    return StorageError(f"cannot {done}: {said} ({name})", fix=fix)


@contextlib.contextmanager
def convert_storage_errors(path: Path) -> Iterator[None]:
    """Turn file system errors into a StorageError that names the file and the fix. Errors of the terminal, or of a file
    that receives the output, are not about this path."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FIXES or is_output_error(error):
            raise
        raise explain_storage_error(error, path) from error
