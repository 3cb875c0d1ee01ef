from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.tree.curve.check import ALL_ENDPOINTS_RULES, check_endpoints
from reconciler.tree.findings import Severity
from reconciler.tree.rule_engine import INTERNAL
from tests.unit.tree.check.damage import change_number
from tests.unit.tree.curve.curves import make_curve, make_submission, write_submission
from tests.unit.tree.curve.mutations import MUTATIONS, Mutation


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, Path]:
    """Folders of a curve with the maximum elected, and of one with a dedicated Offline run."""
    folder = tmp_path_factory.mktemp("accepted")
    return {
        dedicated: write_submission(folder / str(dedicated), make_submission(make_curve(dedicated=dedicated)))
        for dedicated in (False, True)
    }


def find_rules(root: Path) -> dict[Severity, set[str]]:
    found: dict[Severity, set[str]] = {severity: set() for severity in Severity}
    for finding in check_endpoints(root).findings:
        found[finding.severity].add(finding.rule.id.removeprefix("curve."))
    return found


@pytest.mark.parametrize("dedicated", [False, True])
def test_what_is_rendered_is_accepted(accepted: Mapping[bool, Path], dedicated: bool) -> None:
    found = find_rules(accepted[dedicated])
    assert found[Severity.ERROR] == set()
    assert found[Severity.WARNING] == {"steady-state-basis"}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_spoiled_submission_is_refused(accepted: Mapping[bool, Path], tmp_path: Path, mutation: Mutation) -> None:
    root = tmp_path / "submission"
    shutil.copytree(accepted[mutation.dedicated], root)
    mutation.spoil(root)
    found = find_rules(root)
    wanted = mutation.ours or mutation.rule
    assert wanted in found[Severity.ERROR] | (found[Severity.WARNING] if mutation.warning else set())
    assert "internal.rule" not in found[Severity.ERROR]


def survive(accepted: Path, work: Path, seeds: range) -> int:
    """How many of the damaged submissions something was found about."""
    found = 0
    for seed in seeds:
        root = work / "ACME/pending"
        shutil.copytree(accepted, root)
        choose = random.Random(seed)
        for _ in range(choose.randint(1, 4)):
            change_number(root, choose)
        report = check_endpoints(root)
        broken = [finding.complaint.found for finding in report.findings if finding.rule == INTERNAL]
        assert not broken, f"seed {seed}: {broken}"
        found += any(finding.severity is Severity.ERROR for finding in report.findings)
        shutil.rmtree(root)
    return found


def test_no_number_breaks_a_rule(accepted: Mapping[bool, Path], tmp_path: Path) -> None:
    assert survive(accepted[False], tmp_path, range(6)) > 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_number_of_many_breaks_a_rule(accepted: Mapping[bool, Path], tmp_path: Path) -> None:
    assert survive(accepted[True], tmp_path, range(100, 400)) > 100


def test_every_mutation_names_a_rule_of_ours() -> None:
    known = {rule.id for rule in ALL_ENDPOINTS_RULES}
    assert {f"curve.{mutation.ours or mutation.rule}" for mutation in MUTATIONS} <= known
