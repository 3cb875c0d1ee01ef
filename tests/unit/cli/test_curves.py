"""Commands on the folder of an Endpoints submission."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.cli.main import main
from tests.shared import need
from tests.unit.endpoints.tree.curves import make_curve, make_submission, write_submission
from tests.unit.endpoints.tree.mutations import edit_yaml


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_submission(tmp_path, make_submission(make_curve(dedicated=True)))


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


def test_check_names_failures_as_the_official_checker_does(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_yaml(root, "r5", target_cohort="2026")
    assert run("check", root) == 2
    said = capsys.readouterr().out
    assert "YYYY-MM-C0" in said
    assert "r5/point.yaml" in said


def test_a_point_edited_by_hand_contradicts_its_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify-tree", root) == 0
    edit_yaml(root, "r5", runtime_settings__min_duration_ms=600_000)
    assert run("verify-tree", root.parent) == 2
    assert "min_duration_ms" in capsys.readouterr().out


def test_curves_are_plotted_alone_and_next_to_others(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("vl_convert")
    assert run("plot", root, "-o", root / "curve.svg") == 0
    assert "7 points" in capsys.readouterr().out
    assert "Offline" in (root / "curve.svg").read_text()
    other = write_submission(root / "other", make_submission(make_curve()))
    assert run("plot", root, "-o", root / "both.svg", "--of", "ttft", "--with", other) == 0
    assert "box / gpt-oss-120b, points" in (root / "both.svg").read_text()


def test_a_plot_of_a_cell_is_none_of_a_curve(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plot", root, "-o", root / "a.svg", "--of", "latency") == 1
    assert "latency is a plot for cells" in capsys.readouterr().err
    assert run("plot", "bert", "-o", root / "a.svg", "--of", "pareto") == 1
    assert "name the folder of a submission" in capsys.readouterr().err
