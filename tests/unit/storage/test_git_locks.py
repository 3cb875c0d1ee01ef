"""Locks of refs that a git left which was killed while it moved the branch."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from reconciler.errors import RepositoryError
from reconciler.storage import git, git_index
from tests.unit.storage.test_git import committed, identity, root, run
from tests.unit.storage.test_git_index import ours, start_commit, write

__all__ = ["committed", "identity", "root"]

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
