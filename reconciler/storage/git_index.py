"""Commits without locking the user's index: a kill at any instant leaves nothing to be removed by hand.

A killed git leaves the lock of the index that it worked on, and every later git fails until that file is removed. So
git prepares and makes a commit in a copy of the index, in a separate folder in ``.git``. The shared index is replaced
at the end, under a lock that identifies its owner: a file under our name, on which the process that made it has a
flock. Once the flock is free, the maker is dead, and the next commit removes the file. A lock of any other git is
waited for and never touched.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from reconciler.errors import RepositoryError
from reconciler.storage.files import try_flock
from reconciler.storage.git_process import GitAnswer, ask
from reconciler.storage.storage_errors import convert_storage_errors, explain_storage_error

# Locks of refs left by our own git when it was killed while moving the branch.
#
# git makes ``HEAD.lock`` and one for the branch, and every later commit fails until they are removed. Nothing in them
# identifies their owner. They are removed if all of this is true: they were made after a git of ours began its commit
# on this host; that git and its children are dead (they hold a flock while they live); the locks then stay unchanged
# for a while; and no other git works in the repository. Otherwise they are left to the user, as git does.

_TURN = "turn"  # file in a commit's folder that git locks while it works
_STILL = 1.0  # seconds after which a lock in use would have been released
_LONGEST = 4096  # bytes read of any file here
_READ_NOTE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _end_turn(root: Path, folder: Path) -> bool:
    """Remove the locks of refs that a dead git left whose turn was in this folder. Return whether it is dead: otherwise
    nothing is removed, and its folder is still needed."""
    try:
        descriptor = os.open(folder / _TURN, _READ_NOTE)
    except OSError:
        return True  # no git began
    try:
        if not try_flock(descriptor):
            return False
        if os.read(descriptor, _LONGEST) == platform.node().encode():
            began = os.fstat(descriptor).st_mtime_ns
            for lock in _list_ref_locks(root):
                _remove_dead_ref_lock(root, lock, began)
        return True
    finally:
        os.close(descriptor)


def _list_ref_locks(root: Path) -> list[Path]:
    """List the locks that a commit takes: of HEAD, of the branch, and of all refs if git keeps them in tables."""
    names = ["HEAD", *ask(root, "symbolic-ref", "--quiet", "HEAD").lines, "reftable/tables.list"]
    words = [word for name in names for word in ("--git-path", f"{name}.lock")]
    return [root / row for row in ask(root, "rev-parse", *words).lines]


def _remove_dead_ref_lock(root: Path, lock: Path, began: int) -> None:
    """Remove a ref lock that a dead git left. ``began``: nanoseconds since 1970, by the file system's clock."""
    first = _identify(lock)
    if first is None or first[-1] < began:
        return
    give_up = time.monotonic() + _STILL
    while time.monotonic() < give_up:
        time.sleep(_PAUSE)
        if _identify(lock) != first:
            return
    if _is_in_use(root) or _identify(lock) != first:
        log.warning("%s: not removed, since a git process uses the repository", lock)
        return
    lock.unlink(missing_ok=True)
    log.warning("%s: removed; it was left by a git that was killed during a commit of ours", lock)


def _identify(lock: Path) -> tuple[int, ...] | None:
    """Return (device, inode, time of its content) of a regular file."""
    try:
        found = lock.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _is_in_use(root: Path, *, unseen: bool = True) -> bool:
    """Return True if any other git works in the repository. ``unseen``: one that cannot be inspected counts as such."""
    if not sys.platform.startswith("linux"):
        return True
    answer = ask(root, "rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel")
    places = [Path(row) for row in answer.lines]
    if not places:
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
        return False  # it has ended by now
    except OSError:
        return unseen
    return any(folder.is_relative_to(place) or os.fsencode(place) in words for place in places)


log = logging.getLogger(__name__)

_PREFIX = "reconcile-commit-"  # prefix of entries in .git, which stay until their maker ends or the next commit begins
_FOLDER = ".folder"  # suffix of a folder; the note that names its user has none
_NOTE = b"held by mlperf-reconciler\n"  # content of our locks; git's own are empty or an index
_YOUNG = 60.0  # seconds during which an incomplete note may still be being written
_PAUSE = 0.05  # seconds between two checks of another process's lock
_WAITS = "wait for it; the records are safe in state/, and the next --commit includes them"
_OF_A_WRITE = ("nable to write", "ailed to write", "update_ref failed", "couldn't set")  # parts of git's messages


