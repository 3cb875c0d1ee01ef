"""Errors that a summary counts, against those of the detail log."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.verify.engine import verify_tree

FOLDER = "closed/Acme/results/sys1/resnet/Offline/performance/run_1"


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
