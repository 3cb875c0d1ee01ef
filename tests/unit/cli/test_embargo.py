"""`reconcile embargo`, and a real `git push` that asks it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reconciler.storage import git as storage_git
from reconciler.storage import git_process

from .conftest import Reconcile, edit, git


@pytest.fixture
def remote(recorded: Path, tmp_path: Path) -> Path:
    path = tmp_path / "remote.git"
    git(recorded, "init", "--quiet", "--bare", str(path))
    git(recorded, "remote", "add", "origin", str(path))
    return path


def declare(root: Path, allow: str) -> None:
    edit(root, "  rehearsal: true\n", f"  rehearsal: true\n  embargo: {{until: 2999-01-01, allow: ['{allow}']}}\n")


def push(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "push", "--quiet", "origin", "main"], cwd=root, capture_output=True, text=True, check=False
    )


def test_a_push_by_hand_is_refused_until_the_spec_allows_it(recorded: Path, remote: Path, reconcile: Reconcile) -> None:
    declare(recorded, "git@git.acme.com:*")
    assert reconcile("embargo", "--install")[0] == 0
    refused = push(recorded)
    assert refused.returncode != 0
    assert f"embargo until 2999-01-01: {remote} is not among embargo.allow" in refused.stderr
    assert git(remote, "for-each-ref") == ""
    edit(recorded, "git@git.acme.com:*", f"{remote}")
    allowed = push(recorded)
    assert allowed.returncode == 0, allowed.stderr
    assert git(remote, "rev-parse", "main") == git(recorded, "rev-parse", "HEAD")


def test_the_hook_is_made_again_but_takes_no_one_elses_place(recorded: Path, reconcile: Reconcile) -> None:
    assert reconcile("embargo", "--install")[0] == 0
    assert reconcile("embargo", "--install")[0] == 0
    hook = recorded / ".git/hooks/pre-push"
    hook.write_text("#!/bin/sh\nexit 0\n")
    code, _, err = reconcile("embargo", "--install")
    assert (code, 'embargo "$2" || exit 1' in err) == (1, True)
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"


def test_embargo_says_where_results_may_go(recorded: Path, remote: Path, reconcile: Reconcile) -> None:
    assert "No embargo is declared" in reconcile("embargo")[1]
    declare(recorded, "git@git.acme.com:*")
    code, out, _ = reconcile("embargo")
    assert code == 0
    assert "results may go only to git@git.acme.com:*" in out
    assert f"origin {remote}: refused" in out
    assert reconcile("embargo", "https://git.acme.com/results.git")[0] == 0
    assert reconcile("embargo", "s3://bucket")[0] == 1
    assert [row["allowed"] for row in json.loads(reconcile("embargo", "--json")[1])["remotes"]] == [False]


def test_embargo_reads_the_address_that_pre_commit_gives(
    recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare(recorded, "git@git.acme.com:*")
    monkeypatch.setenv("PRE_COMMIT_REMOTE_URL", "git@github.com:acme/results.git")
    assert reconcile("embargo")[0] == 1


def test_a_failed_read_is_no_missing_one(recorded: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = [], storage_git.ask

    def ask_badly(root: Path, *words: str, **named: Any) -> git_process.GitAnswer:
        asked.append(words)
        failed = git_process.GitAnswer(128, b"", "fatal: not a git repository")
        return failed if len(asked) == 1 else answer(root, *words, **named)

    monkeypatch.setattr(storage_git, "ask", ask_badly)
    assert reconcile("embargo", "--install")[0] == 0
    assert (recorded / ".git/hooks/pre-push").exists()
