"""`objections` and `respond`: what is said to others, and what is shown to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.tree.check.written import TOKENS, open_cell

from .conftest import CELL, Reconcile, git
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


def test_objections_name_what_contradicts_itself_and_what_breaks_a_rule(
    contradicted: Path, tmp_path: Path, reconcile: Reconcile
) -> None:
    code, out, err = reconcile("objections", str(contradicted), "-o", str(tmp_path / "drafts"), "--by", "Other")
    assert (code, err) == (2, "")
    assert "1 draft" in out
    draft = (tmp_path / "drafts/Acme.md").read_text()
    assert "Tags: `by Other`, `against Acme`" in draft
    assert "## User.conf was written last by a compliance run" in draft
    assert "user.conf:1" in draft
    assert "open/Acme/src/llama3.1-8b" in draft
    assert "submission rules: source code" in draft


def test_nobody_objects_to_their_own_results(contradicted: Path, reconcile: Reconcile) -> None:
    assert reconcile("objections", str(contradicted), "--by", "Acme")[:2] == (0, "Nothing to object to.\n")
    assert reconcile("objections", str(contradicted), "--against", "Acme")[1].startswith("# Acme\n")
    code, _, err = reconcile("objections", str(contradicted), "--against", "Acne")
    assert (code, "Acne has no results in this tree" in err, "one of Acme" in err) == (1, True, True)


def test_a_response_holds_the_records_the_logs_and_what_the_audit_says(
    recorded: Path, tmp_path: Path, reconcile: Reconcile
) -> None:
    target = tmp_path / "answer"
    code, out, err = reconcile("respond", "digits", "-o", str(target), "--objection", "user.conf is *not* its own")
    assert (code, err) == (0, "")
    assert "the audit proves all of it" in out
    record = next((recorded / "state/records").glob("Run*/*performance*.json"), None)
    kept = (target / "performance/record.json").read_bytes()
    assert record is None or record.read_bytes() == kept
    assert json.loads(kept)["address"].endswith("/performance")
    assert (target / "performance/mlperf_log_detail.txt").stat().st_size
    text = (target / "README.md").read_text()
    assert r"> user.conf is \*not\* its own" in text
    assert "**proven** performance: metric" in text
    head, first = git(recorded, "rev-parse", "HEAD"), git(recorded, "rev-parse", "HEAD~1")
    assert f"in git since commit `{head[:12]}`" in text
    assert f"spec `specs/one.yaml` as of commit `{first[:12]}`" in text
    assert "specs/one.yaml:" in text
    code, _, err = reconcile("respond", "digits", "-o", str(target))
    assert (code, "is not empty" in err) == (1, True)


def test_a_response_says_what_the_commit_contradicts(recorded: Path, tmp_path: Path, reconcile: Reconcile) -> None:
    log = next(p for p in (recorded / "state/logs").iterdir() if b"Samples per second" in p.read_bytes()[:5000])
    log.write_bytes(log.read_bytes().replace(b"Samples", b"Sampled"))
    git(recorded, "commit", "--quiet", "--all", "--message", "Change a log")
    code, out, _ = reconcile("respond", CELL, "-o", str(tmp_path / "answer"))
    assert code == 2
    assert "not proven" in out
    assert "**contradicted**" in (tmp_path / "answer/README.md").read_text()
