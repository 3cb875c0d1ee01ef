"""A disk or machine that refuses: an error with what, where and what to do; never a bug, and nothing half written."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from reconciler.cli.main import reconcile as main_command
from tests.shared import copy_folder
from tests.unit.cli.conftest import Reconcile, edit
from tests.warm.commands import run_command

READING = {"open": os, "scandir": os, "io.open": io}
WRITING = {"fsync": os, "replace": os, "mkdir": os, "link": os}
OF_MACHINE = ("EIO", "ESTALE", "EMFILE", "ENFILE", "ENOMEM")
CACHES = 5  # calls at the end of a pass: the flush of a note that is in place, and what keeps caches
OF_WRITES = ("ENOSPC", "EROFS", "EMFILE")  # of a file, of a file system, and of this process


class Fault:
    """From call number ``at`` on, what touches a repository is refused. Counts the calls."""

    def __init__(self, root: Path, name: str, at: int) -> None:
        self.root, self.number, self.at, self.count = root, getattr(errno, name), at, 0

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **named: Any) -> Any:
            if isinstance(path, int) or Path(os.fsdecode(path)).absolute().is_relative_to(self.root):
                self.count += 1
                if self.count >= self.at:
                    named_file = None if isinstance(path, int) else os.fspath(path)
                    raise OSError(self.number, os.strerror(self.number), named_file)
            return real(path, *arguments, **named)

        return call

    def install(self, patch: pytest.MonkeyPatch, calls: dict[str, Any]) -> None:
        for name, module in calls.items():
            attribute = name.rpartition(".")[2]
            patch.setattr(module, attribute, self.wrap(getattr(module, attribute)))


def leftovers(root: Path) -> list[str]:
    return sorted(str(p) for p in root.rglob("*") if p.name.endswith((".partial", ".gone")))


def strike(root: Path, reconcile: Reconcile, name: str, at: int, calls: dict[str, Any], *words: str) -> int:
    """Gives the number of calls; fails unless all went well or the refusal is reported as one."""
    fault = Fault(root, name, at)
    with pytest.MonkeyPatch.context() as patch:
        fault.install(patch, calls)
        code, out, err = reconcile(*words)
    assert code in (0, 1), out + err
    if code == 1:
        assert f"({name})" in err or os.strerror(fault.number) in err, err
        assert "fix:" in err, err
        assert "bug" not in err, err
    return fault.count


@pytest.mark.parametrize("name", OF_MACHINE)
def test_reading_that_fails_is_no_missing_record(recorded: Path, reconcile: Reconcile, name: str) -> None:
    shutil.rmtree(recorded / ".reconcile/index")
    calls = strike(recorded, reconcile, "EIO", 1 << 30, READING, "plan", "--deep")
    assert calls > 20
    for at in range(1, calls, max(1, calls // 8)):
        shutil.rmtree(recorded / ".reconcile/index", ignore_errors=True)
        strike(recorded, reconcile, name, at, READING, "plan", "--deep")
    assert reconcile("plan", "--deep")[0] == 0


def test_index_of_git_that_cannot_be_read_is_not_an_empty_one(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says whether somebody put into git what only this machine writes."""
    fault = Fault(recorded / ".git/index", "EIO", 1)
    monkeypatch.setattr(io, "open", fault.wrap(io.open))
    code, _, err = reconcile("status")
    assert (code, fault.count) == (1, 1)
    assert ".git/index: Input/output error (EIO)\nfix: " in err


