"""Findings by cause: one mistake in many cells is reported once, worst first; what could not be compared is counted."""

from __future__ import annotations

import shutil
from pathlib import Path

from reconciler.check.causes import CAUSES, find_cause, fold_cells, group_by_cause
from reconciler.resource.rules import Premise, Rule, Severity
from reconciler.tree.findings import Complaint, Facts, Place, TreeFinding
from reconciler.verify.engine import fold_systemic, list_rules, verify_tree

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


def test_cells_with_one_log_are_reported_once() -> None:
    logs = dict.fromkeys(
        [("Acme", f"closed/{system}/rgat/{name}") for system in "ab" for name in ("Offline", "Server")], "#"
    )
    cells = [cell for _, cell in logs]
    assert [item.shown for item in fold_cells("Acme", cells, logs)] == ["closed/{a,b}/rgat/{Offline,Server}"]
    assert [item.shown for item in fold_cells("Acme", cells[1:3], logs)] == [
        "closed/a/rgat/Server = closed/b/rgat/Offline"
    ]


def test_errors_come_first_by_cause_and_questions_last() -> None:
    found = [
        finding("user-conf.contradicts", "closed/a/b/Offline", mechanism="conf-estimate"),
        finding("runs.loadgen", "closed/a/b/Server", severity=Severity.NOTE),
        finding("placement.copied", "closed/a/b/Server"),
        finding("user-conf.contradicts", "closed/a/b/Server", severity=Severity.NOTE),
        finding("placement.accuracy", "closed/a/b/Server", submitter="Bcme"),
        finding("placement.accuracy", "closed/a/b/Server", submitter="Ccme", severity=Severity.WARNING),
    ]
    groups = group_by_cause(found, [Facts("Acme", item.cell, "b", "v6.1") for item in found])
    assert [(group.cause.id, group.submitter) for group in groups] == [
        ("accuracy-of-another-run", "Bcme"),
        ("copied-logs", "Acme"),
        ("conf-estimate", "Acme"),
        ("accuracy-of-another-run", "Ccme"),
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


def test_a_description_that_is_no_json_is_a_file_that_cannot_be_read(tree: Path) -> None:
    (tree / "closed/Acme/systems/sys1.json").write_text("{{")
    (found,) = [item for item in verify_tree(tree).findings if item.rule.id == "system.description"]
    assert find_cause(found).id == "unreadable"


ERROR = Rule("log.kind", "a kind", ("ours",), premises=(Premise("It holds."),))
PROVEN = Rule("log.proven", "a kind", ("ours",), premises=(Premise("It holds."),), proof="it is so")
ASKS = Rule("log.asks", "a kind?", ("ours",), Severity.NOTE)


def results(submitter: str, count: int, of: str = "v6.1") -> list[Facts]:
    return [Facts(submitter, f"closed/{submitter}/net/{number}", "net", of) for number in range(count)]


def find(
    facts: list[Facts], rule: Rule = ERROR, aspect: str = "", doubt: str = "", common: str = ""
) -> list[TreeFinding]:
    complaint = Complaint(Place("file"), "this", "that", aspect=aspect, doubt=doubt, common=common)
    return [TreeFinding(rule, item.submitter, item.cell, complaint) for item in facts]


def count(found: tuple[TreeFinding, ...]) -> list[tuple[Severity, str, int]]:
    return [(item.severity, item.submitter, len(item.members)) for item in found]


def test_many_results_of_one_submitter_are_that_submitters_affair() -> None:
    one, two = results("A", 50), results("B", 70)
    found = find(one[:40])
    assert fold_systemic(found, [*one, *two]) == tuple(found)


def test_each_round_is_counted_apart() -> None:
    old, new = results("A", 10, "v6.0"), results("B", 1000)
    others = results("C", 10, "v6.0")
    found = find([*old[:5], *others[:5]])
    ((severity, submitter, members),) = count(fold_systemic(found, [*old, *others, *new]))
    assert (severity, submitter, members) == (Severity.NOTE, "", 10)


def test_a_proven_kind_and_a_question_stay_as_they_are() -> None:
    own = results("A", 30)
    for rule in (PROVEN, ASKS):
        found = find(own, rule)
        assert fold_systemic(found, own) == tuple(found)


def test_several_results_of_a_submitter_that_one_explanation_fits_are_one_question() -> None:
    own, others = results("A", 30), results("B", 30)
    few = find(own[:4], PROVEN, common="one tool")
    assert fold_systemic(few, [*own, *others]) == tuple(few)
    elsewhere = find(others[:1], PROVEN, common="one tool")
    unexplained = find(own[9:20], PROVEN)
    found = [*few, *find(own[4:5], PROVEN, common="one tool"), *elsewhere, *unexplained]
    kept = fold_systemic(found, [*own, *others])
    assert count(kept) == [(Severity.NOTE, "A", 5), (Severity.ERROR, "B", 0), *[(Severity.ERROR, "A", 0)] * 11]
    assert kept[0].complaint.cause == "one tool"


def test_a_finding_about_a_benchmark_is_about_its_results() -> None:
    own = results("A", 6)
    (finding,) = find([Facts("A", "closed/A/net", "net", "v6.1")])
    ((severity, _, members),) = count(fold_systemic([finding], own))
    assert (severity, members) == (Severity.NOTE, 1)
    elsewhere = find([Facts("A", "closed/A/ne", "ne", "v6.1")])
    assert fold_systemic(elsewhere, own) == tuple(elsewhere)
