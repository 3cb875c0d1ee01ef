"""Verdicts in a tree, taken again from the logs beside them."""

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
from reconciler.tree.findings import Place, Severity, TreeFinding
from reconciler.verify.engine import verify_tree
from tests.unit.tree.check.made import detail, set_log, write

TOP = "closed/Acme/results/sys1"
CELL = f"{TOP}/resnet/Offline"
RULE = "compliance.passes"


def denied(root: Path, **options: object) -> list[TreeFinding]:
    return [f for f in verify_tree(root, **options).findings if f.rule.id == RULE]  # type: ignore[arg-type]


def line_of(root: Path, place: Place) -> str:
    return (root / place.file).read_text().splitlines()[place.line - 1]


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
    "TEST01 slower": ("TEST01/verify_performance.txt", partial(scaled, "TEST01", 0.8), ("-20.00 %", "10% allowed")),
    "TEST01 invalid": ("TEST01/verify_performance.txt", partial(invalid, "TEST01"), ("the audit run is INVALID",)),
    "TEST04 faster": ("TEST04/verify_performance.txt", partial(scaled, "TEST04", 1.2), ("+20.00 %",)),
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


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ("1000000", True),
        ("1001000", True),
        ("1001001", False),
        ("999000", True),
        ("998999", False),
        ("1000", True),  # as queries per second
        ("1001", True),
        ("1001.01", False),
        ("998.99", False),
    ],
)
def test_a_score_is_of_the_run_that_logged_it_within_a_thousandth(tree: Path, said: str, same: bool) -> None:
    test = tree / TOP / "resnet/SingleStream/TEST04"
    set_log(test / "performance/run_1", "early_stopping_latency_ss", 1_000_000)
    verdict = test / "verify_performance.txt"
    text, count = re.subn(r"(?m)^Test score = .*$", f"Test score = {said}", verdict.read_text())
    assert count == 1
    verdict.write_text(text)
    found = [f for f in verify_tree(tree).findings if f.rule.id == "compliance.scores"]
    assert [f.complaint.found for f in found] == ([] if same else [f"test score {said}"])


def test_a_failure_that_its_logs_deny_is_worth_a_warning(tree: Path) -> None:
    path = tree / CELL / "TEST04/verify_performance.txt"
    write(path, path.read_text().replace("TEST PASS", "TEST FAIL"))
    (finding,) = denied(tree)
    assert finding.severity is Severity.WARNING
    assert finding.complaint.place.line == 3


def test_answers_that_agree_as_one_of_the_types_are_no_disagreement(tree: Path) -> None:
    answered(tree, [1, 2, 256 * 7 + 3], [1, 2, 256 * 9 + 3])  # alike in the first byte, as the script reads them
    assert denied(tree) == []


def test_nothing_is_said_of_truncated_answers(tree: Path) -> None:
    log = tree / CELL / "TEST01/accuracy/mlperf_log_accuracy.json"
    assert b"\n\n...\n\n" in (tree / CELL / "accuracy/mlperf_log_accuracy.json").read_bytes()
    write(log, "[\n]\n")
    assert denied(tree) == []


def test_answers_in_the_archive_are_read(tree: Path) -> None:
    archive = tree.with_suffix(".originals")
    log = tree / CELL / "TEST01/accuracy/mlperf_log_accuracy.json"
    write(log, json.dumps([{"seq_id": 0, "qsl_idx": 7, "data": "FF00FF00"}]))
    (finding,) = denied(tree, original=lambda digest: path if (path := archive / digest).exists() else None)
    assert "1 of 1 answers differ" in finding.complaint.wanted


def test_tokens_are_counted_again(tree: Path) -> None:
    cell = f"{TOP}/llama2-70b-99.9/Offline"
    shutil.copytree(tree / CELL, tree / cell, ignore=shutil.ignore_patterns("TEST*"))
    text = "First token check pass: Skipped\nEOS check pass: True\nSample length check pass: True\n"
    write(tree / cell / "TEST06/verify_accuracy.txt", text)
    answers = [{"seq_id": n, "qsl_idx": n, "data": struct.pack("<3i", 5, 6, 2).hex(), "token_count": 3} for n in (0, 1)]
    log = tree / cell / "TEST06/accuracy/mlperf_log_accuracy.json"
    write(log, json.dumps(answers))
    assert denied(tree) == []
    answers[1]["token_count"] = 4
    write(log, json.dumps(answers))
    (finding,) = denied(tree)
    assert "sample 1 has 3 tokens, and 4 were reported" in finding.complaint.wanted


