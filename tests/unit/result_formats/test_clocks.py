"""A run whose machine's clock was set meanwhile: a real log whose dates were moved as that moves them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.execute.perform import TRANSIENT
from reconciler.mlperf.loadgen.log import parse_detail
from reconciler.mlperf.log_files import DETAIL, SUMMARY
from reconciler.mlperf.rules.context import RuleContext
from reconciler.mlperf.rules.values import AccuracyLogRule, Metric
from reconciler.result_formats import loadgen_logs
from reconciler.result_formats.format import RunFiles, Verdict
from tests.unit.mlperf.conftest import Run, loadgen_run
from tests.unit.mlperf.loadgen.lies import Edit, moved, times

__all__ = ["loadgen_run"]

Runs = Callable[[str], Run]
ASKED = {
    "scenario": "SingleStream",
    "mode": "performance",
    "model_key": "resnet50",
    "min_duration": 0,
    "min_query_count": 700,
    "target_latency": 1_000_000,
    "performance_sample_count": 256,
}
RULES = RuleContext(metric=Metric("result_90.00_percentile_latency_ns", "ms"), accuracy_log=AccuracyLogRule(0, 0, 0))
AHEAD = moved("power_end", seconds=30)
BACK = moved("power_end", seconds=-12)


def judge(run: Run, folder: Path, *edits: Edit, **said: Any) -> Verdict:
    detail = run.bytes("detail.txt").decode()
    for edit in edits:
        detail = edit(detail)
    (folder / DETAIL).write_text(detail)
    (folder / SUMMARY).write_bytes(run.bytes("summary.txt"))
    return loadgen_logs.judge_run(RunFiles(folder, ASKED, RULES, 60.0, said, folder / "user.conf", folder))


@pytest.fixture
def run(loadgen_run: Runs) -> Run:
    return loadgen_run("single-stream-slow")


def test_a_run_whose_dates_fit_is_believed_whatever_the_clock_did(run: Run, tmp_path: Path) -> None:
    assert judge(run, tmp_path).problem == ""
    assert judge(run, tmp_path, clock_set=0.5).values["clock_set"] == 0.5


@pytest.mark.parametrize(("edit", "seconds", "said"), [(AHEAD, 30.0, "forward by 30 s"), (BACK, -12.0, "back by 12 s")])
def test_a_clock_that_was_set_is_the_cause_and_may_be_over_the_next_time(
    edit: Edit, seconds: float, said: str, run: Run, tmp_path: Path
) -> None:
    verdict = judge(run, tmp_path, edit, clock_set=seconds)
    log = parse_detail((tmp_path / DETAIL).read_bytes())
    began, ended, counted = log.started, log.ended, log.index.ended_at
    assert began is not None
    assert ended is not None
    assert counted is not None
    lines = log.number("power_begin"), log.number("power_end")
    assert f"the machine's clock was set {said} while the run was on" in verdict.problem
    assert f"lasted {(ended - began).total_seconds():.6g} s (lines {lines[0]} and {lines[1]})" in verdict.problem
    assert f"its logger had run for {counted / 1000:.6g} s (line {lines[1]})" in verdict.problem
    assert "LoadGen's version" not in verdict.problem + verdict.fix
    assert verdict.values["contradictions"]
    assert verdict.problem_class in TRANSIENT


def test_dates_that_no_clock_explains_are_a_contradiction(run: Run, tmp_path: Path) -> None:
    verdict = judge(run, tmp_path, AHEAD)
    assert (verdict.problem_class, verdict.problem_class in TRANSIENT) == ("contradiction", False)
    assert "dates and its own clock contradict each other" in verdict.problem
    assert "did not run what was asked" not in verdict.problem


def test_a_clock_excuses_nothing_but_dates(run: Run, tmp_path: Path) -> None:
    verdict = judge(run, tmp_path, AHEAD, times("result_qps_without_loadgen_overhead", 2), clock_set=30.0)
    assert verdict.problem_class == "contradiction"
    assert "did not run what was asked" in verdict.problem


def complain(*texts: str) -> Edit:
    """ERROR lines before the last one, as LoadGen writes and counts them."""

    def edit(detail: str) -> str:
        counted = re.sub('("key": "num_errors", "value": )0', rf"\g<1>{len(texts)}", detail)
        assert counted != detail
        *before, last = counted.splitlines(keepends=True)
        error = last.replace('"is_error": false', '"is_error": true')
        lines = [
            re.sub('"key": "[^"]*", "value": [^,]*', f'"key": "error_runtime", "value": "{text}"', error, count=1)
            for text in texts
        ]
        return "".join([*before, *lines, last])

    return edit


APART = "PerfClock and system_clock differ by more than 1%! pc_sc_ratio: 0.947368"


@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_clocks_that_went_apart_are_the_cause_and_may_be_over_the_next_time(
    mode: str, run: Run, tmp_path: Path
) -> None:
    verdict = judge(run, tmp_path, complain(APART), mode=mode)
    line = run.bytes("detail.txt").count(b"\n")
    assert f"while the run was on: LoadGen says {APART} (line {line})" in verdict.problem
    assert "the run is repeated" in verdict.fix
    assert verdict.problem_class in TRANSIENT


def test_another_error_beside_it_is_not_excused(run: Run, tmp_path: Path) -> None:
    verdict = judge(run, tmp_path, complain(APART, "Multiple completions of one query"))
    assert (verdict.problem, verdict.values["validity"]) == ("", "INVALID")
    assert "and 1 more" in verdict.values["reasons"][-1]


def test_a_log_that_breaks_off_is_not_taken_for_one_of_a_changed_clock(run: Run, tmp_path: Path) -> None:
    def cut(detail: str) -> str:
        lines = complain(APART)(detail).splitlines(keepends=True)
        return "".join(line for line in lines if '"result_validity"' not in line)

    assert judge(run, tmp_path, cut).problem_class not in TRANSIENT
