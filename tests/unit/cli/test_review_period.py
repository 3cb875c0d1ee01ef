"""`objections` and `respond`; `embargo`, and a real `git push` that asks it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reconciler.storage import git as storage_git
from reconciler.storage import git_process
from tests.unit.check.written import TOKENS, open_cell

from .conftest import CELL, Reconcile, edit, git
from .test_trees import contradict


@pytest.fixture
def contradicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree whose user.conf is not its run's, and which has no code."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "tree"
    open_cell(root, "llama3.1-8b", "Server", TOKENS)
    contradict(root)
    (root / "open/Acme/src/llama3.1-8b/run.py").unlink()
    return root


def test_objections_name_contradictions_and_breaches(contradicted: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    code, out, err = reconcile("objections", str(contradicted), "-o", str(tmp_path / "drafts"), "--by", "Other")
    assert (code, err) == (2, "")
    assert "1 draft" in out
    draft = (tmp_path / "drafts/Acme.md").read_text()
    assert "Tags: `by Other`, `against Acme`" in draft
    assert "## user.conf does not match the run" in draft
    assert "user.conf:1" in draft
    assert "open/Acme/src/llama3.1-8b" in draft
    assert "the code is not only documents" in draft
    assert "(`submitter.code`): no code, documents only in" in draft
    assert "Rule: submission rules: source code. " in draft


def test_our_own_rules_blame_no_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "tree"
    open_cell(root, "llama3.1-8b", "Server", TOKENS)
    (first,) = root.glob("**/performance/run_1")
    shutil.copytree(first, first.with_name("run_2"))
    assert "files.runs" in reconcile("check", str(root), "--json")[1]
    assert "run_2" not in reconcile("objections", str(root))[1]


def test_no_one_objects_to_their_own_results(contradicted: Path, reconcile: Reconcile) -> None:
    assert reconcile("objections", str(contradicted), "--by", "Acme")[:2] == (0, "Nothing to object to.\n")
    assert reconcile("objections", str(contradicted), "--against", "Acme")[1].startswith("# Acme\n")
    code, _, err = reconcile("objections", str(contradicted), "--against", "Acne")
    assert (code, "Acne has no results in this tree" in err, "one of Acme" in err) == (1, True, True)


def test_a_response_holds_records_logs_and_audit(recorded: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    target = tmp_path / "answer"
    code, out, err = reconcile("respond", "digits", "-o", str(target), "--objection", "user.conf is *not* its own")
    assert (code, err) == (0, "")
    assert "the audit proves all of it" in out
    record = next((recorded / "state/records").glob("Run*/*performance*.json"), None)
    kept = (target / "performance/record.json").read_bytes()
    assert record is None or record.read_bytes() == kept
    assert json.loads(kept)["address"].endswith("/performance")
    assert (target / "performance/mlperf_log_detail.txt").stat().st_size
    score = json.loads((target / "score/record.json").read_bytes())
    assert score["address"].startswith("Score:")
    text = (target / "README.md").read_text()
    assert r"> user.conf is \*not\* its own" in text
    assert "**proven** performance: metric" in text
    head, first = git(recorded, "rev-parse", "HEAD"), git(recorded, "rev-parse", "HEAD~1")
    assert f"in git since commit `{head[:12]}`" in text
    assert f"spec `specs/one.yaml` as of commit `{first[:12]}`" in text
    assert "specs/one.yaml:" in text
    assert "is not empty" in reconcile.refuse("respond", "digits", "-o", str(target))


def test_a_response_says_what_the_commit_contradicts(recorded: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    log = next(p for p in (recorded / "state/logs").iterdir() if b"Samples per second" in p.read_bytes()[:5000])
    log.write_bytes(log.read_bytes().replace(b"Samples", b"Sampled"))
    git(recorded, "commit", "--quiet", "--all", "--message", "Change a log")
    code, out, _ = reconcile("respond", CELL, "-o", str(tmp_path / "answer"))
    assert code == 2
    assert "not proven" in out
    assert "**contradicted**" in (tmp_path / "answer/README.md").read_text()


def test_a_response_leaves_out_what_the_commit_lost(recorded: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    for record in (recorded / "state/records/Score").glob("*.json"):
        record.unlink()
    git(recorded, "commit", "--quiet", "--all", "--message", "Lose a score")
    code, _, err = reconcile("respond", CELL, "-o", str(tmp_path / "answer"))
    assert (code, err) == (2, "")
    assert (tmp_path / "answer/accuracy/record.json").is_file()
    assert not (tmp_path / "answer/score").exists()
    assert "**missing** result" in (tmp_path / "answer/README.md").read_text()


AMEND = (
    "amend",
    "digits",
    "--objection",
    "https://review.example/42",
    "--reason",
    "the batch was not declared",
    "--since",
)


def correct(root: Path, reconcile: Reconcile) -> str:
    """The result again with another batch size; gives the commit that was submitted."""
    submitted = git(root, "rev-parse", "HEAD")
    edit(root, "batch_size: 8", "batch_size: 16", "Declare the batch")
    assert reconcile("--commit")[0] == 0
    return submitted


def test_an_amendment_says_what_differs_and_for_which_objection(recorded: Path, reconcile: Reconcile) -> None:
    submitted = correct(recorded, reconcile)
    code, out, err = reconcile(*AMEND, submitted[:10], "--commit")
    assert (code, err) == (0, "")
    assert "engine.batch_size: 8 → 16" in out
    assert "Repeated: performance, accuracy, score" in out
    (path,) = (recorded / "state/amended").iterdir()
    found = json.loads(path.read_text())
    assert (found["cell"], found["commit"], found["objection"]) == (CELL, submitted, "https://review.example/42")
    assert git(recorded, "log", "-1", "--format=%s") == f"Amend {CELL}"
    assert "the batch was not declared" in reconcile("amend", "--list")[1]
    assert reconcile("plan")[0] == 0, "it changes nothing of what is due"
    path.write_text(path.read_text().replace("42", "43"))
    assert "was changed after it was written" in reconcile("plan")[1]


def test_another_description_of_the_system_needs_an_amendment(recorded: Path, reconcile: Reconcile) -> None:
    def find_unexplained() -> list[str]:
        report = reconcile.report("package", "--amends", submitted)
        return [item["where"] for item in report["refused"] if "without an amendment" in item["reason"]]

    submitted = git(recorded, "rev-parse", "HEAD")
    edit(recorded, "hardware: {count: 0}", "hardware: {count: 0}\n      description: {sw_notes: tuned}")
    git(recorded, "commit", "--quiet", "--all", "--message", "Describe the software")
    assert reconcile("--commit")[0] == 0
    assert CELL in find_unexplained()
    assert reconcile(*AMEND, submitted, "--commit")[0] == 0
    (path,) = (recorded / "state/amended").iterdir()
    found = json.loads(path.read_text())
    assert [name for name in found["inputs"] if name.endswith(".sw_notes")] == list(found["inputs"])
    assert found["repeated"] == []
    assert CELL not in find_unexplained()
    assert reconcile("apply", "--rerun", "digits", "--commit")[0] == 0
    assert "which is not a correction" in reconcile.refuse(*AMEND, submitted)


def test_what_is_no_correction_is_refused(recorded: Path, reconcile: Reconcile) -> None:
    head = git(recorded, "rev-parse", "HEAD")
    assert "is not amended" in reconcile(*AMEND, head)[2]
    assert "has no result in the submitted commit" in reconcile(*AMEND, "HEAD~1")[2]
    assert reconcile("apply", "--rerun", "digits", "--commit")[0] == 0
    assert "which is not a correction" in reconcile.refuse(*AMEND, head)
    edit(recorded, "batch_size: 8", "batch_size: 16")
    assert "it is not complete" in reconcile.refuse(*AMEND, head)
    assert reconcile("accept", "digits", "--reason", "the same")[0] == 0
    assert "accepted, not measured" in reconcile(*AMEND, head)[2]
    assert not (recorded / "state/amended").exists()


def test_a_corrected_submission_is_packed_only_with_its_amendments(recorded: Path, reconcile: Reconcile) -> None:
    """It is a rehearsal, which is refused for other reasons as well."""

    def refused(*more: str) -> list[str]:
        report = reconcile.report("package", *more)
        return [item["reason"] for item in report["refused"] if "amend" in item["reason"]]

    submitted = correct(recorded, reconcile)
    assert refused() == []
    assert refused("--amends", submitted) == ["it differs from the submission, without an amendment"]
    assert reconcile(*AMEND, submitted)[0] == 0
    assert refused("--amends", submitted) == ["the amendment is not committed"]
    git(recorded, "add", "state")
    git(recorded, "commit", "--quiet", "--message", "Amend")
    assert refused("--amends", submitted) == []


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
    assert 'embargo "$2" || exit 1' in reconcile.refuse("embargo", "--install")
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"


def test_embargo_says_where_results_may_go(recorded: Path, remote: Path, reconcile: Reconcile) -> None:
    assert "No embargo is declared" in reconcile("embargo")[1]
    declare(recorded, "git@git.acme.com:*")
    out = reconcile.succeed("embargo")
    assert "results may go only to git@git.acme.com:*" in out
    assert f"origin {remote}: refused" in out
    assert reconcile("embargo", "https://git.acme.com/results.git")[0] == 0
    assert reconcile("embargo", "s3://bucket")[0] == 1
    assert [row["allowed"] for row in reconcile.report("embargo")["remotes"]] == [False]


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
