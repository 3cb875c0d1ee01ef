"""An accusation has premises, and where one is not shown it is a question that says which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.resource.rules import Premise, Severity, question, rule
from reconciler.rules.ruleset import Ruleset
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.rule_engine import About, apply_rules
from reconciler.verify.engine import list_rules, verify_tree
from reconciler.verify.premises import are_one_name
from tests.unit.check.made import change_system, set_log, write

CELL = "closed/Acme/results/sys1/resnet/Offline"
LOG = f"{CELL}/performance/run_1"


def doubt_odd(complaint: Complaint, view: int) -> str:
    return f"{view} is odd" if view % 2 and complaint.found == "odd" else ""


EVEN = Premise("The view is even.", doubt_odd)


@rule("test.even", "what is even", sources=("ours",), premises=(EVEN,))
def find_all(view: int) -> Iterator[Complaint]:
    """Every number is
    complained of."""
    yield Complaint(Place(str(view)), "odd", "even")
    yield Complaint(Place(str(view)), "other", "even")
    yield Complaint(Place(str(view)), "odd", "even", doubt="said by the rule")
    yield Complaint(Place(str(view)), "odd", "even", severity=Severity.NOTE)


def test_what_is_not_shown_is_a_question_that_says_why() -> None:
    shown = list(apply_rules((find_all,), 2, About("Acme", "closed")))
    assert [item.severity for item in shown] == [Severity.ERROR, Severity.ERROR, Severity.NOTE, Severity.NOTE]
    asked = list(apply_rules((find_all,), 3, About("Acme", "closed")))
    assert [item.severity for item in asked] == [Severity.NOTE, Severity.ERROR, Severity.NOTE, Severity.NOTE]
    assert [item.complaint.doubt for item in asked] == ["3 is odd", "", "said by the rule", ""]


def test_a_rule_is_declared_where_it_is_applied() -> None:
    rule = find_all.rule
    assert (rule.id, rule.argument, rule.premises) == ("test.even", "Every number is complained of.", (EVEN,))
    with pytest.raises(TypeError, match="docstring"):
        question("test.silent", "what?", sources=("ours",))(lambda _: iter(()))


def test_every_error_has_a_premise_and_every_rule_an_argument() -> None:
    assert [rule.id for rule in list_rules() if not rule.argument] == []
    assert [rule.id for rule in list_rules() if rule.severity is Severity.ERROR and not rule.premises] == []


def severities(tree: Path, rule: str) -> list[tuple[Severity, bool]]:
    found = [item for item in verify_tree(tree).findings if item.rule.id == rule]
    return [(item.severity, bool(item.complaint.doubt)) for item in found]


def test_dates_alone_do_not_accuse_and_the_loggers_clock_does(tree: Path) -> None:
    set_log(tree / LOG, "effective_min_duration_ms", 86_400_000)
    assert severities(tree, "log.duration") == [(Severity.ERROR, False)]


def test_a_clock_that_is_set_to_another_year_is_asked_about(tree: Path) -> None:
    set_log(tree / LOG, "loadgen_build_date_utc", '"2071-06-01T00:00:00"')
    found = severities(tree, "log.consistency")
    assert found, "a build after the run"
    assert set(found) == {(Severity.NOTE, True)}


def test_logs_of_a_loadgen_that_is_not_known_accuse_of_nothing_that_it_derives(tree: Path) -> None:
    set_log(tree / LOG, "early_stopping_met", "false")
    assert severities(tree, "log.validity") == [(Severity.ERROR, False)]
    set_log(tree / LOG, "loadgen_version", '"7.0 @ 0123456789"')
    assert severities(tree, "log.validity") == [(Severity.NOTE, True)]


def test_a_second_version_of_loadgen_is_no_way_out(tree: Path) -> None:
    set_log(tree / LOG, "early_stopping_met", "false")
    path = tree / LOG / "mlperf_log_detail.txt"
    lines = path.read_text().splitlines(keepends=True)
    first = next(line for line in lines if '"key": "loadgen_version"' in line)
    write(path, "".join([re.sub(r'"value": "[^"]*"', '"value": "7.0 @ 0123456789"', first), *lines]))
    assert severities(tree, "log.validity") == [(Severity.ERROR, False)]
    assert (Severity.ERROR, False) in severities(tree, "log.consistency")


def test_a_pointer_that_git_keeps_is_no_broken_file(tree: Path) -> None:
    path = tree / CELL / "measurements.json"
    write(path, "{")
    assert severities(tree, "files.readable") == [(Severity.ERROR, False)]
    write(path, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n")
    assert severities(tree, "files.readable") == [(Severity.NOTE, True)]


def test_a_pass_behind_a_failure_may_be_that_of_the_fallback(tree: Path) -> None:
    path = tree / CELL / "TEST01/verify_accuracy.txt"
    counts = "num_acc_log_entries = 50000\nnum_perf_log_data_mismatch = 1\n"
    write(path, f"{counts}TEST PASS\n")
    assert severities(tree, "compliance.counts") == [(Severity.ERROR, False)]
    write(path, f"{counts}TEST FAIL\n\nbaseline accuracy: 28.5\nTEST PASS\n")
    assert severities(tree, "compliance.counts") == [(Severity.NOTE, True)]


def test_a_name_that_is_spelt_otherwise_is_asked_about(tree: Path) -> None:
    change_system(tree, submitter="Bcme")
    assert severities(tree, "system.names") == [(Severity.ERROR, False)]
    change_system(tree, submitter="Acme Inc.")
    assert severities(tree, "system.names") == [(Severity.NOTE, True)]


def test_a_tree_without_descriptions_may_be_a_part(tree: Path) -> None:
    (tree / "closed/Acme/systems/sys1.json").unlink()
    assert severities(tree, "system.description") == [(Severity.ERROR, False)]
    (tree / "closed/Acme/systems").rmdir()
    assert severities(tree, "system.description") == [(Severity.NOTE, True)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Dell EMC", "Dell_EMC", True),
        ("Inspur Electronic", "inspur", True),
        ("Acme", "Bcme", False),
        ("", "Acme", False),
        ("--", "Acme", False),
    ],
)
def test_two_spellings_of_one_name(one: str, other: str, same: bool) -> None:
    assert are_one_name(one, other) is same
    assert are_one_name(other, one) is same


def test_a_round_without_rules_accuses_of_nothing_ruled(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_system(tree, system_type="datacenter")
    assert {item[0] for item in severities(tree, "system.category")} == {Severity.ERROR}
    monkeypatch.setattr(Ruleset, "is_known", False)
    assert severities(tree, "system.category") == []
