"""Trees that are checked and verified: of an unknown round, without one file, and one cell at a time."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import LevelRules, TreeWalk, check_tree
from reconciler.resource.rules import Severity
from reconciler.storage.collector import pause_collector
from reconciler.tree.reading.survey import survey_tree
from reconciler.tree.reading.view import CellView
from reconciler.verify.engine import verify_cell, verify_tree
from tests.unit.check.conftest import clean_trees, tree, tree_of
from tests.unit.tree.power_sessions import add_session
from tests.unit.tree.test_survey import FUTURE, release, reseed

__all__ = ["clean_trees", "tree", "tree_of"]

# Rules that a round's checker or policy alone asks for: bars, seeds, scenarios, categories, tests, fields.
OF_A_ROUND = re.compile(
    r"run\.(seeds|duration|samples|early-stopping|metric|target-latency)|accuracy\.(bars|samples|size)"
    r"|benchmark\.(known|category|scenarios|forbidden)|compliance\.(missing|files|verdict)|system\.(fields|category)"
)


def test_of_an_unknown_round_nothing_is_asked_that_is_of_a_round(tree: Path) -> None:
    """Faults of a round's own rules are passed over, and said to be; what holds in any round is looked at."""
    known = check_tree(tree, round_name="v6.1")
    assert known.clean
    reseed(tree, FUTURE)
    release(tree, "7.0.2")
    text = next(tree.rglob("accuracy.txt"))
    text.write_text(re.sub(r"accuracy=[\d.]+", "accuracy=1.5", text.read_text()))
    checked, verified = check_tree(tree), verify_tree(tree)
    assert (checked.rounds, verified.rounds) == (("v7.0",), ("v7.0",))
    assert [f.severity for f in checked.findings if f.rule.id == "tree.round"] == [Severity.WARNING]
    assert [f.severity for f in verified.findings if f.rule.id == "tree.round"] == [Severity.NOTE]
    for report in (checked, verified):
        assert not [f.rule.id for f in report.findings if OF_A_ROUND.fullmatch(f.rule.id)]
        assert not [gap for gap in report.gaps if "benchmark" in gap.reason]
    assert not [f for f in checked.findings if f.severity is Severity.ERROR]
    detail = next(tree.rglob("performance/run_1/mlperf_log_detail.txt"))
    accuracy = next(tree.rglob("accuracy/mlperf_log_detail.txt"))
    detail.write_bytes(accuracy.read_bytes())
    assert "run.mode" in {f.rule.id for f in check_tree(tree).findings if f.severity is Severity.ERROR}
    # A round that is chosen is applied.
    assert "run.seeds" in {f.rule.id for f in check_tree(tree, round_name="v6.1").findings}


CHANGES: dict[str, Callable[[Path], object]] = {"missing": lambda path: None}
CELL = "results/sys1/resnet/"
EXAMINED = ("systems/", f"{CELL}SingleStream/", f"{CELL}Offline/performance/")
# Answers of a test may differ if the accuracy of both runs is equal, so an empty comparison alone refutes nothing.
MAY_BE_EMPTY = {
    f"{CELL}SingleStream/TEST01/{name}"
    for name in ("accuracy/accuracy.txt", "accuracy/mlperf_log_accuracy.json", "verify_accuracy.txt")
}


def find(root: Path) -> set[tuple[str, str]]:
    """Ids of broken rules, with the file of each finding and the one that contradicts it."""
    findings = (*check_tree(root, round_name="v6.1").findings, *verify_tree(root, round_name="v6.1").findings)
    complaints = [(finding.rule.id, finding.complaint) for finding in findings]
    return {(rule, place.file) for rule, said in complaints for place in (said.place, said.other) if place}


@pytest.mark.parametrize("change", CHANGES)
def test_a_tree_without_any_one_file_is_found_out(change: str, tree_of: Callable[[str], Path]) -> None:
    root = tree_of("closed")
    add_session(root)
    top, before, unnoticed, examined = root / "closed/Acme", find(root), set(), 0
    for name in sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()):
        if name.startswith(EXAMINED):
            path = top / name
            data = path.read_bytes()
            path.unlink()
            CHANGES[change](path)
            found = find(root) - before
            assert "internal.rule" not in {rule for rule, _ in found}
            examined += 1
            if f"closed/Acme/{name}" not in {file for _, file in found}:
                unnoticed.add(name)
            path.write_bytes(data)
    assert examined > 20
    assert unnoticed == (MAY_BE_EMPTY if change == "empty" else set())


class Trace:
    """What is hung on to a view, and lives as long as that."""


def test_a_cell_that_was_looked_at_is_gone_without_the_collector(consistent: Path) -> None:
    views: list[weakref.ref[Trace]] = []
    read: list[weakref.ref[Trace]] = []

    def remember(view: CellView) -> None:
        assert view.performance is not None
        for kept, traces in ((view, views), (view.performance, read)):
            trace = vars(kept)["trace"] = Trace()
            traces.append(weakref.ref(trace))

    (survey,) = survey_tree(consistent)
    with pause_collector():
        TreeWalk(LevelRules(verify_cell), remember).find([survey])
        assert len(views) == survey.total > 1
        assert [ref() for ref in (*views[:-1], *read)] == [None] * (len(views) - 1 + len(read))
