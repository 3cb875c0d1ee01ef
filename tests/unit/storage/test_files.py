"""Writing, removing and locking; what killed writes left in folders of the user's."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.errors import LockedError, StorageError
from reconciler.storage import files, leftovers
from reconciler.storage.files import (
    Lock,
    RepositoryPaths,
    copy,
    link,
    offer,
    read_checked,
    remove,
    replace,
    try_flock,
    write_cache,
)
from reconciler.storage.leftovers import open_temporary, sweep, sweep_repository, sweep_siblings
from reconciler.storage.machine_locks import make_machine_lock
from tests.shared import hash_tree
from tests.unit.storage.test_untrusted_files import make_hole

shared = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("durable", [True, False])
def test_replace_leaves_the_new_bytes_and_nothing_else(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "deep" / "file"
    for data in (b"old", b"", b"new" * 1000):
        replace(path, data, durable=durable)
        assert path.read_bytes() == data
    assert names(path.parent) == ["file"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_refused_write_leaves_old_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    path = tmp_path / "file"
    replace(path, b"old")

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    source = tmp_path / "source"
    source.write_bytes(b"new")
    monkeypatch.setattr(os, call, refuse)
    for write in (lambda: replace(path, b"new"), lambda: copy(source, path), lambda: link(source, path)):
        with pytest.raises(StorageError, match=str(path)) as caught:
            write()
        assert caught.value.fix
        assert path.read_bytes() == b"old"
    monkeypatch.undo()
    sweep(tmp_path)
    assert names(tmp_path) == ["file", "source"]


@pytest.mark.parametrize("call", ["chmod", "replace"])
def test_a_link_refused_halfway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"new")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StorageError):
        link(source, tmp_path / "file")
    monkeypatch.undo()
    assert names(tmp_path) == ["source"]


def test_output_goes_into_a_pipe_and_does_not_replace_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    leftovers.write_output(pipe, b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1"])
def test_output_to_standard_output_by_its_name(tmp_path: Path, name: str) -> None:
    was = Path("/dev/stdout").readlink()
    code = (
        f"from pathlib import Path; from reconciler.storage.leftovers import *; write_output(Path({name!r}), b'text')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ended.stdout == b"text"
    kept = tmp_path / "kept"
    with kept.open("wb") as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert kept.read_bytes() == b"text"
    assert Path("/dev/stdout").readlink() == was


def test_what_a_killed_write_of_an_output_left_goes_with_the_next(tmp_path: Path) -> None:
    for name in (".plot.svg.a1b2c3.partial", ".other.svg.a1b2c3.partial"):
        (tmp_path / name).touch()
    leftovers.write_output(tmp_path / "plot.svg", b"text")
    assert names(tmp_path) == [".other.svg.a1b2c3.partial", "plot.svg"]


def test_output_that_cannot_be_written_is_the_users_to_fix(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file/plot.svg", Path("/proc/plot.svg")):
        with pytest.raises(StorageError, match="cannot write"):
            leftovers.write_output(path, b"text")


def test_link_copies_where_the_file_system_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    source, path = tmp_path / "source", tmp_path / "path"
    source.write_bytes(b"bytes")
    monkeypatch.setattr(os, "link", refuse)
    link(source, path)
    assert (path.read_bytes(), path.stat().st_nlink) == (b"bytes", 1)
    offer(source, tmp_path / "offered")
    assert (tmp_path / "offered").read_bytes() == b"bytes"


@shared
@given(data=st.binary(max_size=200), noise=st.binary(min_size=1, max_size=5), at=st.integers(0, 220))
def test_cache_gives_back_its_bytes_or_nothing(tmp_path: Path, data: bytes, noise: bytes, at: int) -> None:
    path = tmp_path / "cache"
    write_cache(path, data)
    assert read_checked(path) == data
    whole = path.read_bytes()
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    path.write_bytes(damaged)
    assert read_checked(path) == (data if damaged == whole else None)


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("/proc/kmsg"), make_hole],
    ids=["pipe", "device", "kernel", "hole"],
)
def test_cache_that_is_no_file_is_none(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "cache")
    assert read_checked(tmp_path / "cache") is None


def test_cache_that_cannot_be_kept_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    write_cache(tmp_path / "file" / "cache", b"data")
    assert read_checked(tmp_path / "file" / "cache") is None


def test_remove_takes_files_folders_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    for name in ("folder", "link", "never there"):
        remove(tmp_path / name)
    assert names(tmp_path) == ["target"]


def test_folder_is_renamed_before_any_of_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle, a removal leaves a leftover and no half of a folder."""
    (tmp_path / "attempt").mkdir()
    (tmp_path / "attempt" / "result.json").touch()
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    remove(tmp_path / "attempt")
    assert names(tmp_path) == [".attempt.gone"]
    monkeypatch.undo()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / ".x.partial").touch()
    (tmp_path / "kept" / "x.partial").touch()
    sweep(tmp_path)
    assert (names(tmp_path), names(tmp_path / "kept")) == (["kept"], ["x.partial"])


