"""Files of JSON that a child, a partner's scratch space or a killed pass may have left: what is none says nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import ReconcilerError, StorageError
from reconciler.execute import attempt
from reconciler.execute.executors.executor import read_handle
from reconciler.execute.executors.slurm.queue import read_member
from reconciler.fetch.fetch import read_listed
from reconciler.fetch.scratch import Scratch, read_note
from reconciler.observed.digest_cache import DigestCache
from reconciler.observed.pass_in_progress import find_pass_in_progress
from reconciler.plan.saved import load
from reconciler.storage.files import Lock, RepositoryPaths, hash_bytes, write_checked
from reconciler.storage.launch.audit_config_files import find_placed_by
from reconciler.verify.command import read_baseline

DEEP = b"[" * 200_000
STRANGE: dict[str, Callable[[Path], object]] = {
    "brackets": lambda path: path.write_bytes(DEEP),
    "a number beyond all": lambda path: path.write_bytes(b'{"name": "x", "index": 1e400, "size": 1e400}'),
    "digits": lambda path: path.write_bytes(b'{"name": "x", "index": %s, "size": 1}' % (b"9" * 5000)),
    "no UTF-8": lambda path: path.write_bytes(b"\xff\xfe"),
    "a list": lambda path: path.write_bytes(b"[1]"),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the intent of an attempt": ("attempt.json", attempt.read),
    "its handle": ("handle.json", read_handle),
    "its place in an array": ("array.json", read_member),
    "the configuration that it placed": ("request.json", find_placed_by),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("strange", STRANGE)
def test_a_folder_of_an_attempt_that_holds_anything_else_is_none(tmp_path: Path, reader: str, strange: str) -> None:
    name, read = READERS[reader]
    STRANGE[strange](tmp_path / name)
    assert read(tmp_path) is None


@pytest.mark.parametrize("strange", STRANGE)
def test_a_note_of_a_scratch_space_that_is_none_proves_nothing(tmp_path: Path, strange: str) -> None:
    scratch = Scratch(tmp_path, "a test")
    scratch.notes.mkdir(parents=True)
    STRANGE[strange](scratch.note(tmp_path / "data.bin"))
    assert read_note(scratch, tmp_path / "data.bin") is None


@pytest.mark.parametrize("strange", STRANGE)
def test_what_a_user_names_is_refused_by_its_name(tmp_path: Path, strange: str) -> None:
    path = tmp_path / "named.json"
    STRANGE[strange](path)
    with pytest.raises(StorageError, match=r"named\.json"):
        read_listed(path)
    for read in (load, read_baseline):
        with pytest.raises(ReconcilerError, match=r"named\.json"):
            read(path)


def test_lines_that_say_nothing_hide_no_others(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    paths.log.mkdir(parents=True)
    lines = DEEP + b'\n{"message": "planned", "steps": 1e400}\n[]\n{"message": "planned", "steps": 3}\n{"mess'
    (paths.log / f"20260101-{os.getpid()}.jsonl").write_bytes(lines)
    with Lock(paths.pass_lock, purpose="pass").acquire():
        found = find_pass_in_progress(paths)
    assert found is not None
    assert found.planned == 3


def test_a_cache_of_digests_that_is_none_is_made_again(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    write_checked(paths.index / "stamps.json", DEEP)
    (tmp_path / "file").write_bytes(b"x")
    assert DigestCache(paths).get_digest(str(tmp_path / "file"), 1, 1) == hash_bytes(b"x")
