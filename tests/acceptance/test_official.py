"""A rehearsed submission before the official checkers and verification scripts, its mark removed on a copy.

``INFERENCE_CHECKOUT`` names a checkout of mlcommons/inference of the newest round, ``REHEARSAL`` the folder of a
rehearsal that was carried out; without it one is, of three benchmarks, which takes minutes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.files import RepositoryPaths
from reconciler.mlperf.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.planning import Options, PlanResult, compute_plan
from reconciler.record.index import load_record
from reconciler.record.store import find_readable
from reconciler.resource.kinds import Cell
from reconciler.resource.records import REHEARSAL, Record
from reconciler.tree.check.engine import check_tree
from reconciler.tree.check.official import run_official
from tests.acceptance.conftest import console_process
from tests.shared import make_once, need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

REHEARSED = ("resnet50", "bert-99", "3d-unet-99")
SCRIPTS = ("TEST01", "TEST04")
# What a checker says of runs that are shorter, and datasets that are smaller, than the round asks for.
SHORT = re.compile(
    r"^$"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A compliance test that passed, and the runs that it compares, by the names of its inputs."""

    cell: Cell
    test: str
    verdict: Record
    runs: dict[str, Record]


@pytest.fixture(scope="session")
def checkout() -> Path:
    """Of the official repository."""
    need("yaml")
    named = os.environ.get("INFERENCE_CHECKOUT")
    if not named:
        pytest.skip("INFERENCE_CHECKOUT names no checkout of mlcommons/inference")
    return Path(named)


@pytest.fixture(scope="session")
def rehearsal(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> PlanResult:
    """After its pass."""
    named = os.environ.get("REHEARSAL")
    root = Path(named) if named else make_once(tmp_path_factory, "rehearsal", _rehearse)
    return compute_plan(RepositoryPaths(root), Options())


def _rehearse(folder: Path) -> Path:
    need("mlperf_loadgen", "onnxruntime", "onnx", "cv2", "tokenizers", "nibabel", "scipy")
    console_process(folder, "rehearse", ",".join(REHEARSED), "--output", "rehearsal")
    return folder / "rehearsal"


def unmark(tree: Path) -> None:
    """Without what says in each cell that it is a rehearsal."""
    for path in tree.rglob("*.json"):
        if f'"{REHEARSAL}"' in (text := path.read_text(encoding="utf-8")):
            document = json.loads(text)
            del document[REHEARSAL]
            path.write_text(json.dumps(document, indent=4) + "\n", encoding="utf-8")
    for path in tree.rglob("README.md"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not line.startswith("**Rehearsal**")), encoding="utf-8")


def list_verdicts(result: PlanResult) -> Iterator[Verdict]:
    for cell, chosen in result.difference.chosen.items():
        for test, identity in chosen.verdicts:
            if identity:
                verdict = load_record(result.paths, identity)
                runs = {name: load_record(result.paths, up) for name, up in verdict.upstream.items() if "Run/" in up or "Test/" in up}
                yield Verdict(cell, test, verdict, runs)


def lay_out(paths: RepositoryPaths, run: Record, folder: Path) -> None:
    """Its whole logs, as a harness leaves them."""
    folder.mkdir(parents=True)
    for artifact in run.artifacts:
        if artifact.name in (ACCURACY_LOG, DETAIL, SUMMARY):
            shutil.copyfile(find_readable(paths, artifact), folder / artifact.name)


def test_both_checkers_refuse_only_what_is_short(
    rehearsal: PlanResult, checkout: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(rehearsal.tree, tree)
    unmark(tree)
    report = check_tree(tree, round_name=rehearsal.desired.submission.round)
    assert not any(finding.rule.id == "measurements.rehearsal" for finding in report.findings)
    report = run_official(report, tree, checkout, "", tmp_path)
    assert [(run.name, run.crash) for run in report.official if run.crash] == []
    said = [finding for finding in report.findings if finding.rule.id.startswith("official.")]
    assert len(report.official) == 2
    assert [str(f.complaint.found) for f in said if not SHORT.search(str(f.complaint.found))] == []
    assert [text for run in report.official for text in run.said if not SHORT.search(text)] == []


def test_official_scripts_pass_what_passed_here(rehearsal: PlanResult, checkout: Path, tmp_path: Path) -> None:
    verdicts = [item for item in list_verdicts(rehearsal) if item.test in SCRIPTS]
    benchmarks = {item.cell.benchmark for item in verdicts}
    assert {"resnet", "bert-99", "3d-unet-99"} <= benchmarks, benchmarks
    failed = [item for number, item in enumerate(verdicts) if not passes(rehearsal.paths, item, checkout, tmp_path / str(number))]
    assert [f"{item.cell} {item.test}" for item in failed] == []


def passes(paths: RepositoryPaths, item: Verdict, checkout: Path, folder: Path) -> bool:
    """Whether the official script says so of the runs from which our verdict was made."""
    lay_out(paths, item.runs["performance"], folder / "results/performance/run_1")
    if "accuracy" in item.runs:
        lay_out(paths, item.runs["accuracy"], folder / "results/accuracy")
    lay_out(paths, item.runs["audit"], folder / "audit")
    script = next(checkout.glob(f"compliance/**/{item.test}/run_verification.py"))
    command = [sys.executable, str(script), "-r", "results", "-c", "audit", "-o", "out"]
    compared = item.verdict.values["figures"].get("accuracy.compared as", "")
    if compared:
        command += ["--dtype", compared.partition(",")[0]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    (folder / "said.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    verified = sorted((folder / "out").rglob("verify_*.txt"))
    return bool(verified) and all("TEST PASS" in path.read_text(encoding="utf-8") for path in verified)
