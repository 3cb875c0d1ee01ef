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
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.check.official import run_official
from reconciler.loadgen.log_files import ACCURACY_LOG, DETAIL, SUMMARY
from reconciler.reconcile.planning import Options, PlanResult, compute_plan
from reconciler.record.index import load_record
from reconciler.record.store import find_readable
from reconciler.resource.kinds import Kind
from reconciler.resource.records import REHEARSAL, Ended, Record
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.files import RepositoryPaths
from reconciler.tree.findings import TreeReport
from tests.acceptance.conftest import console_process
from tests.shared import make_once, need

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

REHEARSED = ("resnet50", "bert-99", "3d-unet-99")
SCRIPTS = ("TEST01", "TEST04")
# What the checkers say of runs that are shorter, and datasets that are smaller, than the round asks for; and how they
# sum that up.
SHORT = re.compile(
    r"Test duration less(er)? than|accurcy run does not cover all dataset|(accuracy|performance)_sample_count, found"
    r"|minimum samples per query not met|accuracy not valid|has issues$|Some (performance|accuracy|compliance) checks?"
)
# The older checker counts a scenario only where it found nothing wrong with it.
UNCOUNTED = re.compile(r"results/(\S+) does not have all required scenarios")
# And of benchmarks that the round has no more, of which the newer one knows no numbers.
EARLIER = re.compile(r"has an invalid model|Execution occurred in running check")


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


def list_verdicts(result: PlanResult) -> Iterator[Record]:
    """Of the scripts' tests, whether they pass or fail, with the runs that they compare still recorded."""
    for address, summaries in result.recorded.by_address.items():
        if address.kind is Kind.VERDICT and address.part in SCRIPTS:
            yield from (load_record(result.paths, summary.id) for summary in summaries if summary.ended is Ended.DONE)


def lay_out(paths: RepositoryPaths, run: Record, folder: Path) -> None:
    """Its whole logs, as a harness leaves them."""
    folder.mkdir(parents=True)
    for artifact in run.artifacts:
        if artifact.name in (ACCURACY_LOG, DETAIL, SUMMARY):
            shutil.copyfile(find_readable(paths, artifact), folder / artifact.name)


def check_officially(tree: Path, round_name: str, checkout: Path, folder: Path) -> tuple[TreeReport, list[str]]:
    """What the official checkers say of a rehearsed tree, and of that what no short run explains."""
    entered = folder / "tree"
    shutil.copytree(tree, entered)
    unmark(entered)
    report = run_official(check_tree(entered, round_name=round_name), entered, checkout, "", folder)
    assert report.official
    assert not any(run.cause for run in report.official), "none has crashed"
    said = [finding.complaint.found for finding in report.findings if finding.rule.id.startswith("official.")]
    assert any(SHORT.search(text) for text in said)
    return report, [text for text in said if not SHORT.search(text) and not UNCOUNTED.search(text)]


def test_both_checkers_refuse_only_what_is_short(rehearsal: PlanResult, checkout: Path, tmp_path: Path) -> None:
    ruleset = load_ruleset(rehearsal.desired.submission.round)
    report, others = check_officially(rehearsal.tree, ruleset.round, checkout, tmp_path)
    assert [(run.name, run.verdict) for run in report.official] == [
        ("submission checker", "has errors"),
        ("older submission checker", "has errors"),
    ]
    entered = {path.name for path in rehearsal.tree.glob("*/*/results/*/*/") if path.is_dir()}
    earlier = re.compile("|".join(f"/{name}[/ ]" for name in entered if ruleset.find_benchmark(name) is None) or "$^")
    assert [text for text in others if not (earlier.search(text) and EARLIER.search(text))] == []


def test_every_required_scenario_and_the_code_of_each_benchmark_are_in_the_tree(rehearsal: PlanResult) -> None:
    """What the older checker does not count because it is short is there all the same."""
    report = check_tree(rehearsal.tree, round_name=rehearsal.desired.submission.round)
    rules = {finding.rule.id for finding in report.findings}
    assert rules.isdisjoint({"benchmark.scenarios", "submitter.source", "submitter.code", "submitter.calibration"})
    for source in rehearsal.tree.glob("*/*/src/*"):
        assert list(source.rglob("harness/verbs/run.py")), source
        assert (source / "REPRODUCE.md").is_file(), source


def test_official_scripts_judge_as_is_judged_here(rehearsal: PlanResult, checkout: Path, tmp_path: Path) -> None:
    verdicts = list(list_verdicts(rehearsal))
    assert {record.address.part for record in verdicts} == set(SCRIPTS)
    judged = {record.address.cell.benchmark for record in verdicts if record.address.cell is not None}
    assert {"resnet", "bert-99", "3d-unet-99"} <= judged
    differing = []
    for number, record in enumerate(verdicts):
        found = verify(rehearsal.paths, record, checkout, tmp_path / str(number))
        answers = record.values.get("answers", {}).get("reasons", [])
        here = {"verify_accuracy.txt": not answers, "verify_performance.txt": record.values["reasons"] == answers}
        if found != {name: here[name] for name in found}:
            differing.append(f"{record.address}: {record.values['reasons']}, {tmp_path / str(number)}")
    assert differing == []


def verify(paths: RepositoryPaths, verdict: Record, checkout: Path, folder: Path) -> dict[str, bool]:
    """File → whether the official script passes there the runs from which our verdict was made."""
    runs = {name: load_record(paths, identity) for name, identity in verdict.upstream.items()}
    lay_out(paths, runs["performance"], folder / "results/performance/run_1")
    if "accuracy" in runs:
        lay_out(paths, runs["accuracy"], folder / "results/accuracy")
    lay_out(paths, runs["audit"], folder / "audit")
    script = next(checkout.glob(f"compliance/**/{verdict.address.part}/run_verification.py"))
    command = [sys.executable, str(script), "-r", "results", "-c", "audit", "-o", "out"]
    if compared := verdict.values["figures"].get("accuracy.compared as", ""):
        command += ["--dtype", compared.partition(",")[0]]
    subprocess.run(command, cwd=folder, capture_output=True, check=False)
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("verify_*.txt")}
    assert texts, f"{folder}: the script left nothing"
    return {name: "TEST PASS" in text for name, text in texts.items()}
