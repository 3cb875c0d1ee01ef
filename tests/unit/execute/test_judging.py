"""What the result of a judged compliance test says, on logs that the real LoadGen made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.contract import Result
from reconciler.execute.attempt import Intent, create
from reconciler.execute.child import Watch
from reconciler.execute.executors.table import Executors
from reconciler.execute.judging import judge_attempt
from reconciler.files import RepositoryPaths
from reconciler.resource.kinds import Address, Kind
from tests.shared import make_once, need
from tests.unit.mlperf.compliance.cases import CASES
from tests.unit.mlperf.compliance.runs import ANSWERS, make_all

CELL = "closed/box/resnet50/Offline"
KNOWN = {"reasons": ["an answer differs"], "figures": {"answers that differ": "1"}}


@pytest.fixture
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("mlperf_loadgen")
    return make_once(tmp_path_factory, "runs", make_all)


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
    judge_attempt(attempt, paths, Watch(lambda _: None), Executors.of(paths))
    return Result.read(attempt.result), {path.name: path.read_text() for path in attempt.output.iterdir()}


def test_a_test_that_passes_is_told_with_its_answers_and_their_figures(runs: Path, tmp_path: Path) -> None:
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
def test_answers_that_are_not_here_are_those_of_an_earlier_comparison(
    runs: Path, tmp_path: Path, lost: tuple[str, ...]
) -> None:
    """No scorer is asked of answers that nobody has, though they differ."""
    values = judge(runs, tmp_path, "TEST01-equal", *lost, known=KNOWN)[0].values
    assert (values["answers"], values["answers_taken_over"]) == (KNOWN, True)
    assert values["passed"] is False


@pytest.mark.parametrize("lost", ["accuracy", "audit"])
def test_answers_that_nobody_has_or_compared_are_asked_for(runs: Path, tmp_path: Path, lost: str) -> None:
    result, files = judge(runs, tmp_path, "TEST01-equal", lost)
    assert (result.done, result.problem_class, result.values, files) == (False, "missing", {}, {})
    assert result.seconds == 0.0
    assert result.problem == f"the whole accuracy log of the {lost} run is not here"
    assert result.fix == (
        "judge it where that run was made, or copy .reconcile/objects from there; a recorded verdict stays valid"
    )


def test_a_question_that_cannot_be_asked_is_a_problem_of_its_input(runs: Path, tmp_path: Path) -> None:
    attempt = create(
        tmp_path,
        Intent(
            "2026-1",
            Address(Kind.VERDICT, f"{CELL}/TEST99"),
            "0" * 64,
            1,
            "2026",
            {"test": ("TEST01", "")},
            response_dtype="float128",
        ),
    )
    (case,) = [case for case in CASES if case.id == "TEST01-equal"]
    case.lay_out(runs, tmp_path / "logs")
    attempt.inputs.mkdir(parents=True, exist_ok=True)
    for run, place in (("audit", "audit"), ("accuracy", "accuracy"), ("performance", "performance/run_1")):
        (tmp_path / "logs" / place).rename(attempt.inputs / run)
        (attempt.inputs / run / ANSWERS).write_text("[\nno answers\n]\n")
    paths = RepositoryPaths(tmp_path)
    judge_attempt(attempt, paths, Watch(lambda _: None), Executors.of(paths))
    result = Result.read(attempt.result)
    assert (result.done, result.seconds, result.problem_class) == (False, 0.0, "input")
    assert result.fix == "repeat the run whose log this is: reconcile apply --rerun cell=…"
    assert result.problem
    assert list(attempt.output.iterdir()) == []