class PrivateIndex(Struct, frozen=True):
    """The private index of one commit. ``copy``: the index that git uses as its own. ``shared``: the user's. ``note``:
    the file of which our lock is a second name."""

    root: Path
    folder: Path
    shared: Path
    note: Path

    @property
    def copy(self) -> Path:
        return self.folder / "index"

    def ask(self, *arguments: str, stdin: bytes = b"") -> GitAnswer:
        return ask(self.root, *arguments, stdin=stdin, own=True, index=self.copy)

    def commit(self, *arguments: str, stdin: bytes) -> GitAnswer:
        """Commit. After a signal that kills this process and its group, git still finishes the commit."""
        turn = os.open(self.folder / _TURN, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(turn, platform.node().encode())
            try_flock(turn)  # git inherits it, so that the flock shows whether that git is alive
            answer = ask(
                self.root, "commit", *arguments, stdin=stdin, own=True, index=self.copy, alone=True, inherits=(turn,)
            )
        finally:
            os.close(turn)
        if answer.status < 0:
            _end_turn(self.root, self.folder)
        return answer

    def refresh(self) -> None:
        """Copy the shared index again, discarding the copy's content."""
        self.copy.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(self.shared, self.copy)

    def wait_for_turn(self, wait: float) -> bool:
        """Return True once no other git has locked the shared index, False after ``wait`` seconds. A running commit,
        such as one whose message is being edited, would fail if the branch moved: raises RepositoryError."""
        lock, give_up = self._lock, time.monotonic() + wait
        while os.path.lexists(lock):
            if _remove_dead(lock):
                continue
            if time.monotonic() > give_up:
                if _is_in_use(self.root, unseen=False):
                    problem = f"git commit: another git process is using the index of {self.root} ({lock.name})"
                    raise RepositoryError(problem, fix=_WAITS)
                return False
            time.sleep(_PAUSE)
        return True

    @property
    def _lock(self) -> Path:
        return self.shared.with_name(f"{self.shared.name}.lock")

    def share(self, paths: bytes, wait: float) -> None:
        """Bring the shared index to HEAD for these NUL-separated paths. If another git locks it for longer than
        ``wait`` seconds, it stays unchanged until the next commit, because the committed content does not depend on
        it."""
        lock, give_up = self._lock, time.monotonic() + wait
        while True:
            try:
                os.link(self.note, lock)  # so that the lock appears with its complete content and its flock
                break
            except FileExistsError:
                if time.monotonic() >= give_up:
                    log.warning("the index of git is locked by another process and was not updated")
                    return
            if not _remove_dead(lock):
                time.sleep(_PAUSE)
        try:
            self.refresh()
            answer = self.ask("reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=paths)
            if answer.status == 0 and self.copy.exists():
                self.copy.replace(self.shared)
            else:
                log.warning("the index of git was not updated: %s", answer.error)
        finally:
            lock.unlink()


@contextlib.contextmanager
def open_private_index(root: Path) -> Iterator[PrivateIndex | None]:
    """Open the private index; None outside a git repository."""
    found = _find_index(root)
    if found is None:
        yield None
        return
    git_folder, shared = found
    _sweep(root, git_folder, shared)
    descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=git_folder)
    note, folder = Path(name), Path(f"{name}{_FOLDER}")
    try:
        with convert_storage_errors(note):
            try_flock(descriptor)
            os.write(descriptor, _NOTE)
            folder.mkdir()
            index = PrivateIndex(root, folder, shared, note)
            index.refresh()
        yield index
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        note.unlink(missing_ok=True)  # after the folder, because a folder without a note has no owner
        os.close(descriptor)


def end_killed_commits(root: Path) -> None:
    """Remove the remains of our killed commits in ``.git``."""
    if found := _find_index(root):
        _sweep(root, *found)


def _find_index(root: Path) -> tuple[Path, Path] | None:
    """Return git's folder and the user's index; None outside a git repository."""
    rows = ask(root, "rev-parse", "--absolute-git-dir", "--git-path", "index").lines
    return (Path(rows[0]), root / rows[1]) if len(rows) == 2 else None


def _sweep(root: Path, git_folder: Path, shared: Path) -> None:
    """Remove the locks, folders and notes of commits whose process was killed, once any git that it left running has
    ended."""
    _remove_dead(shared.with_name(f"{shared.name}.lock"))
    for note in git_folder.glob(f"{_PREFIX}*"):
        if note.name.endswith(_FOLDER):
            if not Path(str(note).removesuffix(_FOLDER)).exists():
                shutil.rmtree(note, ignore_errors=True)
            continue
        with contextlib.suppress(OSError), _lock_if_dead(note) as dead:
            if dead and _end_turn(root, Path(f"{note}{_FOLDER}")):
                shutil.rmtree(f"{note}{_FOLDER}", ignore_errors=True)
                note.unlink()


def _remove_dead(lock: Path) -> bool:
    """Remove a lock that is ours and whose maker has ended; return whether it was one."""
    try:
        with _lock_if_dead(lock) as dead:
            if dead:
                lock.unlink()
            return dead
    except OSError:
        return False


@contextlib.contextmanager
def _lock_if_dead(note: Path) -> Iterator[bool]:
    """Yield True for a note of ours without a flock, and lock it, so that only one process removes it. An incomplete
    note, as after a power failure, is recognised by its name or its beginning. Raises OSError if there is none."""
    descriptor = os.open(note, _READ_NOTE)
    try:
        said, age = os.read(descriptor, len(_NOTE) + 1), time.time() - os.fstat(descriptor).st_mtime
        begun = note.name.startswith(_PREFIX) or (said != b"" and _NOTE.startswith(said))
        # Never lock a young one: its maker may not have locked it yet, and could no longer do so.
        ours = said == _NOTE or (begun and age > _YOUNG)
        yield ours and try_flock(descriptor) and os.path.samestat(note.lstat(), os.fstat(descriptor))
    finally:
        os.close(descriptor)


def refuse_disk(said: str, folder: Path, named: Path) -> None:
    """Raise RepositoryError for ``named`` if the disk of ``folder`` refuses access. Git reports a full disk when it
    writes objects, but gives no reason if it cannot write an index or a new repository; the disk is then checked
    here."""
    try:
        if "Out of diskspace" in said:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if any(words in said for words in _OF_A_WRITE):
            with tempfile.TemporaryFile(dir=folder) as probe:
                probe.write(bytes(1 << 16))
                probe.flush()
                os.fsync(probe.fileno())
    except OSError as error:
        refused = explain_storage_error(OSError(error.errno, error.strerror), named)
        raise RepositoryError(refused.message, fix=refused.fix) from error
