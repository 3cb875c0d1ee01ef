"""Verdicts taken again from the logs of a small cell, against what its verify files say."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.tree.reading.view import CellView
from reconciler.verify.judging import find_disagreements, find_empty_tests, read_answers
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, log, say, small_cell

SPEED, ANSWERS, LOG = "verify_performance.txt", "verify_accuracy.txt", "mlperf_log_accuracy.json"
SCORE = "result_samples_per_second"


def logs(folder: str, score: float = 100, same: bool = False, validity: str = "VALID") -> dict[str, str]:
    """Both logs of an Offline run."""
    lines = [
        ("loadgen_version", "5.1 @ 0123456789"),
        ("effective_scenario", "Offline"),
        ("effective_test_mode", "PerformanceOnly"),
        ("effective_performance_issue_same", same),
        ("effective_performance_issue_unique", False),
        ("early_stopping_met", True),
        (SCORE, score),
        ("result_validity", validity),
    ]
    summary = f"Scenario : Offline\nMode : PerformanceOnly\nSamples per second: {score}\nResult is : {validity}\n"
    summary += (
        f"performance_issue_unique : 0\nperformance_issue_same : {int(same)}\nNo errors encountered during test.\n"
    )
    return {f"{folder}/{DETAIL}": log(*lines), f"{folder}/{SUMMARY}": summary}


def answers(values: Iterable[int]) -> str:
    return json.dumps([{"seq_id": n, "qsl_idx": n, "data": struct.pack("<i", a).hex()} for n, a in enumerate(values)])


def find_wrong(root: Path, files: Mapping[str, str], **options: Any) -> list[str]:
    return say(find_disagreements(small_cell(root, files, **options)))


PASSED = "reference score = 100\ntest score = 100\nTEST PASS\n"
GOOD = {**logs(RUN), **logs(f"TEST04/{RUN}", same=True), f"TEST04/{SPEED}": PASSED}


def test_a_failure_that_its_logs_deny_is_a_warning_at_its_line(tmp_path: Path) -> None:
    for number, (text, line) in enumerate((("x\n  TEST FAIL\n", ":2"), ("nothing\n", ""))):
        (said,) = find_wrong(tmp_path / str(number), {**GOOD, f"TEST04/{SPEED}": text})
        assert said == f"warning ./TEST04/{SPEED}{line}; mechanism: missing-verdict"


@pytest.mark.parametrize("missing", [f"{RUN}/{SUMMARY}", f"TEST04/{RUN}/{SUMMARY}", f"TEST04/{SPEED}"])
def test_no_one_judges_without_the_logs(tmp_path: Path, missing: str) -> None:
    wrong = {**GOOD, **logs(f"TEST04/{RUN}", 150, same=True)}
    assert find_wrong(tmp_path / "a", {path: text for path, text in wrong.items() if path != missing}) == []
    assert len(find_wrong(tmp_path / "b", wrong)) == 1


def test_the_two_runs_of_an_older_test_are_those_that_are_compared(tmp_path: Path) -> None:
    """Not the performance run, which is slower than both."""
    files = {**logs(RUN, 10), **logs(f"TEST04-A/{RUN}"), **logs(f"TEST04-B/{RUN}", 150, same=True)}
    files = {
        path: text.replace('issue_unique", "value": false', 'issue_unique", "value": true')
        for path, text in files.items()
    }
    files = {path: text.replace("issue_unique : 0", "issue_unique : 1") for path, text in files.items()}
    (said,) = find_wrong(tmp_path, {**files, f"TEST04-A/{SPEED}": "TEST PASS\n"})
    assert said == f"./TEST04-A/{SPEED}:1"
    alone = {path: text for path, text in files.items() if "TEST04-B" not in path}
    assert find_wrong(tmp_path / "alone", {**alone, f"TEST04-A/{SPEED}": "TEST PASS\n"}) == []


def answered(accuracy: str, test: str) -> dict[str, str]:
    files = {**logs(RUN), **logs("accuracy"), **logs(f"TEST01/{RUN}"), f"TEST01/{ANSWERS}": "TEST PASS\n"}
    return {**files, f"accuracy/{LOG}": accuracy, f"TEST01/accuracy/{LOG}": test}


def test_answers_are_looked_up_in_the_archive(tmp_path: Path) -> None:
    whole = answers([1, 2, 3])
    digest = hashlib.sha256(whole.encode()).hexdigest()
    (tmp_path / "original").write_text(whole)
    cut = {f"accuracy/{LOG}": "[\n\n...\n\n]", "accuracy/accuracy.txt": f"hash={digest.upper()}\n"}
    files = answered(whole, answers([1, 2, 700])) | cut

    def find(name: str) -> Path | None:
        return tmp_path / "original" if name == digest else None

    assert len(find_wrong(tmp_path / "a", files, original=find)) == 1
    assert find_wrong(tmp_path / "a", files, original=lambda _: None) == []

    def read(view: CellView) -> list[bytes] | None:
        given = read_answers(view, view.files.accuracy.folder)
        return None if given is None else [*given()]

    assert read(small_cell(tmp_path / "a", files, original=find)) == [whole.encode()]
    assert read(small_cell(tmp_path / "a", files)) is None
    hashless = {path: text for path, text in files.items() if not path.endswith(".txt")}
    assert read(small_cell(tmp_path / "b", hashless, original=find)) is None
    assert read(small_cell(tmp_path / "c", {f"accuracy/{LOG}": "[ 1,\n2 ]"})) == [b"[ 1,", b"2 ]"]


COMPLETE = (
    "First token check pass: Skipped\nEOS check pass: True\nSample length check pass: True\n"
    "TEST06 verification complete\n"
)


@pytest.mark.parametrize(
    ("text", "empty"), [("[\n]\n", True), ("[" + " " * 62 + "]", True), ("[" + " " * 63 + "]", False), (None, False)]
)
def test_a_pass_over_no_answers_is_reported_for_empty_logs(tmp_path: Path, text: str | None, empty: bool) -> None:
    files = {f"TEST06/{ANSWERS}": COMPLETE, **({f"TEST06/accuracy/{LOG}": text} if text is not None else {})}
    view = small_cell(tmp_path, files, official="llama3.1-8b")
    assert len(list(find_empty_tests(view))) == empty
    assert say(find_disagreements(view)) == []
