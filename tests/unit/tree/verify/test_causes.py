"""Findings by cause: one mistake in many cells is told once, worst first; what could not be compared is counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.check.causes import CAUSES, find_cause, rank_cause
from reconciler.check.grouping import fold_cells, group_by_cause
from reconciler.tree.findings import Complaint, Facts, Place, Rule, Severity, TreeFinding
from reconciler.verify.engine import ALL_RULES, verify_tree
from tests.unit.tree.check.made import set_log, write

CELL = "closed/Acme/results/sys1/resnet/Offline"


def finding(rule: str, cell: str, submitter: str = "Acme", **more: object) -> TreeFinding:
    complaint = Complaint(Place(cell), "this", "that", **more)  # type: ignore[arg-type]
    declared = next((item for item in ALL_RULES if item.id == rule), Rule(rule, f"what {rule} says", ("ours",)))
    return TreeFinding(declared, submitter, cell, complaint)


def test_twins_are_told_once() -> None:
    cells = ["closed/s/bert-99.9/Offline", "closed/s/bert-99/Offline", "closed/s/bert-99/Server", "closed/s"]
    folded = fold_cells("Acme", cells, {})
    assert [item.shown for item in folded] == ["closed/s", "closed/s/bert-99/Server", "closed/s/bert-{99,99.9}/Offline"]
    assert set(folded[2].cells) == {"closed/s/bert-99.9/Offline", "closed/s/bert-99/Offline"}


def test_one_machine_under_two_names_is_told_once() -> None:
    cells = ["closed/old/resnet/Offline", "closed/new/resnet/Offline"]
    logs = {("Acme", cell): "d1" for cell in cells}
    (folded,) = fold_cells("Acme", cells, logs)
    assert folded.shown == "closed/new/resnet/Offline = closed/old/resnet/Offline"
    assert len(folded.cells) == 2
    assert len(fold_cells("Other", cells, logs)) == 2


def test_the_gravest_cause_comes_first_and_questions_last() -> None:
    found = [
        finding("user-conf.contradicts", "closed/a/b/Offline", mechanism="conf-estimate"),
        finding("runs.loadgen", "closed/a/b/Server", severity=Severity.NOTE),
        finding("placement.copied", "closed/a/b/Server"),
        finding("user-conf.contradicts", "closed/a/b/Server", severity=Severity.NOTE),
        finding("placement.accuracy", "closed/a/b/Server", submitter="Bcme"),
    ]
    groups = group_by_cause(found, [Facts("Acme", item.cell, "b", "v6.1") for item in found])
    assert [(group.cause.id, group.submitter) for group in groups] == [
        ("accuracy-of-another-run", "Bcme"),
        ("copied-logs", "Acme"),
        ("conf-estimate", "Acme"),
        ("conf-of-another-run", "Acme"),
        ("runs.loadgen", "Acme"),
    ]
    assert [group.severity for group in groups[-2:]] == [Severity.NOTE, Severity.NOTE]


def test_a_cause_without_an_entry_is_its_rule() -> None:
    cause = find_cause(finding("new.rule", "closed"))
    assert (cause.id, cause.title) == ("new.rule", "what new.rule says")
    assert rank_cause(cause) == len(CAUSES)


def test_errors_and_warnings_have_a_cause_that_says_what_would_settle_them() -> None:
    named = {cause.id for cause in CAUSES}
    for rule in ALL_RULES:
        if rule.severity is not Severity.NOTE:
            item = TreeFinding(rule, "Acme", "closed", Complaint(Place("f"), "a", "b"))
            assert find_cause(item).id in named, rule.id


def test_what_is_no_more_than_a_note_is_asked() -> None:
    notes = [rule for rule in ALL_RULES if rule.severity is Severity.NOTE]
    asked = [find_cause(TreeFinding(rule, "Acme", "closed", Complaint(Place("f"), "a", "b"))).title for rule in notes]
    of_errors = (
        "conf-detail",
        "two-divisions",
        "two-categories",
        "two-submitters",
        "tests-of-own-scenario",
        "uncounted-errors",
    )
    asked += [find_cause(finding("placement.copied", "closed", mechanism=mechanism)).title for mechanism in of_errors]
    assert [title for title in asked if not title.endswith("?")] == []


@pytest.mark.parametrize(
    ("rule", "mechanism", "told"),
    [
        ("compliance.passes", "", "and its own logs say that it failed"),
        ("compliance.passes", "missing-verdict", "pass, and its verification does not say so"),
        ("compliance.counts", "", "does not state what the published runs have"),
        ("compliance.counts", "contradicted-verdict", "the figures above the verdict say that it failed"),
        ("log.consistency", "", "a log contradicts itself"),
        ("log.consistency", "audited-run", "has settings of a compliance test, or of an audit.config"),
        ("log.consistency", "small-library", "more samples than its library says that it has"),
        ("runs.revision", "", "one commit of LoadGen is told in two ways"),
        ("user-conf.contradicts", "", "user.conf does not say what ran"),
        ("user-conf.contradicts", "conf-of-accuracy-run", "user.conf has the setting of the accuracy run"),
    ],
)
def test_a_heading_says_no_more_than_its_evidence(rule: str, mechanism: str, told: str) -> None:
    assert told in find_cause(finding(rule, "closed", mechanism=mechanism)).title


def without(name: str) -> Callable[[Path], None]:
    return lambda root: (root / CELL / name).unlink()


@pytest.mark.parametrize(
    ("change", "reason", "blind"),
    [
        (without("performance/run_1/mlperf_log_detail.txt"), "the performance run's detail log is not there", True),
        (without("accuracy/mlperf_log_detail.txt"), "the accuracy run's detail log is not there", True),
        (without("performance/run_1/mlperf_log_summary.txt"), "the performance run's summary is not there", False),
        (without("user.conf"), "user.conf is not there", False),
        (without("accuracy/accuracy.txt"), "accuracy.txt is not there", False),
        (without("TEST01/performance/run_1/mlperf_log_detail.txt"), "the detail log of a compliance test is", False),
        (lambda root: write(root / CELL / "accuracy/mlperf_log_detail.txt", "x"), "log cannot be read", True),
        (
            lambda root: write(root / CELL / "user.conf", "a.Offline.target_qps = 1\nb.Offline.target_qps = 2\n"),
            "no line of user.conf is for the model and scenario that ran",
            False,
        ),
    ],
)
def test_what_could_not_be_compared_is_counted(
    change: Callable[[Path], None], reason: str, blind: bool, tree: Path
) -> None:
    change(tree)
    report = verify_tree(tree)
    (gap,) = [gap for gap in report.gaps if reason in gap.reason]
    assert (gap.cell, gap.blind) == ("closed/sys1/resnet/Offline", blind)
    assert not blind or not report.clean


def test_an_empty_conf_is_not_one_for_another_model(tree: Path) -> None:
    write(tree / CELL / "user.conf", "")
    assert not [gap for gap in verify_tree(tree).gaps if "is for the model" in gap.reason]


def test_a_whole_tree_has_no_gaps(consistent: Path) -> None:
    assert not verify_tree(consistent).gaps


def test_one_copied_run_is_one_cause(tree: Path) -> None:
    """The log of a compliance test stands for the accuracy run: several findings, one cause."""
    cell = tree / CELL
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        shutil.copyfile(cell / "TEST01/performance/run_1" / name, cell / "accuracy" / name)
    report = verify_tree(tree)
    groups = [group for group in group_by_cause(report.findings, report.facts) if group.severity is not Severity.NOTE]
    assert groups[0].cause.id == "accuracy-of-another-run"
    assert len(groups[0].findings) > 1
    assert [folded.shown for folded in groups[0].cells] == ["closed/sys1/resnet/Offline"]


def test_a_run_with_an_audit_config_is_said_to_be_audited(tree: Path) -> None:
    source, target = tree / CELL / "TEST04/performance/run_1", tree / CELL / "performance/run_1"
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        shutil.copyfile(source / name, target / name)
    set_log(target, "power_begin", '"01-02-2026 10:00:00.000"')
    causes = {find_cause(item).id for item in verify_tree(tree).findings if item.severity is Severity.ERROR}
    assert "audited-run" in causes
