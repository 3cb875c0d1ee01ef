"""Verdicts in a tree, taken again from the logs next to them."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from reconciler.check.causes import find_cause
from reconciler.resource.rules import Severity
from reconciler.tree.findings import TreeFinding
from reconciler.verify.cell_rules import verify_one_verdict, verify_skipped
from reconciler.verify.engine import verify_tree
from reconciler.verify.placement import verify_test_settings
from tests.unit.check.made import detail, set_log, write
from tests.unit.tree.small_cells import DETAIL, RUN, log, say, small_cell

TOP = "closed/Acme/results/sys1"
CELL = f"{TOP}/resnet/Offline"
RULE = "compliance.passes"


def denied(root: Path, **options: object) -> list[TreeFinding]:
    return [f for f in verify_tree(root, **options).findings if f.rule.id == RULE]  # type: ignore[arg-type]


def scaled(test: str, factor: float, root: Path) -> None:
    """The rate of a test's run, in both of its logs."""
    folder = root / CELL / test / "performance/run_1"
    found = re.search(r'"key": "result_samples_per_second", "value": ([0-9.e+]+)', detail(folder))
    assert found
    rate = float(found[1]) * factor
    set_log(folder, "result_samples_per_second", rate)
    summary = folder / "mlperf_log_summary.txt"
    summary.write_text(re.sub(r"(?m)^Samples per second: .*$", f"Samples per second: {rate}", summary.read_text()))


def invalid(test: str, root: Path) -> None:
    set_log(root / CELL / test / "performance/run_1", "result_validity", '"INVALID"')


def answered(root: Path, audit: list[int], accuracy: list[int], where: str = CELL, test: str = "TEST01") -> None:
    """Whole accuracy logs, as small ones are published."""
    for folder, answers in ((f"{test}/accuracy", audit), ("accuracy", accuracy)):
        entries = [{"seq_id": n, "qsl_idx": n, "data": struct.pack("<i", a).hex()} for n, a in enumerate(answers)]
        write(root / where / folder / "mlperf_log_accuracy.json", json.dumps(entries))


