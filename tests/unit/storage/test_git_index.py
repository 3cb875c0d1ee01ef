"""Commits that are killed, or that meet the locks of another git: no one has to remove a file."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from reconciler.errors import RepositoryError
from reconciler.storage import git, git_index
from tests.unit.storage.test_git import committed, identity, root, run

__all__ = ["committed", "identity", "root"]

TOP = Path(__file__).parents[3]


def write(repository: Path, name: str) -> None:
    (repository / "state/records").mkdir(parents=True, exist_ok=True)
    (repository / "state/records" / name).write_text("{}\n")


def start_commit(repository: Path, before: str = "") -> subprocess.Popen[bytes]:
    """A commit of state/ in a process group of its own."""
    text = f"{before}\nfrom pathlib import Path\nfrom reconciler.storage import git\n"
    text += "git.commit(Path(), ['state'], 'Record')"
    return subprocess.Popen(
        [sys.executable, "-c", text], cwd=repository, env={**os.environ, "PYTHONPATH": str(TOP)}, start_new_session=True
    )


def ours(repository: Path) -> list[str]:
    return sorted(p.name for p in (repository / ".git").glob("reconcile-*"))


def test_lock_of_another_git_stays_and_stops_no_commit(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "_TURN", 0.1)
    lock = committed / ".git/index.lock"
    lock.touch()
    write(committed, "a.json")
    made = git.commit(committed, ["state"], "Record")
    assert made == run(committed, "rev-parse", "HEAD")
    assert run(committed, "show", "HEAD:state/records/a.json") == "{}"
    assert lock.exists()
    lock.unlink()
    assert git.commit(committed, ["state"], "Record") == ""
    assert run(committed, "status", "--porcelain") == ""
    assert ours(committed) == []


def test_branch_stays_while_a_git_waits(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor, released = tmp_path / "editor.sh", tmp_path / "released"
    editor.write_text(f'#!/bin/sh\nuntil [ -e "{released}" ]; do sleep 0.05; done\necho By hand > "$1"\n')
    editor.chmod(0o755)
    (committed / "specs/a.yaml").write_text("by: hand\n")
    by_hand = ["sh", "-c", "git commit --quiet --all; exit $?"]  # a child of ours would be no other git
    theirs = subprocess.Popen(by_hand, cwd=committed, env={**os.environ, "GIT_EDITOR": str(editor)})
    lock, give_up = committed / ".git/index.lock", time.monotonic() + 30
    while not lock.exists():
        assert time.monotonic() < give_up
        time.sleep(0.02)
    write(committed, "a.json")
    with monkeypatch.context() as patch:
        patch.setattr(git, "_TURN", 0.1)
        with pytest.raises(RepositoryError, match="another git process is using"):
            git.commit(committed, ["state"], "Record")
    threading.Timer(0.3, released.touch).start()
    made = git.commit(committed, ["state"], "Record")
    assert theirs.wait(30) == 0
    assert run(committed, "log", "--format=%s", "-2").splitlines() == ["Record", "By hand"]
    assert made == run(committed, "rev-parse", "HEAD")
    assert run(committed, "status", "--porcelain") == ""
    assert ours(committed) == []


def test_group_that_is_killed_at_any_instant_leaves_no_lock_behind(committed: Path) -> None:
    took = time.monotonic()
    write(committed, "first.json")
    assert start_commit(committed).wait() == 0
    took = time.monotonic() - took
    for number in range(8):
        write(committed, f"{number}.json")
        doomed = start_commit(committed)
        time.sleep(took * (number + 1) / 8)
        os.killpg(doomed.pid, signal.SIGKILL)
        doomed.wait()
        write(committed, f"{number}-more.json")
        assert git.commit(committed, ["state"], "Record") == run(committed, "rev-parse", "HEAD")
        assert run(committed, "status", "--porcelain") == ""
    # A note may have been made and not yet written when the kill came: it goes with a commit a minute later. A whole
    # one is left where the git of the last kill had not ended yet when the next commit began.
    for name in ours(committed):
        if not name.endswith(".folder"):
            os.utime(committed / ".git" / name, (0, 0))
    write(committed, "last.json")
    assert git.commit(committed, ["state"], "Record") == run(committed, "rev-parse", "HEAD")
    assert ours(committed) == []


OF_WRITES = (
    "fatal: Unable to write new index file",
    "error: failed to write new configuration",
    "fatal: update_ref failed for ref 'HEAD': couldn't set 'refs/heads/main'",
)


@pytest.mark.parametrize("said", OF_WRITES)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_silent_disk_is_asked(committed: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str) -> None:
    with git_index.open_private_index(committed) as index:
        assert index is not None
        git_index.refuse_disk(said, index.folder, index.root)

        def refuse(_: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(RepositoryError, match=re.escape(f"{os.strerror(number)} ({errno.errorcode[number]})")):
            git_index.refuse_disk(said, index.folder, index.root)
        git_index.refuse_disk("fatal: not a valid object name", index.folder, index.root)
        monkeypatch.undo()
    assert ours(committed) == []


@pytest.mark.parametrize("said", [b"", b"held by", bytes(26)], ids=["empty", "begun", "zeroed"])
def test_note_that_was_never_written_to_its_end_goes_a_minute_later(committed: Path, said: bytes) -> None:
    note, folder = committed / ".git/reconcile-commit-x", committed / ".git/reconcile-commit-x.folder"
    note.write_bytes(said)
    folder.mkdir()
    git.end_killed_commit(committed, ["state"])
    assert ours(committed) == [note.name, folder.name], "it may be one that is being written"
    os.utime(note, (0, 0))
    with note.open("rb") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        git.end_killed_commit(committed, ["state"])
        assert ours(committed) == [note.name, folder.name], "somebody works in it"
    git.end_killed_commit(committed, ["state"])
    assert ours(committed) == []


@pytest.mark.parametrize(
    ("said", "is_ours"), [(b"held by mlperf", True), (b"", False), (b"DIRC", False), (b"held by me\n", False)]
)
def test_an_unfinished_lock_goes_where_it_begins_like_ours(committed: Path, said: bytes, is_ours: bool) -> None:
    lock = committed / ".git/index.lock"
    lock.write_bytes(said)
    git.end_killed_commit(committed, ["state"])
    assert lock.exists()
    os.utime(lock, (0, 0))
    git.end_killed_commit(committed, ["state"])
    assert lock.exists() != is_ours


# Run by git while it holds the locks of HEAD and of the branch. $PPID is git, whose parent is the command.
KILLS_GIT = '[ "$1" = prepared ] && kill -9 $PPID'
KILLS_BOTH = '[ "$1" = prepared ] && kill -9 $(cut -d" " -f4 /proc/$PPID/stat) $PPID'
STAYS = '[ "$1" = prepared ] && echo $$ > standing && exec sleep 60'


def install(repository: Path, text: str) -> Path:
    hook = repository / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{text}\ntrue\n")
    hook.chmod(0o755)
    return hook


def list_locks(repository: Path) -> list[str]:
    """Without what a killed commit leaves in a folder of its own, or of what the name is never used again."""
    found = (path.relative_to(repository / ".git").as_posix() for path in (repository / ".git").rglob("*.lock"))
    return sorted(path for path in found if not path.startswith(("reconcile-commit-", "next-index-")))


def test_a_git_that_alone_is_killed_leaves_nothing_to_the_next_commit(committed: Path) -> None:
    hook = install(committed, KILLS_GIT)
    write(committed, "a.json")
    before = run(committed, "rev-parse", "HEAD")
    with pytest.raises(RepositoryError, match="it ended with -9"):
        git.commit(committed, ["state"], "Record")
    assert run(committed, "rev-parse", "HEAD") == before
    hook.unlink()
    assert git.commit(committed, ["state"], "Record") == run(committed, "rev-parse", "HEAD") != before
    assert (list_locks(committed), ours(committed)) == ([], [])


def test_locks_of_a_commit_that_was_killed_as_a_whole_go_with_the_next(committed: Path) -> None:
    hook = install(committed, KILLS_BOTH)
    write(committed, "a.json")
    assert start_commit(committed).wait() == -signal.SIGKILL
    assert list_locks(committed) == ["HEAD.lock", "refs/heads/main.lock"]
    hook.unlink()
    assert git.commit(committed, ["state"], "Record") == run(committed, "rev-parse", "HEAD")
    assert run(committed, "status", "--porcelain") == ""
    assert (list_locks(committed), ours(committed)) == ([], [])


def test_a_lock_that_was_there_before_is_somebody_elses(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = install(committed, KILLS_BOTH)
    write(committed, "a.json")
    assert start_commit(committed).wait() == -signal.SIGKILL
    hook.unlink()
    lock = committed / ".git/HEAD.lock"
    os.utime(lock, (time.time() - 3600,) * 2)
    monkeypatch.setattr(git, "_TURN", 0.2)
    with pytest.raises(RepositoryError, match=r"HEAD\.lock"):
        git.commit(committed, ["state"], "Record")
    assert list_locks(committed) == ["HEAD.lock"]


def test_a_lock_is_left_to_a_git_that_lives(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(committed, STAYS)
    write(committed, "a.json")
    doomed = start_commit(committed)
    give_up = time.monotonic() + 30
    while not (committed / "standing").exists() or not (committed / "standing").read_text():
        assert time.monotonic() < give_up
        time.sleep(0.02)
    doomed.kill()
    doomed.wait()
    monkeypatch.setattr(git, "_TURN", 0.2)
    with pytest.raises(RepositoryError, match=r"cannot lock ref"):
        git.commit(committed, ["state"], "Record")
    assert list_locks(committed) == ["HEAD.lock", "refs/heads/main.lock"]
    os.killpg(os.getpgid(int((committed / "standing").read_text())), signal.SIGTERM)


def test_a_process_that_cannot_be_seen_keeps_locks_and_stops_no_commit(tmp_path: Path) -> None:
    """Of another user: a daemon whose name begins with git, say."""
    (tmp_path / "comm").write_bytes(b"gitlab-runner\n")
    (tmp_path / "stat").mkdir()
    assert [git_index._works_in(tmp_path, [tmp_path], unseen=unseen) for unseen in (True, False)] == [True, False]
