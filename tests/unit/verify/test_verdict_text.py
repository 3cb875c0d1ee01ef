"""Two verdicts in one verify file, and a check of first tokens that was skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.verify.cell_rules import verify_one_verdict, verify_skipped
from tests.unit.tree.small_cells import DETAIL, RUN, log, say, small_cell

SPEED, ANSWERS = "verify_performance.txt", "verify_accuracy.txt"
CHECKS = "First token check pass: {}\nEOS check pass: True\nSample length check pass: True\n"


@pytest.mark.parametrize(
    ("test", "file", "text", "said"),
    [
        ("TEST04", SPEED, "TEST PASS\n", ""),
        ("TEST04", SPEED, "TEST PASS\nTEST PASS\n", ""),
        ("TEST04", SPEED, "TEST FAIL\n TEST FAIL: too slow\n", ""),
        ("TEST04", SPEED, "of TEST FAIL\nTEST PASS\n", ""),
        ("TEST04", SPEED, "TEST FAIL\nx\nTEST PASS\n", ":3; see {}:1"),
        ("TEST01", ANSWERS, "TEST PASS\nTEST FAIL: of 3\n", ":2; see {}:1"),
        ("TEST06", ANSWERS, CHECKS.format("True"), ""),
        ("TEST06", ANSWERS, CHECKS.format("False") + CHECKS.format("True"), ":4; see {}:1"),
        ("TEST06", "verify_output_len.txt", "TEST FAIL\nTEST PASS\n", ""),
    ],
)
def test_a_verify_file_has_one_verdict(tmp_path: Path, test: str, file: str, text: str, said: str) -> None:
    place = f"./{test}/{file}"
    wanted = [f"{place}{said.format(place)}"] if said else []
    assert say(verify_one_verdict(small_cell(tmp_path, {f"{test}/{file}": text}))) == wanted


@pytest.mark.parametrize(
    ("scenario", "ran", "verdict", "reported"),
    [
        ("Server", "Server", "Skipped", True),
        ("Interactive", "Server", "Skipped", True),
        ("SingleStream", "SingleStream", "Skipped", True),
        ("Server", "Server", "True", False),
        ("Offline", "Offline", "Skipped", False),
        ("Server", "Offline", "Skipped", False),
        ("Server", "", "Skipped", False),
    ],
)
def test_first_tokens_are_checked_where_a_run_reports_them(
    tmp_path: Path, scenario: str, ran: str, verdict: str, reported: bool
) -> None:
    files = {f"TEST06/{ANSWERS}": CHECKS.format(verdict)}
    if ran:
        files[f"{RUN}/{DETAIL}"] = log(("effective_scenario", ran))
    found = say(verify_skipped(small_cell(tmp_path, files, scenario=scenario)))
    assert len(found) == reported
    if reported:
        assert f"/{scenario}/TEST06/{ANSWERS}:1" in found[0]
