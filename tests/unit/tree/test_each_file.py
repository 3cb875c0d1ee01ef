"""A missing or empty file of a tree is a finding that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.verify.engine import verify_tree
from tests.unit.check.conftest import clean_trees, logs, tree_of
from tests.unit.tree.power_sessions import add_session

__all__ = ["clean_trees", "logs", "tree_of"]

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
