"""A spec that applies only when it is named, next to one that always does: every command reads the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Reconcile, commit, git

APART = "specs/apart.yaml"


@pytest.fixture
def both(recorded: Path) -> Path:
    """All of one.yaml is recorded and committed; the other asks for more of the same cell."""
    text = (recorded / "specs/one.yaml").read_text()
    edited = text.replace("spec:", "only_when_named: true\nspec:", 1).replace("target_qps: 1000", "target_qps: 2000")
    assert edited.count("2000") == 1
    (recorded / APART).write_text(edited)
    commit(recorded, "Add a spec of its own")
    return recorded


def steps(reconcile: Reconcile, *arguments: str) -> set[str]:
    code, out, err = reconcile("plan", "--json", *arguments)
    found = {step["address"] for step in json.loads(out)["steps"]}
    assert code == (2 if found else 0), err
    return found


@pytest.mark.usefixtures("both")
def test_plan_without_names_leaves_it_out(reconcile: Reconcile) -> None:
    assert steps(reconcile) == set()
    assert "Run:open/box/digits/Offline/performance" in steps(reconcile, APART)


@pytest.mark.usefixtures("both")
def test_validate_says_what_it_left_out(reconcile: Reconcile) -> None:
    out = reconcile.succeed("validate")
    assert "Valid: specs/one.yaml (" in out
    assert f"Skipped, because they apply only when given by name: {APART}" in out
    assert "Left out" not in reconcile("validate", APART)[1]


def test_what_git_knows_is_judged_by_the_same_files(both: Path, reconcile: Reconcile) -> None:
    assert "2000" not in reconcile.succeed("pr", "--base", "HEAD~1")
    reconcile.succeed("audit")
    (both / APART).unlink()
    git(both, "commit", "--quiet", "--all", "--message", "Take it away")
    assert reconcile("pr", "--base", "HEAD~1")[0] == 0
