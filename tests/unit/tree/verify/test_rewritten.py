"""Figures that somebody wrote anew together with all that stands beside them, and what still denies them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

from reconciler.mlperf.log_files import SEPARATOR
from reconciler.tree.findings import Severity, TreeFinding
from reconciler.tree.verify.engine import verify_tree
from tests.unit.tree.check.made import write

CELL = "closed/Acme/results/sys1/resnet/Offline"
DETAIL = "mlperf_log_detail.txt"
ANSWERS = "mlperf_log_accuracy.json"


def find(root: Path, rule: str) -> list[TreeFinding]:
    return [f for f in verify_tree(root).findings if f.rule.id == rule]


def change(root: Path, key: str, old: str, new: str, below: str = CELL) -> None:
    """In every detail log below a folder."""
    for path in (root / below).rglob(DETAIL):
        text, count = re.subn(rf'("key": "{key}", "value": "){old}', rf"\g<1>{new}", path.read_text())
        assert count == 1
        path.write_text(text)


def test_another_version_of_one_commit_is_asked_about_wherever_it_is_stated(tree: Path) -> None:
    assert not find(tree, "runs.revision")
    change(tree, "loadgen_version", r"[\d.]+ @", "9.9.9 @")
    found = find(tree, "runs.revision")
    assert {(f.cell, f.severity) for f in found} == {("closed/sys1/resnet/Offline", Severity.WARNING)}
    assert len(found) == len(list((tree / CELL).rglob(DETAIL)))
    assert all(re.match(r"version 9\.9\.9 of LoadGen's commit [0-9a-f]{10}$", f.complaint.found) for f in found)
    assert all(re.search(r"^\d\S+, as \d+ other logs of this commit$", f.complaint.wanted) for f in found)


def test_a_date_that_other_logs_of_the_commit_deny_is_an_error(tree: Path) -> None:
    change(tree, "loadgen_git_commit_date", r"\d{4}", "2001")
    found = find(tree, "runs.revision")
    assert {(f.cell, f.severity) for f in found} == {("closed/sys1/resnet/Offline", Severity.ERROR)}
    assert all(f.complaint.found.startswith("date 2001-") for f in found)
    assert all(f.complaint.other is not None and f.complaint.other.line for f in found)


def test_logs_of_no_commit_deny_nothing(tree: Path) -> None:
    change(tree, "loadgen_version", r"[^\"]+", "9.9.9 @ NA")
    change(tree, "loadgen_git_commit_date", r"\d{4}", "2001")
    assert not find(tree, "runs.revision")


def cut(answers: Iterable[tuple[int, int]]) -> bytes:
    """The two ends of a log of many more answers."""
    lines = [
        f'{{ "seq_id" : {at}, "qsl_idx" : {sample}, "data" : "{struct.pack("<i", value).hex().upper()}" }},'
        for at, (sample, value) in enumerate(answers)
    ]
    half = len(lines) // 2
    head, tail = ("\n".join(part) for part in (["[", *lines[:half], ""], [*lines[half:], "]", ""]))
    return f'{head}{{ "seq_id" : 9'.encode() + SEPARATOR + f'9, "data" : "00" }},\n{tail}'.encode()


def publish(root: Path, test: Iterable[tuple[int, int]], counted: str = "num_perf_log_data_mismatch = 0") -> None:
    """``test``: what the ends of TEST01's log answer; the accuracy run answers sample n with n."""
    (root / CELL / "accuracy" / ANSWERS).write_bytes(cut([(n, n) for n in range(8)]))
    (root / CELL / "TEST01/accuracy").mkdir(parents=True, exist_ok=True)
    (root / CELL / "TEST01/accuracy" / ANSWERS).write_bytes(cut(test))
    write(root / CELL / "TEST01/verify_accuracy.txt", f"{counted}\nTEST PASS\n")


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([(3, 3), (5, 5), (90, 7), (91, 1)], id="the same"),
        pytest.param([(90, 7), (91, 1)], id="of no sample in common"),
        pytest.param([(3, 3), (5, 0x705), (90, 7), (91, 1)], id="the same beginning, which is all that is compared"),
    ],
)
def test_answers_that_the_verification_calls_the_same_are_believed(tree: Path, answers: list[tuple[int, int]]) -> None:
    publish(tree, answers)
    assert not find(tree, "compliance.answers")


def test_answers_that_differ_where_the_verification_counted_none_are_named(tree: Path) -> None:
    publish(tree, [(3, 4), (5, 5), (90, 7), (6, 1)])
    (found,) = find(tree, "compliance.answers")
    assert found.complaint.place.file.endswith(f"TEST01/accuracy/{ANSWERS}")
    assert found.complaint.found == "another answer to sample 3 than the accuracy run's"
    assert found.complaint.wanted == "0 answers that differ, as the verification counted"


@pytest.mark.parametrize("counted", ["num_perf_log_data_mismatch = 2", "differing: 2", "nothing was counted"])
def test_answers_that_the_verification_counted_itself_are_no_contradiction(tree: Path, counted: str) -> None:
    publish(tree, [(3, 4), (5, 5), (90, 7), (6, 1)], counted)
    assert not find(tree, "compliance.answers")


def test_two_hashes_of_one_log_are_asked_about(tree: Path) -> None:
    path = tree / CELL / "accuracy/accuracy.txt"
    path.write_text(f"{path.read_text().rstrip()}\nhash={'0' * 64}\n")
    (found,) = find(tree, "accuracy.hashes")
    assert (found.severity, found.complaint.found) == (Severity.WARNING, "hash=000000000000…")
    own = re.findall(r"hash=(\w+)", path.read_text())[0]
    path.write_text(f"{path.read_text().replace('0' * 64, own)}\n")
    assert not find(tree, "accuracy.hashes")


def test_a_pass_of_test05_without_its_scores_is_asked_about(tree: Path) -> None:
    file = tree / CELL / "TEST05/verify_performance.txt"
    write(file, "TEST PASS\n")
    (found,) = find(tree, "compliance.figures")
    assert found.complaint.found == "TEST PASS without the scores of both runs"
    write(file, "reference score = 10\ntest score = 10\nTEST PASS\n")
    assert not find(tree, "compliance.figures")
