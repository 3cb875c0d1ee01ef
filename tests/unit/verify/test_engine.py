"""What is compared across the cells of a small tree, and what is reported while it is walked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.verify.engine import verify_tree
from tests.unit.tree.small_cells import DETAIL, RUN, VALID, Line, log, small_cell

PERFORMED: tuple[Line, ...] = (("effective_test_mode", "PerformanceOnly"), VALID)


def lines(scenario: str = "Offline", number: int = 1, hour: int = 10) -> tuple[Line, ...]:
    """Of a run that is like no other of another number."""
    return (
        ("loadgen_version", "5.1 @ 0123456789"),
        ("loadgen_git_commit_date", "Mon Jan 5 10:00:00 2026"),
        ("effective_scenario", scenario),
        ("effective_target_qps", 100),
        ("power_begin", f"01-02-2026 {hour}:00:00.00{number}"),
        ("power_end", f"01-02-2026 {hour}:20:00.00{number}"),
        ("result_mean_latency_ns", 123_456_780 + number),
        *PERFORMED,
    )


def tree(root: Path, cells: Mapping[str, tuple[Line, ...]], conf: str = "*.*.target_qps = 100\n") -> Path:
    for scenario, reported in cells.items():
        small_cell(root, {f"{RUN}/{DETAIL}": log(*reported), "user.conf": conf}, scenario=scenario)
    return root


@pytest.mark.parametrize("look", [check_tree, verify_tree])
def test_what_is_done_is_counted_to_the_number_of_cells(tmp_path: Path, look: object) -> None:
    seen: list[tuple[object, ...]] = []
    root = tree(tmp_path, {"Offline": lines(), "Server": lines("Server", 2)})
    report = look(root, progress=lambda *reported: seen.append(reported))  # type: ignore[operator]
    assert [reported[:2] for reported in seen] == [(0, 2), (1, 2)]
    assert len(report.facts) == 2