PASSES: dict[str, tuple[str, Callable[[Path], None], tuple[str, ...]]] = {
    "TEST01 slower": ("TEST01/verify_performance.txt", partial(scaled, "TEST01", 0.8), ("20.00 %", "10 %")),
    "TEST01 invalid": ("TEST01/verify_performance.txt", partial(invalid, "TEST01"), ("the audit run is INVALID",)),
    "TEST04 faster": ("TEST04/verify_performance.txt", partial(scaled, "TEST04", 1.2), ("20.00 %",)),
    "other answers": (
        "TEST01/verify_accuracy.txt",
        lambda root: answered(root, [1, 2, 3], [1, 2, 700]),
        ("1 of 3 answers differ", "samples 2"),
    ),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_that_its_logs_deny_is_found_at_its_line(name: str, tree: Path) -> None:
    file, change, words = PASSES[name]
    change(tree)
    (finding,) = denied(tree)
    place = finding.complaint.place
    assert (place.file, finding.severity) == (f"{CELL}/{file}", Severity.ERROR)
    assert (tree / place.file).read_text().splitlines()[place.line - 1] == "TEST PASS"
    assert all(word in finding.complaint.wanted for word in words), finding.complaint.wanted


def test_a_pass_by_a_type_that_is_too_short_for_other_answers_is_worth_a_warning(tree: Path) -> None:
    """The script's own verdict is a pass, because class numbers of type float32 begin with the same byte."""
    answered(tree, [0x3F800000, 0x40000000, 0x40400000], [0x40000000, 0x40400000, 0x40800000])
    (finding,) = denied(tree)
    assert (finding.complaint.place.file, finding.severity) == (f"{CELL}/TEST01/verify_accuracy.txt", Severity.WARNING)
    assert "3 of 3 answers differ" in finding.complaint.wanted
    assert "the answers have 4 bytes; declare dtype: float32" in finding.complaint.wanted
    assert "--dtype" in finding.complaint.fix


def test_a_test_of_the_folder_s_scenario_is_asked_about_where_the_result_is_of_another(tree: Path) -> None:
    """A result that was inferred after it had been tested: its verdicts compared a run that is not published."""
    run = "performance/run_1"
    shutil.copytree(tree / TOP / "resnet/SingleStream" / run, tree / CELL / run, dirs_exist_ok=True)
    found = [f for f in verify_tree(tree).findings if f.rule.id in (RULE, "placement.compliance")]
    own = [f for f in found if f.cell == CELL.replace("/Acme/results", "") and f.complaint.place.file.startswith(CELL)]
    for test in ("TEST01", "TEST04"):
        of_test = [f for f in own if f"/{test}/" in f.complaint.place.file]
        assert sorted(f.rule.id for f in of_test) == [RULE, "placement.compliance"]
        assert {(f.severity, find_cause(f).id) for f in of_test} == {(Severity.NOTE, "tests-of-own-scenario")}
    invalid("TEST01", tree)
    severities = {f.complaint.place.file.split("/")[-2]: f.severity for f in denied(tree)}
    assert severities == {"TEST01": Severity.ERROR, "TEST04": Severity.NOTE}


def test_a_failure_that_its_logs_deny_is_worth_a_warning(tree: Path) -> None:
    path = tree / CELL / "TEST04/verify_performance.txt"
    write(path, path.read_text().replace("TEST PASS", "TEST FAIL"))
    (finding,) = denied(tree)
    assert finding.severity is Severity.WARNING
    assert finding.complaint.place.line == 3


def test_the_other_seeds_of_an_older_round_are_compared(tree: Path) -> None:
    cell = tree / CELL
    shutil.copytree(cell / "performance/run_1", cell / "TEST05/performance/run_1")
    write(cell / "TEST05/verify_performance.txt", "TEST PASS\n")
    assert denied(tree, round_name="v4.1") == []
    scaled("TEST05", 0.9, tree)
    (finding,) = denied(tree, round_name="v4.1")
    assert finding.complaint.place.file == f"{CELL}/TEST05/verify_performance.txt"
    assert denied(tree) == []  # a round that has no such test


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
def test_reported_tokens_are_checked(tmp_path: Path, scenario: str, ran: str, verdict: str, reported: bool) -> None:
    files = {f"TEST06/{ANSWERS}": CHECKS.format(verdict)}
    if ran:
        files[f"{RUN}/{DETAIL}"] = log(("effective_scenario", ran))
    found = say(verify_skipped(small_cell(tmp_path, files, scenario=scenario)))
    assert len(found) == reported
    if reported:
        assert f"/{scenario}/TEST06/{ANSWERS}:1" in found[0]


MARKER = "Found Audit Config file (audit.config). Overriding TestSettings from audit.config file."
SEED = 720381539243781796  # as the audit.config of TEST01 has it


def find(root: Path, test: str, division: str = "closed", marked: bool = True, **logged: object) -> list[str]:
    lines = [("warning_generic_message", MARKER)] if marked else [("a", 1)]
    text = log(*lines, *((f"effective_{name}", value) for name, value in logged.items()))
    view = small_cell(root, {f"TEST01/{RUN}/{DETAIL}".replace("TEST01", test): text}, division=division)
    return say(verify_test_settings(view))


def test_a_test_logs_as_many_answers_as_the_round_asks_for(tmp_path: Path) -> None:
    right = {"accuracy_log_sampling_target": 4096, "accuracy_log_rng_seed": SEED}
    assert find(tmp_path / "a", "TEST01", **right) == []
    fewer = {**right, "accuracy_log_sampling_target": 1}
    reported = [f"./TEST01/{RUN}/{DETAIL}:2"]
    assert find(tmp_path / "b", "TEST01", **fewer) == reported
    both = {**fewer, "accuracy_log_rng_seed": 0}
    assert find(tmp_path / "c", "TEST01", **both) == reported  # once for a test
    seed = {**right, "accuracy_log_rng_seed": 0}
    assert find(tmp_path / "d", "TEST01", **seed) == [f"./TEST01/{RUN}/{DETAIL}:3"]


def test_flags_are_those_of_the_test(tmp_path: Path) -> None:
    right = {"performance_issue_same": True, "performance_issue_unique": False, "performance_issue_same_index": 3}
    assert find(tmp_path / "a", "TEST04", **right) == []
    other = {**right, "performance_issue_same_index": 0}
    assert find(tmp_path / "b", "TEST04", **other) == [f"./TEST04/{RUN}/{DETAIL}:4"]


@pytest.mark.parametrize(
    ("test", "division", "marked", "logged"),
    [
        ("TEST01", "open", True, {"accuracy_log_sampling_target": 1}),
        ("TEST01", "closed", False, {"accuracy_log_sampling_target": 1}),
        (
            "TEST01",
            "closed",
            True,
            {"accuracy_log_sampling_target": 0},
        ),  # no run of the test, which is reported elsewhere
        ("TEST01", "closed", True, {"accuracy_log_sampling_target": "1"}),
        ("TEST01", "closed", True, {"accuracy_log_rng_seed": 0}),
        ("TEST01", "closed", True, {"accuracy_log_sampling_target": 4096, "min_query_count": 1}),
        ("TEST99", "closed", True, {"accuracy_log_sampling_target": 1}),
    ],
)
def test_other_runs_are_left(tmp_path: Path, test: str, division: str, marked: bool, logged: dict[str, object]) -> None:
    assert find(tmp_path, test, division, marked, **logged) == []
