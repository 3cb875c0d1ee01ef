"""A packed Endpoints submission, ready for MLCommons' own command line."""

from __future__ import annotations

import importlib.util
import itertools
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.adopted import adopt_curve
from tests.unit.cli.conftest import Reconcile, git

POINTS = (1, 2, 3, 5, 10, 25, 64, 192)
DECLARED = [word for name in ("code", "dataset", "engine", "machine") for word in ("--declare", f"{name}=known")]
MODEL = "runs/box/gpt-oss-120b"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adopt_curve(tmp_path_factory.mktemp("curve"), *DECLARED)


@pytest.fixture
def commands(root: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile) -> list[list[str]]:
    monkeypatch.chdir(root)
    return [shlex.split(command) for command in reconcile.report("package", ends=0)["registration"]]


def find_runs(commands: list[list[str]]) -> list[Path]:
    return [Path(words[4]) for words in commands if words[1:4] == ["runs", "create", "--path"]]


def test_each_run_is_laid_out_as_the_client_leaves_it(root: Path, commands: list[list[str]]) -> None:
    runs = find_runs(commands)
    assert [run.name for run in runs] == [f"r{point}" for point in POINTS]
    tree = root / ".reconcile/tree/ACME/pending-submission-id"
    for run in runs:
        point = tree / "results/box/gpt-oss-120b" / run.name
        moved = {"result_summary.json": "performance", "accuracy_results.json": "accuracy"}
        for file in point.iterdir():
            assert (run / moved.get(file.name, "") / file.name).read_bytes() == file.read_bytes()
        assert (run / "system_power.json").read_bytes() == (tree / "results/box/system_power.json").read_bytes()
        assert len([path for path in run.rglob("*") if path.is_file()]) == len(list(point.iterdir())) + 1


def test_the_submission_names_every_run_and_what_they_share(root: Path, commands: list[list[str]]) -> None:
    check, create = commands[0], commands[-1]
    assert check[1:] == ["check-submission", str(root / ".reconcile/tree/ACME")]
    assert create[1:3] == ["submissions", "create"]
    given = dict(zip(create[3::2], create[4::2], strict=True))
    assert (given["--division"], given["--availability"]) == ("standardized", "available")
    assert [each for before, each in itertools.pairwise(create) if before == "--run-ids"] == [
        f"ID-OF-r{point}" for point in POINTS
    ]
    assert (Path(given["--shared-src"]) / "vllm/README.md").is_file()
    assert (Path(given["--shared-docs"]) / "software_disclosure.md").is_file()


def test_a_point_that_is_not_packed_any_more_leaves_no_folder(
    root: Path, commands: list[list[str]], reconcile: Reconcile
) -> None:
    left = find_runs(commands)[0].parent / "r7/point.yaml"
    left.parent.mkdir()
    left.write_text("concurrency: 7\n")
    assert reconcile("package")[0] == 0
    assert not left.parent.exists()


def test_a_preview_under_embargo_names_both_days(
    root: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Reconcile
) -> None:
    monkeypatch.chdir(root)
    (spec,) = (root / "specs").glob("*.yaml")
    later = spec.read_text().replace("status: available", "status: preview")
    later = later.replace("availability_url:", "target_availability_date: 2999-03-01\n        availability_url:")
    later = later.replace("spec:\n", "spec:\n  embargo: {until: 2999-01-01}\n", 1)
    try:
        spec.write_text(later)
        assert reconcile()[0] == 0
        git(root, "commit", "--quiet", "--all", "--message", "Preview")
        said = reconcile.succeed("package", "--despite-embargo")
        assert "--availability preview --target-availability-date 2999-03-01 " in said
        assert "--embargo-date 2999-01-01T00:00:00Z" in said
    finally:
        git(root, "reset", "--quiet", "--hard", "HEAD~1")
        assert reconcile()[0] == 0


def test_mlcommons_own_command_line_reads_each_run(commands: list[list[str]]) -> None:
    if importlib.util.find_spec("endpoints_submission_cli") is None:
        pytest.skip("endpoints-submission-cli is not installed")
    for run in find_runs(commands):
        words = [sys.executable, "-m", "endpoints_submission_cli", "runs", "create", "--path", run, "--dry-run"]
        read = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
        assert read["point_config"]["concurrency"] == int(run.name[1:])
        assert read["system_power"]
