"""Contradictions in layouts of older rounds."""

from __future__ import annotations

from pathlib import Path

from reconciler.verify.engine import verify_tree
from tests.unit.check.made import set_log
from tests.unit.check.test_other_trees import add_test_with_own_seeds
from tests.unit.check.written import as_legacy


def contradictions(root: Path) -> set[str]:
    return {finding.rule.id for finding in verify_tree(root, round_name="v6.1").findings}


def test_a_measurements_file_for_another_scenario(tree: Path) -> None:
    folder = as_legacy(tree) / "closed/Acme/measurements/sys1/resnet/Offline"
    (folder / "sys1.json").rename(folder / "sys1_impl_Server.json")
    assert "placement.measurements" in contradictions(tree)
    set_log(tree / "closed/Acme/results/sys1/resnet/Offline/performance/run_1", "effective_scenario", '"Server"')
    assert "placement.measurements" not in contradictions(tree), "that of the run from which the result is inferred"


def test_a_test_with_seeds_of_its_own_does_not_contradict_its_round(tree: Path) -> None:
    add_test_with_own_seeds(tree)
    assert "runs.seeds" not in {finding.rule.id for finding in verify_tree(tree).findings}
