"""Each rule speaks when its one condition is broken, and nothing speaks about a clean tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.engine import check_tree, list_rules
from reconciler.resource.rules import Severity
from reconciler.storage.untrusted_files import DEEPEST
from tests.unit.check.conftest import checked
from tests.unit.check.mutations import MUTATIONS, Mutation, logged

ALL_RULES = list_rules()


def test_a_clean_tree_is_clean(clean_trees: Callable[[str], Path]) -> None:
    report = checked(clean_trees("closed"))
    assert not report.findings
    assert report.clean
    assert [facts.cell for facts in report.facts] == [
        "closed/sys1/resnet/MultiStream",
        "closed/sys1/resnet/Offline",
        "closed/sys1/resnet/SingleStream",
    ]
    assert all(facts.metric and facts.validity == "VALID" for facts in report.facts)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_one_mutation_breaks_one_rule(mutation: Mutation, tree_of: Callable[[str], Path]) -> None:
    root = tree_of(mutation.division)
    mutation.change(root)
    report = checked(root)
    shown = [f"{f.rule.id} {f.complaint.place}: {f.complaint.found}" for f in report.findings]
    assert {finding.rule.id for finding in report.findings} == mutation.rules, shown
    files = {finding.complaint.place for finding in report.findings}
    assert len(files) == len(report.findings), shown


@pytest.mark.parametrize(("round_name", "severity"), [("v6.1", Severity.WARNING), ("v5.1", Severity.ERROR)])
def test_only_links_that_the_rounds_checker_finds_broken_are_errors(
    round_name: str, severity: Severity, tree_of: Callable[[str], Path]
) -> None:
    root = tree_of("closed")
    source = root / "closed/Acme/src/resnet"
    (source / "relative.py").symlink_to("run.py")
    (source / "rooted.py").symlink_to(source / "run.py")
    (root / "closed/Acme/src/folder").symlink_to("resnet")
    findings = [f for f in check_tree(root, round_name=round_name).findings if f.rule.id == "submitter.links"]
    found = {f.complaint.place.file.rpartition("/")[2]: f.severity for f in findings}
    assert found == {"relative.py": severity, "rooted.py": Severity.NOTE, "folder": Severity.NOTE}


def test_every_finding_says_what_is_wanted(tree_of: Callable[[str], Path]) -> None:
    root = tree_of("closed")
    chosen = {m.name: m for m in MUTATIONS if m.name in ("INVALID", "bad status", "no TEST01", "empty folder")}
    assert len(chosen) == 4
    for mutation in chosen.values():
        mutation.change(root)
    findings = checked(root).findings
    assert {finding.rule.id for finding in findings} >= set().union(*(m.rules for m in chosen.values()))
    for finding in findings:
        assert finding.submitter == "Acme"
        assert finding.complaint.found
        assert finding.complaint.wanted
        assert finding.rule.sources
        assert (root / finding.complaint.place.file).exists() or "missing" in finding.complaint.found


@pytest.mark.parametrize(("round_name", "severity"), [("v6.1", Severity.ERROR), ("v5.1", Severity.WARNING)])
def test_a_count_in_words_is_an_error_only_where_the_round_asks_for_numbers(
    round_name: str, severity: Severity, tree_of: Callable[[str], Path]
) -> None:
    root = tree_of("closed")
    described = root / "closed/Acme/systems/sys1.json"
    described.write_text(json.dumps({**json.loads(described.read_text()), "accelerators_per_node": "N/A"}))
    found = [item for item in check_tree(root, round_name=round_name).findings if item.rule.id == "system.fields"]
    assert [item.severity for item in found] == [severity]


@pytest.mark.parametrize(("division", "severity"), [("closed", Severity.ERROR), ("open", Severity.WARNING)])
def test_a_percentile_of_its_own_is_an_error_only_in_the_closed_division(
    division: str, severity: Severity, tree_of: Callable[[str], Path]
) -> None:
    root = tree_of(division)
    logged("effective_target_latency_percentile", 0.5)(root)
    assert [(item.rule.id, item.severity) for item in checked(root).findings] == [("run.percentile", severity)]


def test_folders_within_each_other_are_examined_to_a_bound(tree_of: Callable[[str], Path]) -> None:
    """A file at the bound is one that was examined; a folder there may hold more."""
    root = tree_of("closed")
    top = root / "closed/Acme"
    deep = top.joinpath("src/resnet", *["d"] * (DEEPEST - 3))
    deep.mkdir(parents=True)
    (deep / "code.py").write_text("pass\n")
    assert not checked(root).findings
    (deep / "more").mkdir()
    (deep / "more/code.py").write_text("pass\n")
    (finding,) = checked(root).findings
    place = (deep / "more").relative_to(root).as_posix()
    assert (finding.rule.id, finding.complaint.place.file) == ("submitter.depth", place)


def test_rules_have_names_of_their_own() -> None:
    assert len(ALL_RULES) > 20
    assert all("." in rule.id and rule.title and rule.sources for rule in ALL_RULES)
    assert len({rule.id for rule in ALL_RULES}) == len(ALL_RULES)


def test_milder_findings_do_not_fail_a_tree(tree_of: Callable[[str], Path]) -> None:
    root = tree_of("closed")
    run_2 = next(mutation for mutation in MUTATIONS if mutation.name == "run_2")
    run_2.change(root)
    report = checked(root)
    assert report.count(Severity.NOTE) == 1
    assert report.clean