def test_digest_of_a_folder_is_of_names_and_bytes(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "weights").write_bytes(b"w")
    assert hash_tree(tmp_path / "one") == hash_tree(tmp_path / "two")
    (tmp_path / "two" / "inner" / "weights").rename(tmp_path / "two" / "inner" / "other")
    (tmp_path / "three" / "inner" / "weights").write_bytes(b"v")
    assert len({hash_tree(tmp_path / name) for name in ("one", "two", "three")}) == 3


def test_lock_is_owned_by_one_and_says_by_whom(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "pass"
    with Lock(path, purpose="a pass").acquire():
        with pytest.raises(LockedError, match=f"^a pass \\(held by process {os.getpid()}\\)$") as caught:
            Lock(path, purpose="a pass").acquire()
        assert caught.value.fix
    Lock(path, purpose="a pass").acquire().release()


def test_a_lock_that_was_waited_for_says_what_its_new_owner_took_it_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = Lock(path, purpose="a machine").acquire(note="the first run")
    threading.Timer(0.2, first.release).start()
    with Lock(path, purpose="a machine").acquire(wait=60, note="the second run"):
        with pytest.raises(LockedError) as caught:
            Lock(path, purpose="a machine").acquire()
        assert "the second run" in caught.value.message
        assert "the first run" not in caught.value.message


def _hold(path: Path, ready: object, seconds: float) -> None:
    with Lock(path, purpose="a pass").acquire():
        ready.set()  # type: ignore[attr-defined]
        time.sleep(seconds)


def test_lock_that_is_waited_for_comes_free(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "lock", ready, 1.0))
    holder.start()
    assert ready.wait(60)
    Lock(tmp_path / "lock", purpose="mine").acquire(wait=60).release()
    holder.join()


HOLD = """
import os, subprocess, sys
from pathlib import Path
from reconciler.storage.files import Lock
lock = Lock(Path(sys.argv[1]), purpose="a pass").acquire()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"], pass_fds=[lock.descriptor])
os.write(1, b"held")
os._exit(9)
"""


