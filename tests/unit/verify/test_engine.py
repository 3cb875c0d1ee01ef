"""What is compared across the cells of a small tree, and what is reported while it is walked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.tree.findings import TreeReport
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


def find(report: TreeReport, rule: str) -> list[tuple[str, str]]:
    return [(item.cell.rpartition("/")[2], item.complaint.found) for item in report.findings if item.rule.id == rule]


def test_runs_at_one_time_and_builds_and_revisions_are_compared(tmp_path: Path) -> None:
    sources: Line = ("loadgen_file_sha1", {"/a.cc": "1"})
    others: Line = ("loadgen_file_sha1", {"/a.cc": "2"})
    cells = {
        "Offline": (*lines(), sources),
        "Server": (*lines("Server", 2), sources),
        "SingleStream": (*lines("SingleStream", 3, 11), others),
        "MultiStream": tuple(
            (key, "6.0 @ 0123456789" if key == "loadgen_version" else value)
            for key, value in (*lines("MultiStream", 4, 12), sources)
        ),
    }
    report = verify_tree(tree(tmp_path, cells))
    assert [cell for cell, _ in find(report, "runs.overlap")] == ["sys1"]
    assert find(report, "runs.sources") == [("SingleStream", "LoadGen 5.1 @ 0123456789 with another a.cc")]
    assert [cell for cell, _ in find(report, "runs.revision")] == ["MultiStream"]
    assert not find(report, "placement.copied")


def test_a_wrong_user_conf_is_explained_by_another_cell(tmp_path: Path) -> None:
    other = tuple((key, 70 if key == "effective_target_qps" else value) for key, value in lines("Offline", 2))
    small_cell(
        tmp_path, {f"{RUN}/{DETAIL}": log(*lines("Server")), "user.conf": "*.*.target_qps = 70\n"}, scenario="Server"
    )
    second = tmp_path / "closed/Acme/results/sys2/resnet/Server" / RUN
    second.mkdir(parents=True)
    (second / DETAIL).write_text(log(*other).replace('"Offline"', '"Server"'))
    found = [item.complaint for item in verify_tree(tmp_path).findings if item.rule.id == "user-conf.contradicts"]
    assert [it.mechanism for it in found] == ["conf-of-other-cell"]
    assert found[0].cause.endswith("closed/sys2/resnet/Server")


@pytest.mark.parametrize("look", [check_tree, verify_tree])
def test_what_is_done_is_counted_to_the_number_of_cells(tmp_path: Path, look: object) -> None:
    seen: list[tuple[object, ...]] = []
    root = tree(tmp_path, {"Offline": lines(), "Server": lines("Server", 2)})
    report = look(root, progress=lambda *reported: seen.append(reported))  # type: ignore[operator]
    assert [reported[:2] for reported in seen] == [(0, 2), (1, 2)]
    assert len(report.facts) == 2