@pytest.mark.parametrize(
    ("words", "name"),
    [("check sent", "EIO"), ("verify-tree sent", "EIO"), ("compare sent sent", "EIO"), ("compare sent sent", "EACCES")],
)
def test_folder_that_cannot_be_listed_is_not_empty(
    words: str, name: str, recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = recorded / "sent"
    shutil.copytree(recorded / ".reconcile/tree", sent)
    undisturbed = reconcile(*words.split())
    assert undisturbed[0] in (0, 2)
    fault = Fault(sent, name, 1 << 30)
    monkeypatch.setattr(os, "scandir", fault.wrap(os.scandir))
    assert reconcile(*words.split()) == undisturbed
    calls = fault.count
    assert calls > 5
    for fault.at in range(1, calls, max(1, calls // 6)):
        fault.count = 0
        code, out, err = reconcile(*words.split())
        assert (code, out) == (1, ""), f"refused from call {fault.at} of {calls} on"
        assert re.match(rf"error: cannot (read|use) ({sent}|sent)", err), err
        assert f"({name})\nfix: " in err


@pytest.mark.parametrize("name", OF_WRITES)
def test_writing_that_fails_leaves_nothing_half_written(recorded: Path, reconcile: Reconcile, name: str) -> None:
    tree = recorded / ".reconcile/tree"
    edit(recorded, "submitter: Tester", "submitter: Other")
    copy_folder(recorded, recorded.with_name("start"))
    calls = strike(recorded, reconcile, name, 1 << 30, WRITING)
    assert (tree / "open/Other").is_dir()
    for at in range(1, calls, max(1, calls // 6)):
        shutil.rmtree(recorded)
        copy_folder(recorded.with_name("start"), recorded)
        os.chdir(recorded)
        strike(recorded, reconcile, name, at, WRITING)
        due = 2 if at <= calls - CACHES else 0
        assert reconcile("plan")[0] == due, f"refused from call {at} of {calls} on"
        assert reconcile()[0] == 0
        assert reconcile("plan", "--deep")[0] == 0
        assert leftovers(recorded) == []


def test_first_rendering_that_a_full_disk_ends_is_noticed_at_once(recorded: Path, reconcile: Reconcile) -> None:
    shutil.rmtree(recorded / ".reconcile/tree")
    (recorded / ".reconcile/index/tree.json").unlink()
    assert reconcile("plan")[0] == 0, "a clone has no tree, and needs none"
    real = Fault(recorded, "ENOSPC", 1)

    def refuse(path: Any, target: Any) -> None:
        (real.wrap(os.rename) if ".reconcile/tree/" in os.fspath(target) else os.rename)(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        code, _, err = reconcile()
    assert (code, "No space left on device (ENOSPC)" in err, ".reconcile/tree/" in err) == (1, True, True), err
    code, out, _ = reconcile("plan")
    assert (code, "render" in out.lower()) == (2, True), out
    assert reconcile()[0] == 0
    assert reconcile("plan")[0] == 0


def test_an_answer_that_a_full_disk_ends_can_be_written_again(recorded: Path, reconcile: Reconcile) -> None:
    words, answer = ("respond", "digits", "-o", "answer"), recorded / "answer"
    calls = strike(recorded, reconcile, "ENOSPC", 1 << 30, WRITING, *words)
    shutil.rmtree(answer)
    for at in (1, calls // 2, calls):
        strike(recorded, reconcile, "ENOSPC", at, WRITING, *words)
        assert not answer.exists()
        assert leftovers(recorded) == []
    assert reconcile(*words)[0] == 0


@pytest.mark.parametrize("name", ["ENOLCK", "EIO", "ENOTSUP"])
def test_file_system_without_locks_is_not_a_lock_that_another_has(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    number = getattr(errno, name)

    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    code, _, err = reconcile()
    assert (code, "is running" in err) == (1, False)
    assert "locks/pass" in err
    assert "fix:" in err


def test_process_that_may_open_no_more_files(recorded: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = set()
    for limit in (5, 6, 8, 12):
        text = (
            f"import resource, sys; from reconciler.cli.main import main; "
            f"from reconciler.cli import pass_; import reconciler.storage.git; "
            f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {hard})); sys.exit(main([]))"
        )
        ended = console_python(text, recorded)
        seen.add(ended.returncode)
        assert ended.returncode in (0, 1), ended.stderr
        assert "bug" not in ended.stderr, ended.stderr
    assert 1 in seen
    assert run_command(["plan", "--deep"], recorded).returncode == 0


def walk_commands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if (below := command.get_command(context, name)) is not None:
                yield from walk_commands(below, (*words, name))


def list_given_paths() -> list[list[str]]:
    """The words of each command up to an argument or option that names what must be there."""
    found = []
    for words, command in walk_commands(main_command):
        for item in command.params:
            if isinstance(item.type, click.Path) and item.type.exists:
                found.append([*words, *(item.opts[-1:] if isinstance(item, click.Option) else [])])
    return found


def test_every_path_that_must_be_there_is_looked_at_in_the_same_way() -> None:
    assert len(list_given_paths()) > 15
    assert [
        w for w, c in walk_commands(main_command) for p in c.params if type(p.type) is click.Path and p.type.exists
    ] == []


@pytest.mark.parametrize("words", list_given_paths(), ids=" ".join)
def test_what_cannot_be_looked_at_is_not_called_absent(
    words: list[str], tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    real = Path.stat

    def refuse(path: Path, **named: bool) -> os.stat_result:
        if path.name == "given":
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        return real(path, **named)

    monkeypatch.setattr(Path, "stat", refuse)
    code, out, err = reconcile(*words, "given")
    assert (code, out) == (1, "")
    assert err == (
        "error: cannot read given: Stale file handle (ESTALE)\n"
        "fix: the file handle is stale: remount the file system, and run again\n"
    )


def test_paths_that_are_absent_closed_or_of_another_kind_are_distinguished(
    tmp_path: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("file").write_bytes(b"")
    assert "File 'none' does not exist" in reconcile("unpack", "none")[2]
    assert "File 'file/none' does not exist" in reconcile("unpack", "file/none")[2]
    assert "(ELOOP)" in reconcile("unpack", "loop")[2]
    assert "File '.' is a directory" in reconcile("unpack", ".")[2]
    assert "Directory 'file' is a file" in reconcile("-C", "file")[2]
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "cannot read file: Permission denied (EACCES)\nfix: make it readable" in reconcile("unpack", "file")[2]


def console_python(text: str, at: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-c", text], cwd=at, capture_output=True, text=True, timeout=120)


def test_a_full_output_is_not_a_full_repository(recorded: Path) -> None:
    edit(recorded, "batch_size: 8", "batch_size: 16")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-P", "-m", "reconciler.cli.main"]
        ended = subprocess.run(command, cwd=recorded, stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.startswith("error: cannot write to standard output: No space left on device (ENOSPC)\nfix: ")


def test_a_wrapped_refusal_is_no_bug(recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrap(*_: object) -> None:
        try:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        except OSError as error:
            raise ImportError("Failed to initialize") from error

    monkeypatch.setattr("reconciler.reconcile.run.ignore_work", wrap)
    err = reconcile.refuse()
    assert err.startswith("error: cannot go on: Too many open files (EMFILE); what it led to, ImportError: ")
    assert "ulimit -n" in err
    assert list((recorded / ".reconcile").glob("bug-*.txt"))


def test_machine_without_a_folder_for_temporary_files_is_reported_as_such(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.delenv("RECONCILE_LOCKS", raising=False)
    edit(recorded, "batch_size: 8", "batch_size: 16")
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.gettempdir", find_none)
        code, _, err = reconcile()
    assert code == 1, err
    assert "temporary files" in err
    assert "export TMPDIR=DIR" in err
    assert leftovers(recorded) == []
    assert reconcile("plan")[0] == 2