def test_lock_of_a_process_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    """Its child still has the lock; no one unlocks anything."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.read(4) == b"held"
    Lock(tmp_path / "lock", purpose="mine").acquire().release()
    holder.communicate()


def test_released_lock_that_a_child_still_has_is_waited_for(tmp_path: Path) -> None:
    """As in watch mode, where one process makes pass after pass."""
    with Lock(tmp_path / "lock", purpose="a pass").acquire() as lock:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.descriptor])
    assert files.find_lock_owner(tmp_path / "lock") == ""
    ending = threading.Timer(1.0, child.communicate, [b"\n"])
    ending.start()
    Lock(tmp_path / "lock", purpose="mine").acquire().release()
    ending.join()


def test_lock_that_a_leftover_holds_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_ORPHAN_GRACE", 0.0)
    path = tmp_path / "lock"
    code = HOLD.replace("sleep(1)", "sleep(600)").replace('b"held"', "str(child.pid).encode()")
    owner = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    owner.wait()
    left = int(os.read(owner.stdout.fileno(), 20))
    try:
        problem = f"mine: process {owner.pid}, a pass, has ended, but a process that it started still uses it"
        with pytest.raises(LockedError, match=problem) as caught:
            Lock(path, purpose="mine").acquire()
        assert f"fuser {path}" in caught.value.fix
    finally:
        os.kill(left, signal.SIGKILL)
        owner.communicate()


def test_machine_lock_is_open_to_every_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILE_LOCKS", str(tmp_path / "locks"))
    make_machine_lock("quiet").acquire().release()
    assert (tmp_path / "locks" / "quiet").stat().st_mode & 0o777 == 0o666
    assert (tmp_path / "locks").stat().st_mode & 0o7777 == 0o1777


def test_a_named_folder_of_locks_that_is_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "locks").write_text("")
    monkeypatch.setenv("RECONCILE_LOCKS", str(tmp_path / "locks"))
    with pytest.raises(StorageError, match="not a folder") as caught:
        make_machine_lock("quiet")
    assert "export RECONCILE_LOCKS=" in caught.value.fix


@pytest.mark.parametrize("trap", ["link", "dangling", "hard link", "pipe", "folder"])
def test_lock_that_somebody_replaced_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str) -> None:
    monkeypatch.setenv("RECONCILE_LOCKS", str(tmp_path / "locks"))
    (tmp_path / "locks").mkdir(mode=0o755)
    victim, lock = tmp_path / "victim", tmp_path / "locks/quiet"
    if trap != "dangling":
        victim.write_text("precious\n")
    if trap == "pipe":
        os.mkfifo(lock)
    elif trap == "folder":
        lock.mkdir()
    elif trap == "hard link":
        os.link(victim, lock)
    else:
        lock.symlink_to(victim)
    with pytest.raises(StorageError, match="not a lock"):
        make_machine_lock("quiet").acquire()
    assert not victim.exists() if trap == "dangling" else victim.read_text() == "precious\n"
    assert (tmp_path / "locks").stat().st_mode & 0o7777 == 0o755, "permissions of what was there are not ours to change"


@pytest.mark.parametrize("trap", ["link", "closed", "file"])
def test_a_replaced_folder_gives_way_to_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str) -> None:
    monkeypatch.delenv("RECONCILE_LOCKS")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    shared, private = tmp_path / "tmp/mlperf-reconciler-locks", tmp_path / "private"
    shared.parent.mkdir()
    private.mkdir(mode=0o700)
    if trap == "link":
        shared.symlink_to(private)
    elif trap == "closed":
        shared.mkdir(mode=0o700)
    else:
        shared.write_text("")
    with make_machine_lock("quiet").acquire() as lock:
        assert lock.path.parent.name == f"mlperf-reconciler-locks-{os.getuid()}"
        assert lock.path.parent.stat().st_mode & 0o7777 == 0o700
    assert private.stat().st_mode & 0o7777 == 0o700
    assert not list(private.iterdir())

    shared.with_name(f"{shared.name}-{os.getuid()}").chmod(0o777)
    with pytest.raises(StorageError, match="usable folder for this machine"):
        make_machine_lock("quiet")


def test_default_folder_of_locks_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECONCILE_LOCKS")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with make_machine_lock("quiet").acquire() as lock:
        assert lock.path == tmp_path / "mlperf-reconciler-locks/quiet"
        assert lock.path.parent.stat().st_mode & 0o7777 == 0o1777


def test_a_pipe_in_place_of_a_lock_is_not_waited_for(tmp_path: Path) -> None:
    """A copied repository may hold one."""
    os.mkfifo(tmp_path / "pass")
    assert files.find_lock_owner(tmp_path / "pass") == ""


def test_only_what_writes_of_this_file_left_goes(tmp_path: Path) -> None:
    ours = [tmp_path / f".sent[1].tar.gz{more}.x1y2.partial" for more in ("", ".MANIFEST.json", ".sha256")]
    others = [
        tmp_path / name for name in (".other.partial", ".sent[1].tar.gz.x1y2", "sent[1].tar.gz", ".sent1.partial")
    ]
    for path in [*ours, *others]:
        path.write_text("half")
    sweep_siblings(tmp_path / "sent[1].tar.gz")
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_what_is_being_written_stays(tmp_path: Path) -> None:
    path = tmp_path / ".packed.tar.gz.x1y2.partial"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    assert try_flock(descriptor)
    sweep_siblings(tmp_path / "packed.tar.gz")
    assert path.exists()
    os.close(descriptor)
    sweep_siblings(tmp_path / "packed.tar.gz")
    assert not path.exists()


def test_what_killed_commands_left_anywhere_in_a_repository_goes(tmp_path: Path) -> None:
    left = ("..gitignore.k2.partial", "specs/.one.yaml.k2.partial", "state/records/Run/.a.json.k2.partial")
    work = (
        "..gitignore.k2.partial",
        "index/.tree.json.k2.partial",
        "locks/.x.k2.partial",
        "scratch-k2/log",
        ".tree.gone/x",
    )
    kept = (".gitignore", "specs/one.yaml", "src/.mine.partial", ".reconcile/tree/.x.k2.partial", ".config.partial.txt")
    for name in (*left, *(f".reconcile/{name}" for name in work), *kept):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    sweep_repository(RepositoryPaths(tmp_path))
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == set(kept)


def test_temporary_folder_goes_at_its_end_and_what_a_killed_process_left_with_the_next(tmp_path: Path) -> None:
    killed, other = tmp_path / "mlperf-reconciler.pack-killed", tmp_path / "mlperf-reconciler-locks"
    for folder in (killed, other):
        folder.mkdir()
        (folder / "archive").write_text("secret\n")
    with open_temporary("pack", tmp_path) as outer:
        (outer / "archive").write_text("in use\n")
        with open_temporary("pack", tmp_path) as inner:
            assert {*tmp_path.iterdir()} == {outer, inner, other}
            assert (outer / "archive").read_text() == "in use\n"
    assert [*tmp_path.iterdir()] == [other]


def test_temporary_folder_that_is_being_made_stays_for_a_minute(tmp_path: Path) -> None:
    made = tmp_path / "mlperf-reconciler.pack-made"
    made.mkdir()
    for age, stays in ((5, True), (300, False)):
        os.utime(made, (time.time() - age,) * 2)
        with open_temporary("pack", tmp_path):
            assert made.exists() == stays


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_temporary_folder_of_another_user_is_left_alone(tmp_path: Path) -> None:
    theirs, link = tmp_path / "mlperf-reconciler.pack-theirs", tmp_path / "mlperf-reconciler.pack-link"
    kept = tmp_path / "kept"
    for folder in (theirs, kept):
        folder.mkdir()
        (folder / "archive").write_text("not ours\n")
    os.chown(theirs, 12345, 12345)
    link.symlink_to(kept)
    with open_temporary("pack", tmp_path):
        pass
    assert {*tmp_path.iterdir()} == {theirs, link, kept}
    assert (kept / "archive").exists()


@pytest.mark.parametrize("name", ["mlperf-reconciler.rescore-killed", "rerun-old", "rescore-old"])
def test_pass_removes_what_a_killed_audit_left(tmp_path: Path, name: str) -> None:
    """Also under the names of earlier versions."""
    paths = RepositoryPaths(tmp_path)
    left = paths.work / name
    (left / "tree").mkdir(parents=True)
    with open_temporary("rerun", paths.work) as retained:
        sweep_repository(paths)
        assert [*paths.work.iterdir()] == [retained]
