"""`import` of an afternoon of runs: what a harness left in its build/logs, without a pass."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reconciler.execute.outcome import Status
from reconciler.resource.kinds import Kind
from tests.acceptance.conftest import console
from tests.passes.miniature import ADAPTED, with_miniature
from tests.passes.repository import Repository
from tests.shared import need

need("mlperf_loadgen")
CELL = "open/box/tiny/Offline"
RUN, ACCURACY, TEST = (f"Run:{CELL}/performance", f"Run:{CELL}/accuracy", f"ComplianceTest:{CELL}/TEST06")
LOGS = ("theirs/build/logs", "theirs/build/compliance_logs")
BELOW = "box/llama3_1-8b/Offline"
DETAIL = "mlperf_log_detail.txt"
SCORER = """\
print({"rouge1": 39, "rouge2": 16.2, "rougeL": 24.5, "rougeLsum": 36, "gen_len": 8200000, "gen_num": 16})
"""


def make(repository: Repository, folder: str, mode: str, *words: str) -> Path:
    """As a person starts a run; a test is not staged, after which the harness fails."""
    words = ("--benchmarks=llama3_1-8b", "--scenarios=Offline", f"--test_mode={mode}", "--accuracy_target=0.99", *words)
    command = ["make", "run_harness", f"LOG_DIR=build/logs/{folder}", f"RUN_ARGS={' '.join(words)}", "SYSTEM_NAME=box"]
    subprocess.run(command, cwd=repository.root / "theirs", capture_output=True, check="--audit_test" not in str(words))
    return repository.root / f"theirs/build/logs/{folder}/{BELOW}"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("afternoon")
    repository = with_miniature(root, "TEST06", official="llama3.1-8b", key="llama3_1-8b", spec=ADAPTED)
    repository.edit("theirs/main.py", "TOKENS = 0", "TOKENS = 5")
    repository.edit("theirs/main.py", 'Path("tuned", "last.json").write_text(str(time.time_ns()))\n', "")
    repository.write("theirs/score.py", SCORER)
    make(repository, "2026.01.01-13.00.00", "PerformanceOnly", "--offline_expected_qps=100")
    make(repository, "2026.01.01-13.10.00", "AccuracyOnly")
    make(repository, "2026.01.01-13.20.00", "PerformanceOnly", "--offline_expected_qps=100", "--audit_test=TEST06")
    return root


@pytest.fixture
def afternoon(made_once: Path, tmp_path: Path) -> Repository:
    return Repository(made_once).copy(tmp_path / "copy")


def taken(repository: Repository, *folders: str) -> tuple[int, dict[str, Any]]:
    said = console(repository.root, "import", *(folders or LOGS), "--json")
    return said.code, json.loads(said.out)


def refusals(found: dict[str, Any]) -> dict[str, str]:
    """Folder of the logs, from that of the time on → why."""
    return {
        str(Path(item["log"]).parent).partition("build/")[2]: f"{item['message']}\n{item['fix']}"
        for item in found["refused"]
    }


def steps(repository: Repository) -> list[str]:
    return [str(step.change.address) for step in repository.look().plan.steps]


def test_runs_tests_and_what_is_left(afternoon: Repository) -> None:
    code, found = taken(afternoon)
    (cell,) = found["cells"]
    assert (code, found["refused"], cell["missing"]) == (0, [], [])
    assert [record["address"] for record in cell["records"]] == [RUN, ACCURACY, TEST]
    assert cell["due"] == ["Score", "TEST06 verdict"]
    known = [{**record, "known": True} for record in cell["records"]]
    assert taken(afternoon)[1]["cells"][0]["records"] == known  # nothing new
    outcomes = afternoon.reconcile().outcomes
    kinds = {outcome.step.change.address.kind for outcome in outcomes}
    assert Kind.VERDICT in kinds
    assert not kinds & {Kind.RUN, Kind.COMPLIANCE_TEST}
    (verdict,) = afternoon.records_of(f"Verdict:{CELL}/TEST06").values()
    assert verdict.values["passed"] is True
    assert not steps(afternoon)


def test_a_pass_makes_only_what_is_missing(afternoon: Repository) -> None:
    shutil.rmtree(afternoon.root / "theirs/build/compliance_logs")
    code, found = taken(afternoon, LOGS[0])
    assert (code, found["cells"][0]["missing"]) == (0, ["TEST06"])
    (afternoon.root / "theirs/audit.config").unlink()  # as a pass asks
    outcomes = afternoon.reconcile().outcomes
    assert {outcome.message for outcome in outcomes if outcome.status is not Status.DONE} == set()
    made = [str(outcome.step.change.address) for outcome in outcomes]
    assert [name for name in made if name.startswith(("Run:", "ComplianceTest:"))] == [TEST]
    assert not steps(afternoon)


def test_a_declaration_covers_tests_too(afternoon: Repository) -> None:
    taken(afternoon)
    facts = [f"--declare={name}=as in the lab's book" for name in ("code", "dataset", "engine", "machine")]
    said = console(afternoon.root, "import", "--cell", CELL, *facts, "--json")
    unknown = {record["address"]: record["unknown"] for record in said.report["records"]}
    assert unknown == {RUN: [], ACCURACY: [], TEST: []}


def test_refusals_name_the_file_and_why(afternoon: Repository) -> None:
    build = afternoon.root / "theirs/build"
    first, accuracy = (build / f"logs/2026.01.01-13.{minute}.00/{BELOW}" for minute in ("00", "10"))
    other = make(afternoon, "wrong-rate", "PerformanceOnly", "--offline_expected_qps=50")
    ended = shutil.copytree(first, build / "logs/killed" / BELOW)
    text = (ended / DETAIL).read_text()
    (ended / DETAIL).write_text(text[: text.index("result_validity")])
    (shutil.copytree(first, build / "logs/lost" / BELOW) / "mlperf_log_summary.txt").unlink()
    shutil.copytree(first, build / "logs/elsewhere" / BELOW.replace("box", "H200_TRT"))
    shutil.copytree(first, build / "logs/another" / BELOW.replace("llama3_1-8b", "gptj-99"))
    shutil.copytree(first, build / "logs/moved" / BELOW.replace("Offline", "Server"))
    shutil.copytree(first, build / "compliance_logs/TEST01" / BELOW)
    swapped = shutil.copytree(accuracy, build / "logs/swapped" / BELOW / "performance/run_1")
    code, found = taken(afternoon)
    why = refusals(found)
    assert code == 2
    assert set(why) == {
        *(f"logs/{name}/{BELOW}" for name in ("killed", "lost", "wrong-rate")),
        f"logs/elsewhere/{BELOW.replace('box', 'H200_TRT')}",
        f"logs/another/{BELOW.replace('llama3_1-8b', 'gptj-99')}",
        f"logs/moved/{BELOW.replace('Offline', 'Server')}",
        f"logs/swapped/{BELOW}/performance/run_1",
        f"compliance_logs/TEST01/{BELOW}",
    }
    assert "target_qps: expected 100, LoadGen logged 50 (line " in why[f"logs/wrong-rate/{BELOW}"]
    texts = (swapped / DETAIL).read_text().splitlines()
    line = next(number for number, text in enumerate(texts, 1) if "effective_test_mode" in text)
    assert f"{swapped.relative_to(afternoon.root)}/{DETAIL}:{line}:" in why[f"logs/swapped/{BELOW}/performance/run_1"]
    assert (other / DETAIL).is_file()
    assert [record["address"] for record in found["cells"][0]["records"]] == [RUN, ACCURACY, TEST]


@pytest.mark.parametrize("folder", ["logs/2026.01.01-13.10.00", "compliance_logs/TEST06"])
def test_answers_that_are_cut_short_are_named(afternoon: Repository, folder: str) -> None:
    log = afternoon.root / "theirs/build" / folder / BELOW / "mlperf_log_accuracy.json"
    log.write_bytes(log.read_bytes()[:-100])
    code, found = taken(afternoon)
    (why,) = refusals(found).items()
    assert (code, why[0]) == (2, f"{folder}/{BELOW}")
    assert f"{log.name} is cut short" in why[1]


def test_a_test_that_is_another_runs_log(afternoon: Repository) -> None:
    """Its own scripts copy the logs of a test to where they are published; another cell's are none of it."""
    build = afternoon.root / "theirs/build"
    test = build / "compliance_logs/TEST06" / BELOW
    shutil.copytree(test, test / "TEST06/performance/run_1")
    cells = "bin: {tiny: {Offline: {target_qps: 100, min_query_count: 100, compliance: [TEST06]}}}"
    afternoon.edit("specs/spec.yaml", "    open:\n", f"    open:\n      {cells}\n")
    afternoon.edit(
        "specs/spec.yaml", "  systems:\n", "  systems:\n    bin: {category: datacenter, status: available}\n"
    )
    shutil.copytree(build / f"logs/2026.01.01-13.00.00/{BELOW}", build / "logs/later" / BELOW.replace("box", "bin"))
    code, found = taken(afternoon)
    assert code == 2
    (why,) = refusals(found).items()
    assert why[0] == f"logs/later/{BELOW.replace('box', 'bin')}"
    assert "2026.01.01-13.00.00" in why[1]
