"""More points of a measured curve, as an edit of the spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.adopted import adopt_curve
from tests.unit.cli.conftest import Reconcile, git

CURVE = "standardized/box/vllm"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adopt_curve(tmp_path_factory.mktemp("curve"))


def test_the_patch_adds_points_and_only_these_are_to_be_measured(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.chdir(root)
    patch = tmp_path / "denser.patch"
    found = reconcile.report("densify", CURVE, "--count", "3", "-o", str(patch))
    added = found["points"]
    assert len(added) == 3
    assert found["patch"] == patch.read_text()
    (curve,) = reconcile.report("status")["curves"]
    assert set(curve["denser"]) <= set(added)
    assert not set(added) & set(curve["declared"])
    git(root, "apply", str(patch))
    try:
        declared = set(reconcile.report("status")["curves"][0]["declared"])
        assert declared == {*curve["declared"], *added}
        steps = [step["address"] for step in reconcile.report("plan")["steps"]]
        runs = [step for step in steps if step.startswith("Run:")]
        assert {run.split("/")[3] for run in runs} == {f"c{point}" for point in added}
    finally:
        git(root, "checkout", "--", "specs")


def test_without_a_name_the_only_curve_is_meant(
    root: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.chdir(root)
    said = reconcile.succeed("densify")
    assert said.startswith(f"2 more points for {CURVE} near its sharpest bends: ")
    assert "+++ b/specs/" in said
    assert f"name one of {CURVE}" in reconcile.refuse("densify", "standardized/box/other")


def test_no_more_points_are_proposed_than_the_rules_allow(
    root: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.chdir(root)
    found = reconcile.report("densify", "--count", "1000")
    assert 0 < len(found["points"]) <= 32 - 8