@pytest.mark.parametrize("answers", ["[\n]\n", "[]"])
def test_a_pass_over_no_answers_is_a_warning_for_it_is_what_the_script_prints(tree: Path, answers: str) -> None:
    cell = f"{TOP}/llama2-70b-99.9/Offline"
    shutil.copytree(tree / CELL, tree / cell, ignore=shutil.ignore_patterns("TEST*"))
    text = "First token check pass: Skipped\nEOS check pass: True\nSample length check pass: True\n"
    write(tree / cell / "TEST06/verify_accuracy.txt", text + "TEST06 verification complete\n")
    write(tree / cell / "TEST06/accuracy/mlperf_log_accuracy.json", answers)
    assert denied(tree) == []
    (finding,) = (item for item in verify_tree(tree).findings if item.rule.id == "compliance.empty")
    assert finding.severity is Severity.WARNING
    assert find_cause(finding).id == "empty-test"


def test_the_two_runs_of_an_older_test_are_compared(tree: Path) -> None:
    cell = tree / CELL
    for name in ("TEST04-A", "TEST04-B"):
        shutil.copytree(cell / "performance/run_1", cell / name / "performance/run_1")
        set_log(cell / name / "performance/run_1", "effective_performance_issue_unique", str(name[-1] == "A").lower())
    write(cell / "TEST04-A/verify_performance.txt", "TEST PASS\n")
    for name, setting in (("TEST04-A", "unique"), ("TEST04-B", "same")):
        path = cell / name / "performance/run_1/mlperf_log_summary.txt"
        write(path, re.sub(rf"(?m)^(performance_issue_{setting}) : .*$", r"\1 : true", path.read_text()))
    assert denied(tree) == []
    scaled("TEST04-B", 1.2, tree)
    (finding,) = denied(tree)
    assert finding.complaint.place.file == f"{CELL}/TEST04-A/verify_performance.txt"
    assert "TEST04-B is faster" in finding.complaint.wanted


def test_the_other_seeds_of_an_older_round_are_compared(tree: Path) -> None:
    cell = tree / CELL
    shutil.copytree(cell / "performance/run_1", cell / "TEST05/performance/run_1")
    write(cell / "TEST05/verify_performance.txt", "TEST PASS\n")
    assert denied(tree, round_name="v4.1") == []
    scaled("TEST05", 0.9, tree)
    (finding,) = denied(tree, round_name="v4.1")
    assert finding.complaint.place.file == f"{CELL}/TEST05/verify_performance.txt"
    assert denied(tree) == []  # a round that has no such test


SCORES = {
    "as many": ("accuracy=76.456%, good=38228, total=50000\n", None),
    "one less": ("accuracy=76.456%, good=38228, total=49999\n", (1, 49_999)),
    "one more, below": ("a table\n\nmean = 0.8, 'gen_num': 50001,\n", (3, 50_001)),
    "as many tokens": ("'gen_len': 7, 'gen_num': 50000,\n", None),
    "queries before pairs": ("AUC=80.3, queries=50000, total=99000\n", None),
    "fewer queries": ("AUC=80.3, queries=49000, total=50000\n", (1, 49_000)),
    "part of a word": ("subtotal=7, myqueries=7\n", None),
    "19 digits": (f"total={'9' * 19}\n", (1, int("9" * 19))),
    "20 digits": (f"total={'9' * 20}\n", None),
}


@pytest.mark.parametrize("name", SCORES)
def test_a_score_covers_the_samples_that_the_accuracy_run_issued(name: str, tree: Path) -> None:
    text, odd = SCORES[name]
    folder = tree / CELL / "accuracy"
    write(folder / "accuracy.txt", text)

    def say() -> list[tuple[int, str, str]]:
        found = [f.complaint for f in verify_tree(tree).findings if f.rule.id == "accuracy.samples"]
        assert all(it.other is not None and "sample_count" in line_of(tree, it.other) for it in found)
        return [(it.place.line, it.found, it.wanted) for it in found]

    wanted = "50000, the samples of the accuracy run"
    assert say() == ([(odd[0], f"a score over {odd[1]} samples", wanted)] if odd else [])
    log = folder / "mlperf_log_detail.txt"
    counts = r'"key": "(effective_accuracy_sample_count|qsl_reported_total_count)"'
    write(log, "".join(line for line in log.read_text().splitlines(keepends=True) if not re.search(counts, line)))
    assert say() == []  # a log that does not say how many


@pytest.mark.parametrize(
    ("scenario", "key", "same"),
    [
        ("SingleStream", "early_stopping_latency_ss", True),
        ("MultiStream", "early_stopping_latency_ms", True),
        ("Offline", "result_samples_per_second", False),
    ],
)
def test_a_score_of_streams_is_also_stated_as_queries_per_second(
    tree: Path, scenario: str, key: str, same: bool
) -> None:
    test = tree / TOP / "resnet" / scenario / "TEST04"
    set_log(test / "performance/run_1", key, 1_000_000)
    verdict = test / "verify_performance.txt"
    verdict.write_text(re.sub(r"(?m)^Test score = .*$", "Test score = 1000", verdict.read_text()))
    found = [f for f in verify_tree(tree).findings if f.rule.id == "compliance.scores"]
    assert [f.complaint.found for f in found] == ([] if same else ["test score 1000"])
