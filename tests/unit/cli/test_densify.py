"""More points of a measured curve, as an edit of the spec."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.cli.main import main
from tests.unit.cli.adopted import adopt_curve
from tests.unit.cli.conftest import git

CURVE = "standardized/box/vllm"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adopt_curve(tmp_path_factory.mktemp("curve"))


def read_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    capsys.readouterr()
    assert main([*words, "--json"]) in (0, 2)
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_patch_adds_points_and_only_these_are_to_be_measured(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    patch = tmp_path / "denser.patch"
    found = read_json(capsys, "densify", CURVE, "--count", "3", "-o", str(patch))
    added = found["points"]
    assert isinstance(added, list)
    assert len(added) == 3
    assert found["patch"] == patch.read_text()
    (curve,) = read_json(capsys, "status")["curves"]  # type: ignore[misc]
    assert set(curve["denser"]) <= set(added)
    assert not set(added) & set(curve["declared"])
    git(root, "apply", str(patch))
    try:
        declared = set(read_json(capsys, "status")["curves"][0]["declared"])  # type: ignore[index]
        assert declared == {*curve["declared"], *added}
        steps = [step["address"] for step in read_json(capsys, "plan")["steps"]]  # type: ignore[attr-defined]
        runs = [step for step in steps if step.startswith("Run:")]
        assert {run.split("/")[3] for run in runs} == {f"c{point}" for point in added}
    finally:
        git(root, "checkout", "--", "specs")


def test_without_a_name_the_only_curve_is_meant(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    assert main(["densify"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"2 more points for {CURVE} near its sharpest bends: ")
    assert "+++ b/specs/" in said
    assert main(["densify", "standardized/box/other"]) == 1
    assert f"name one of {CURVE}" in capsys.readouterr().err


def test_no_more_points_are_proposed_than_the_rules_allow(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root)
    found = read_json(capsys, "densify", "--count", "1000")
    assert isinstance(found["points"], list)
    assert 0 < len(found["points"]) <= 32 - 8
