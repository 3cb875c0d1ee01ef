"""Errors that a summary counts, against those of the detail log."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.tree.findings import TreeFinding
from reconciler.verify.engine import verify_tree

FOLDER = "closed/Acme/results/sys1/resnet/Offline/performance/run_1"
DETAIL = f"{FOLDER}/mlperf_log_detail.txt"
ERROR = ':::MLLOG {"key": "error_runtime", "value": "lost", "metadata": {"is_error": true}}\n'
NONE = "No errors encountered during test."


def uncounted(tree: Path, counted: str, errors: int) -> list[TreeFinding]:
    """What is found of a summary that counts these errors, beside a detail log with so many at its end."""
    summary, detail = tree / FOLDER / "mlperf_log_summary.txt", tree / DETAIL
    text = summary.read_text()
    assert NONE in text
    summary.write_text(text.replace(NONE, f"{counted} encountered. See detailed log."))
    detail.write_text(detail.read_text() + errors * ERROR)
    return [f for f in verify_tree(tree).findings if f.complaint.mechanism == "uncounted-errors"]


@pytest.mark.parametrize("errors", [1, 3])
def test_errors_that_are_counted_otherwise_are_named_at_the_first(tree: Path, errors: int) -> None:
    (finding,) = uncounted(tree, "2 ERRORS", errors)
    assert finding.complaint.found == "2 of LoadGen's errors counted"
    assert finding.complaint.wanted == f"{errors} ERROR lines in the detail log"
    assert finding.complaint.other is not None
    lines = (tree / DETAIL).read_text().splitlines(keepends=True)
    assert (finding.complaint.other.file, finding.complaint.other.line) == (DETAIL, lines.index(ERROR) + 1)


def test_errors_that_are_nowhere_are_named_where_loadgen_counts_them(tree: Path) -> None:
    (finding,) = uncounted(tree, "1 ERROR", 0)
    assert finding.complaint.other is not None
    assert '"num_errors"' in (tree / DETAIL).read_text().splitlines()[finding.complaint.other.line - 1]


def test_errors_that_are_counted_alike_are_no_contradiction(tree: Path) -> None:
    assert uncounted(tree, "2 ERRORS", 2) == []


@pytest.mark.parametrize(
    ("more", "wrong"), [("Samples per second : 99999999", True), ("Result is: INVALID", True), ("", False)]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_second_line_that_says_otherwise_is_named(tree: Path, more: str, wrong: bool, first: bool) -> None:
    """Who looks for a name finds either."""
    path = tree / FOLDER / "mlperf_log_summary.txt"
    lines = path.read_text().splitlines()
    more = more or next(line for line in lines if line.startswith("Samples per second"))
    at = 0 if first else len(lines)
    path.write_text("\n".join((*lines[:at], more, *lines[at:], "")))
    found = [f.complaint.place.line for f in verify_tree(tree).findings if f.rule.id == "summary.contradicts"]
    assert found == [at + 1] * wrong
