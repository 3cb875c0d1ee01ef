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
from reconciler.verify.engine import verify_tree
from tests.unit.check.made import detail, set_log, write

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
