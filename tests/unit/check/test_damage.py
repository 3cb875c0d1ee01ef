"""Whatever a tree holds, checking and verifying it end with findings: no exception, and no rule that failed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree
from reconciler.errors import ReconcilerError
from reconciler.tree.rule_engine import INTERNAL
from reconciler.verify.engine import verify_tree
from tests.unit.check.damage import change_number, damage
from tests.unit.check.made import copy_tree


def _survive(clean: Path, work: Path, seeds: range) -> int:
    """The number of damaged trees about which something was found."""
    found = 0
    for seed in seeds:
        root = work / "tree"
        shutil.copytree(clean, root)
        what = damage(root, seed)
        for look in (check_tree, verify_tree):
            try:
                report = look(root, round_name="v6.1" if seed % 2 else "")
            except ReconcilerError:
                continue  # nothing that could be a tree is left
            broken = [f.complaint.found for f in report.findings if f.rule == INTERNAL]
            assert not broken, f"{what}: {broken}"
            found += look is check_tree and bool(report.findings)
        shutil.rmtree(root)
    return found


def test_damaged_trees_give_findings(clean_trees: Callable[[str], Path], tmp_path: Path) -> None:
    assert _survive(clean_trees("closed"), tmp_path, range(40)) > 32


def test_no_number_breaks_a_rule(clean_trees: Callable[[str], Path], tmp_path: Path) -> None:
    tree, found = copy_tree(clean_trees("closed"), tmp_path / "tree"), 0
    choose = random.Random(1)
    for _ in range(20):  # each next to those before it
        change_number(tree, choose)
        for look in (check_tree, verify_tree):
            report = look(tree, round_name="v6.1")
            assert not [f.complaint.found for f in report.findings if f.rule == INTERNAL]
        found = len(report.findings)
    assert found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_thousand_damaged_trees_give_findings(clean_trees: Callable[[str], Path], tmp_path: Path) -> None:
    assert _survive(clean_trees("closed"), tmp_path, range(1_000, 2_000)) > 800


def test_a_copy_is_as_clean(clean_trees: Callable[[str], Path], tmp_path: Path) -> None:
    assert not check_tree(copy_tree(clean_trees("closed"), tmp_path / "tree")).findings


def test_findings_come_in_the_order_of_their_files(clean_trees: Callable[[str], Path], tmp_path: Path) -> None:
    tree = copy_tree(clean_trees("closed"), tmp_path / "tree")
    names = [f"folder{number:02}" for number in range(16)]
    for name in names[::3] + names[1::3] + names[2::3]:
        (tree / "closed/Acme/src" / name).mkdir()
    places = [f.complaint.place.file for f in check_tree(tree).findings if f.complaint.found == "an empty folder"]
    assert places == [f"closed/Acme/src/{name}" for name in names]
