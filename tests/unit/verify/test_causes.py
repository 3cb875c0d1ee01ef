"""Findings by cause: one mistake in many cells is reported once, worst first; what could not be compared is counted."""

from __future__ import annotations

import shutil
from pathlib import Path

from reconciler.check.causes import CAUSES, find_cause
from reconciler.check.grouping import fold_cells, group_by_cause
from reconciler.resource.rules import Rule, Severity
from reconciler.tree.findings import Complaint, Facts, Place, TreeFinding
from reconciler.verify.engine import list_rules, verify_tree

CELL = "closed/Acme/results/sys1/resnet/Offline"


def finding(rule: str, cell: str, submitter: str = "Acme", **more: object) -> TreeFinding:
    complaint = Complaint(Place(cell), "this", "that", **more)  # type: ignore[arg-type]
    declared = next((item for item in list_rules() if item.id == rule), Rule(rule, f"what {rule} says", ("ours",)))
    return TreeFinding(declared, submitter, cell, complaint)


def test_twins_are_reported_once() -> None:
    cells = ["closed/s/bert-99.9/Offline", "closed/s/bert-99/Offline", "closed/s/bert-99/Server", "closed/s"]
    folded = fold_cells("Acme", cells, {})
    assert [item.shown for item in folded] == ["closed/s", "closed/s/bert-99/Server", "closed/s/bert-{99,99.9}/Offline"]
    assert set(folded[2].cells) == {"closed/s/bert-99.9/Offline", "closed/s/bert-99/Offline"}


def test_one_machine_under_two_names_is_reported_once() -> None:
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


def test_errors_and_warnings_have_a_cause_that_says_what_would_settle_them() -> None:
    named = {cause.id for cause in CAUSES}
    for rule in list_rules():
        if rule.severity is not Severity.NOTE:
            item = TreeFinding(rule, "Acme", "closed", Complaint(Place("f"), "a", "b"))
            assert find_cause(item).id in named, rule.id


def test_a_whole_tree_has_no_gaps(consistent: Path) -> None:
    assert not verify_tree(consistent).gaps


def test_one_copied_run_is_one_cause(tree: Path) -> None:
    """The log of a compliance test represents the accuracy run: several findings, one cause."""
    cell = tree / CELL
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        shutil.copyfile(cell / "TEST01/performance/run_1" / name, cell / "accuracy" / name)
    report = verify_tree(tree)
    groups = [group for group in group_by_cause(report.findings, report.facts) if group.severity is not Severity.NOTE]
    assert groups[0].cause.id == "accuracy-of-another-run"
    assert len(groups[0].findings) > 1
    assert [folded.shown for folded in groups[0].cells] == ["closed/sys1/resnet/Offline"]
