"""What the result of a judged compliance test says, on logs that the real LoadGen made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.contract import Result
from reconciler.execute import perform
from reconciler.execute.attempt import Attempt, Intent, create
from reconciler.execute.child import Watch
from reconciler.execute.executors.table import Executors
from reconciler.execute.perform import judge_attempt
from reconciler.resource.kinds import Address, Kind
from reconciler.storage.files import RepositoryPaths
from tests.kept_logs import unpack
from tests.shared import make_once
from tests.unit.rules.compliance.cases import CASES
from tests.unit.rules.compliance.runs import ANSWERS

CELL = "closed/box/resnet50/Offline"
KNOWN = {"reasons": ["an answer differs"], "figures": {"answers that differ": "1"}}


@pytest.fixture
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "kept-compliance", partial(unpack, "compliance"))


def judge(
    runs: Path, tmp_path: Path, name: str, *lost: str, known: Mapping[str, Any] | None = None
) -> tuple[Result, dict[str, str]]:
    """With the files that it leaves. ``lost``: runs whose whole accuracy log is not here."""
    (case,) = [case for case in CASES if case.id == name]
    address = Address(Kind.VERDICT, f"{CELL}/{case.test}")
    inputs = {"test": (case.test, "")}
    attempt = create(
        tmp_path, Intent("2026-1", address, "0" * 64, 1, "2026", inputs, known_answers=known, response_dtype="int32")
    )
    case.lay_out(runs, tmp_path / "logs")
    attempt.inputs.mkdir(parents=True, exist_ok=True)
    for run, place in (("audit", "audit"), ("accuracy", "accuracy"), ("performance", "performance/run_1")):
        if (tmp_path / "logs" / place).exists():
            (tmp_path / "logs" / place).rename(attempt.inputs / run)
    for run in lost:
        (attempt.inputs / run / ANSWERS).unlink()
    paths = RepositoryPaths(tmp_path)
    judge_attempt(attempt, paths, Watch(lambda _: None), Executors.make(paths))
    return Result.read(attempt.result), {path.name: path.read_text() for path in attempt.output.iterdir()}


def test_a_test_that_passes_is_reported_with_its_answers_and_their_figures(runs: Path, tmp_path: Path) -> None:
    result, files = judge(runs, tmp_path, "TEST01-equal")
    assert (result.done, result.problem) == (True, "")
    values = result.values
    assert set(values) == {"passed", "reasons", "notes", "figures", "answers", "answers_taken_over"}
    assert (values["passed"], values["reasons"], values["answers_taken_over"]) == (True, [], False)
    assert values["answers"]["reasons"] == []
    assert values["answers"]["figures"]
    assert set(files) == {"verify_accuracy.txt", "verify_performance.txt"}
    assert all("TEST PASS" in text.splitlines() for text in files.values())


def test_a_test_that_fails_by_speed_alone_says_so_and_has_no_answers(runs: Path, tmp_path: Path) -> None:
    result, _ = judge(runs, tmp_path, "TEST04-offline-10-percent-faster")
    values = result.values
    assert set(values) == {"passed", "reasons", "notes", "figures", "by_speed"}
    assert (result.done, values["passed"], values["by_speed"], len(values["reasons"])) == (True, False, True, 1)


@pytest.mark.parametrize("lost", [("audit",), ("accuracy",), ("audit", "accuracy")], ids="+".join)
def test_absent_answers_are_of_an_earlier_comparison(runs: Path, tmp_path: Path, lost: tuple[str, ...]) -> None:
    """No scorer is asked of answers that no one has, though they differ."""
    values = judge(runs, tmp_path, "TEST01-equal", *lost, known=KNOWN)[0].values
    assert (values["answers"], values["answers_taken_over"]) == (KNOWN, True)
    assert values["passed"] is False


@pytest.mark.parametrize("lost", ["accuracy", "audit"])
def test_answers_that_no_one_has_or_compared_are_asked_for(runs: Path, tmp_path: Path, lost: str) -> None:
    result, files = judge(runs, tmp_path, "TEST01-equal", lost)
    assert (result.done, result.problem_class, result.values, files) == (False, "missing", {}, {})
    assert result.seconds == 0.0
    assert result.problem == f"the complete accuracy log of the {lost} run is not on this machine"
    assert result.fix == (
        "run this on the machine that made that run, or copy .reconcile/objects from it; recorded verdicts stay valid"
    )


class Scorer:
    """Says one thing of each log after another; ``asked``: of which, with the samples in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *results: Result | str) -> None:
        self.results, self.asked = list(results), list[tuple[str, str, list[int]]]()
        monkeypatch.setattr(perform, "run_child", self.run)

    def run(self, child: Attempt, request: Any, *_: object) -> Result:
        entries = json.loads(Path(request.accuracy_log).read_text())
        self.asked.append((child.folder.name, Path(request.accuracy_log).name, [e["qsl_idx"] for e in entries]))
        assert [e["seq_id"] for e in entries] == list(range(len(entries))) or child.folder.name != "baseline_accuracy"
        assert request.inputs == {"dataset": str(child.folder.parent / "inputs/dataset")}
        found = self.results.pop(0)
        if isinstance(found, Result):
            return found
        (child.output / "accuracy.txt").write_text(found)
        return Result(done=True, seconds=1.0)


def test_where_answers_differ_both_runs_are_scored(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = Scorer(monkeypatch, "accuracy=75.0%, good=3, total=4\n", "accuracy=50.0%, good=2, total=4\n")
    result, files = judge(runs, tmp_path, "TEST01-one-answer-differs")
    (first, baseline, of_baseline), (second, audit, of_audit) = scorer.asked
    assert (first, baseline) == ("baseline_accuracy", "baseline.json")
    assert (second, audit) == ("compliance_accuracy", "mlperf_log_accuracy.json")
    assert set(of_baseline) == set(of_audit)
    assert len(of_baseline) == len(set(of_baseline))
    assert (result.done, result.values["passed"], result.values["answers_taken_over"]) == (True, False, False)
    assert result.values["answers"]["reasons"]
    assert files["baseline_accuracy.txt"] == "accuracy=75.0%, good=3, total=4\n"
    assert files["compliance_accuracy.txt"] == "accuracy=50.0%, good=2, total=4\n"


@pytest.mark.parametrize("id_", ["TEST01-one-answer-differs", "TEST07-above"])
def test_a_failed_scorer_is_reported(id_: str, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Result(
        done=False, seconds=3.0, problem="no memory", problem_class="resources", fix="more", values={"log": "killed"}
    )
    scorer = Scorer(monkeypatch, failed)
    result, files = judge(runs, tmp_path, id_)
    ((_, log, _),) = scorer.asked
    assert result == Result(
        done=False,
        seconds=0.0,
        problem=f"the scorer failed on {log}: no memory",
        problem_class="resources",
        fix="more",
        values={"log": "killed"},
    )
    assert files == {}
