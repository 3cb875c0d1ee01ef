"""What verify files and accuracy.txt state, line by line, against the logs next to them: cells of a few small files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reconciler.resource.rules import AppliedRule
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.view import CellView
from reconciler.verify.verdicts import (
    verify_counts,
    verify_one_hash,
    verify_scored_samples,
    verify_scores,
)
from tests.unit.tree.small_cells import DETAIL, RUN, Line, log, say, small_cell

SPEED, ANSWERS, TEXT = "verify_performance.txt", "verify_accuracy.txt", "accuracy.txt"
OFFLINE: Line = ("effective_scenario", "Offline")
SCORE = "result_samples_per_second"


def run_of(score: object, scenario: str = "Offline", key: str = SCORE, version: str = "5.1 @ 0123456789") -> str:
    """The score is on its third line."""
    return log(
        ("loadgen_version", version), ("effective_scenario", scenario), (key, score), ("early_stopping_met", True)
    )


def find_wrong(
    check: AppliedRule[CellView, Complaint], root: Path, files: dict[str, str], scenario: str = "Offline"
) -> list[str]:
    return say(check(small_cell(root, files, scenario=scenario)))


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("Reference score = 100", ""),
        ("reference score = 100.09", ""),
        ("Reference score = 99.9", ""),
        ("Reference score = 99.89", RUN),
        ("Reference score = 100.11", RUN),
        ("REFERENCE SCORE = 1e2", ""),
        ("  Reference score = 7, of 9  ", RUN),
        ("performance run: 100", ""),
        ("performance run: 7", RUN),
        ("performance run = 7", ""),
        ("reference score: 7", ""),
        ("the reference score = 7", ""),
        ("Test score = 200", ""),
        ("Test score = 100", f"TEST04/{RUN}"),
        ("audit run: 200", ""),
        ("audit run: 1.5e+3", f"TEST04/{RUN}"),
        ("audit run: 1.2.3", ""),
    ],
)
def test_scores_are_those_of_the_runs_that_are_published(tmp_path: Path, line: str, folder: str) -> None:
    files = {f"{RUN}/{DETAIL}": run_of(100), f"TEST04/{RUN}/{DETAIL}": run_of(200)}
    found = find_wrong(verify_scores, tmp_path, {**files, f"TEST04/{SPEED}": f"Verifying\n{line}\nTEST PASS\n"})
    assert found == ([f"./TEST04/{SPEED}:2; see ./{folder}/{DETAIL}:3"] if folder else [])


@pytest.mark.parametrize(
    ("scenario", "key", "agrees"),
    [
        ("SingleStream", "early_stopping_latency_ss", True),
        ("MultiStream", "early_stopping_latency_ms", True),
        ("Offline", SCORE, False),
    ],
)
def test_streams_state_their_score_also_as_a_rate(tmp_path: Path, scenario: str, key: str, agrees: bool) -> None:
    for number, (said, near) in enumerate(
        (("1000", True), ("1001", True), ("1001.1", False), ("999", True), ("998", False))
    ):
        files = {
            f"{RUN}/{DETAIL}": run_of(1_000_000, scenario, key),
            f"TEST04/{RUN}/{DETAIL}": run_of(0, scenario, key),
            f"TEST04/{SPEED}": f"reference score = {said}\n",
        }
        found = find_wrong(verify_scores, tmp_path / str(number), files, scenario)
        assert (not found) is (agrees and near), said


PASS = "TEST PASS\n"
COUNT, LIBRARY = "effective_accuracy_sample_count", "qsl_reported_total_count"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("found in the accuracy run: 9\ndiffering: 0\nTEST FAIL\n", "3"),
        ("num_perf_log_qsl_idx_match = 9\nnum_perf_log_data_mismatch = 0\nTEST FAIL\n", "3"),
        ("found in the accuracy run: 9\ndiffering: 0\n TEST FAIL: 1 of 9 differ\n", "3"),
        ("found in the accuracy run: 9\ndiffering: 1\nTEST FAIL\n", ""),
        ("found in the accuracy run: 0\ndiffering: 0\nTEST FAIL\n", ""),
        ("num_perf_log_data_mismatch = 0\nTEST FAIL\n", ""),
        ("found in the accuracy run: 9\ndiffering: 0\n", ""),
    ],
)
def test_a_failure_has_a_mismatch_or_nothing_to_compare(tmp_path: Path, text: str, said: str) -> None:
    found = find_wrong(verify_counts, tmp_path, {f"TEST01/{ANSWERS}": text})
    place = f"./TEST01/{ANSWERS}"
    assert found == ([f"{place}:{said}; see {place}:2"] if said else [])


def answered(scenario: str = "Offline", count: object = 100, group: object = 8, sets: int = 1) -> dict[str, str]:
    """The count is on the second line."""
    lines: list[Line] = [("effective_scenario", scenario), (COUNT, count), (LIBRARY, 7)]
    lines += [("effective_samples_per_query", group), *([("loaded_qsl_set", [])] * sets)]
    return {f"accuracy/{DETAIL}": log(*((key, value) for key, value in lines if value is not None))}


@pytest.mark.parametrize(
    ("text", "line", "scored"),
    [
        ("accuracy=7%, good=7, total=100\n", 0, 0),
        ("x\naccuracy=7%, good=7, total=99\n", 2, 99),
        ("'gen_num': 101,\n", 1, 101),
        ("queries=100, total=500\n", 0, 0),
        ("queries=99, total=100\n", 1, 99),
        ("'gen_num': 100, total=7\n", 0, 0),
        ("subtotal=7 myqueries=8\n", 0, 0),
        (f"total={'9' * 20}\n", 0, 0),
        (f"total={'9' * 19}\n", 1, int("9" * 19)),
    ],
)
def test_a_score_is_over_the_samples_of_its_run(tmp_path: Path, text: str, line: int, scored: int) -> None:
    said = f"./accuracy/{TEXT}:{line}; see ./accuracy/{DETAIL}:2"
    files = {**answered(), f"accuracy/{TEXT}": text}
    assert find_wrong(verify_scored_samples, tmp_path / "a", files) == ([said] if line else [])
    assert not find_wrong(verify_scored_samples, tmp_path / "b", {f"accuracy/{TEXT}": text})
    assert not find_wrong(verify_scored_samples, tmp_path / "c", answered())
    assert not find_wrong(
        verify_scored_samples, tmp_path / "d", {f"accuracy/{DETAIL}": log(OFFLINE), f"accuracy/{TEXT}": text}
    )


ONE, OTHER = "ab" * 32, "cd" * 32
RESULT = '{"f1": 0.5}'  # whose hash one scorer writes as if it were the log's


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"hash={ONE}\n", None),
        (f"hash={ONE}\nhash={ONE.upper()}\n", None),
        (f"x\nhash= {ONE}\nhash={ONE}\nhash={OTHER}\nhash={'0' * 64}", (4, 2)),
        (f"hash={ONE}\n hash={OTHER}\n", None),
        (f"hash={ONE}\nhash={OTHER[:-1]}\n", None),
        (f"hash={ONE}\nhash={OTHER}0\n", None),
        ("none\n", None),
        (f"{RESULT}\nhash={hashlib.sha256(RESULT.encode()).hexdigest()}\nhash={ONE}\n", None),
        (f"{RESULT}\nhash={hashlib.sha256(RESULT.encode()).hexdigest()}\nhash={ONE}\nhash={OTHER}\n", (4, 3)),
    ],
)
def test_one_log_has_one_hash(tmp_path: Path, text: str, lines: tuple[int, int] | None) -> None:
    for folder in ("accuracy", "TEST01/accuracy"):
        place = f"./{folder}/{TEXT}"
        found = find_wrong(verify_one_hash, tmp_path / folder, {f"{folder}/{TEXT}": text})
        assert found == [f"{place}:{second}; see {place}:{first}" for second, first in ([lines] if lines else [])]
