"""One log in two cells: which of them may share it; and what another cell has to do with a user.conf that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.resource.rules import Rule, Severity
from reconciler.storage.documents import ResultDocument
from reconciler.tree.findings import Complaint, Facts, Place, TreeFinding
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.system import SystemEntry, SystemFile
from reconciler.tree.rule_engine import compare_cells
from reconciler.verify.cross_cell import PublishedLogs, add_causes, verify_copied_logs

INFERABLE = frozenset({("MultiStream", "SingleStream")})


def sharing(cell: str, official: str, submitter: str = "Acme", run: str = "performance") -> Facts:
    return Facts(submitter, cell, official, "v6.1", digests=((run, "0" * 64),))


FIRST = sharing("closed/box/bert-99/SingleStream", "bert-99")


def find(*facts: Facts, marks: Any = None, **more: Any) -> list[TreeFinding]:
    return list(compare_cells(verify_copied_logs, PublishedLogs(list(facts), {}, marks or {}, **more)))


@pytest.mark.parametrize(
    ("other", "severity"),
    [
        pytest.param(sharing("closed/box/bert-99.9/SingleStream", "bert-99.9"), None, id="accuracy variant"),
        pytest.param(sharing("closed/box/bert-99/MultiStream", "bert-99"), None, id="inferred scenario"),
        pytest.param(sharing("closed/box/bert-99.9/MultiStream", "bert-99.9"), None, id="both at once"),
        pytest.param(sharing("open/box/bert-99/SingleStream", "bert-99"), Severity.NOTE, id="two divisions"),
        pytest.param(sharing("closed/box/bert-99/Offline", "bert-99"), Severity.ERROR, id="other scenario"),
        pytest.param(sharing("closed/box/resnet/SingleStream", "resnet"), Severity.ERROR, id="other benchmark"),
        pytest.param(sharing("closed/big/bert-99/SingleStream", "bert-99"), Severity.ERROR, id="other system"),
        pytest.param(
            sharing("closed/box/bert-99.9/SingleStream", "bert-99.9", "Bcme"), Severity.ERROR, id="other submitter"
        ),
        pytest.param(
            sharing("closed/box/bert-99.9/SingleStream", "bert-99.9", run="accuracy"), Severity.ERROR, id="other run"
        ),
    ],
)
def test_a_log_is_shared_by_variants_and_inferred_scenarios_alone(other: Facts, severity: Severity | None) -> None:
    found = find(FIRST, other, inferable=INFERABLE)
    assert [finding.severity for finding in found] == ([] if severity is None else [severity])


EDGE, DATACENTER = SystemEntry("edge", ("m",)), SystemEntry("datacenter", ("m",))


@pytest.mark.parametrize(
    ("cell", "official", "first", "second", "severity"),
    [
        pytest.param("closed/big/bert-99/SingleStream", "bert-99", EDGE, DATACENTER, Severity.NOTE, id="categories"),
        pytest.param("closed/big/bert-99.9/SingleStream", "bert-99.9", EDGE, DATACENTER, Severity.NOTE, id="variants"),
        pytest.param("closed/big/bert-99/MultiStream", "bert-99", EDGE, DATACENTER, Severity.NOTE, id="inferred"),
        pytest.param("closed/big/bert-99/Offline", "bert-99", EDGE, DATACENTER, Severity.ERROR, id="other scenario"),
        pytest.param("closed/big/resnet/SingleStream", "resnet", EDGE, DATACENTER, Severity.ERROR, id="benchmark"),
        pytest.param("closed/big/bert-99/SingleStream", "bert-99", EDGE, EDGE, Severity.ERROR, id="one category"),
        pytest.param(
            "closed/big/bert-99/SingleStream",
            "bert-99",
            EDGE,
            SystemEntry("datacenter", ("n",)),
            Severity.ERROR,
            id="two",
        ),
        pytest.param(
            "closed/big/bert-99/SingleStream", "bert-99", SystemEntry("edge"), SystemEntry(), Severity.ERROR, id="none"
        ),
    ],
)
def test_a_machine_entered_in_two_categories_has_one_log_for_both(
    cell: str, official: str, first: SystemEntry, second: SystemEntry, severity: Severity
) -> None:
    machines = {("Acme", FIRST.cell): first, ("Acme", cell): second}
    (finding,) = find(FIRST, sharing(cell, official), inferable=INFERABLE, machines=machines)
    assert finding.severity is severity
    assert (finding.complaint.mechanism == "two-categories") == (severity is Severity.NOTE)


ONE = SystemEntry("edge", ("m",), "d")


@pytest.mark.parametrize(
    ("cell", "second", "explained"),
    [
        ("closed/big/bert-99/SingleStream", ONE, True),
        ("closed/big/bert-99.9/SingleStream", ONE, True),
        ("closed/big/bert-99/Offline", ONE, False),
        ("closed/big/bert-99/SingleStream", SystemEntry("edge", ("m",), "e"), False),
    ],
    ids=["same result", "variant", "other scenario", "other description"],
)
def test_several_logs_of_a_machine_that_is_described_word_for_word_under_two_names_are_one_question(
    cell: str, second: SystemEntry, explained: bool
) -> None:
    machines = {("Acme", FIRST.cell): ONE, ("Acme", cell): second}
    (finding,) = find(FIRST, sharing(cell, "bert-99"), inferable=INFERABLE, machines=machines)
    assert finding.severity is Severity.ERROR
    assert bool(finding.complaint.common) is explained


@pytest.mark.parametrize(
    ("run", "cell", "first", "second", "severity"),
    [
        ("accuracy", "closed/big/bert-99/SingleStream", ONE, ONE, Severity.NOTE),
        ("TEST01", "closed/big/bert-99.9/SingleStream", ONE, ONE, Severity.NOTE),
        ("performance", "closed/big/bert-99/SingleStream", ONE, ONE, Severity.ERROR),
        ("accuracy", "closed/big/bert-99/Offline", ONE, ONE, Severity.ERROR),
        ("accuracy", "closed/big/bert-99/SingleStream", ONE, SystemEntry("edge", ("m",), "e"), Severity.ERROR),
        ("accuracy", "closed/big/bert-99/SingleStream", SystemEntry(), SystemEntry(), Severity.ERROR),
    ],
    ids=["accuracy", "test of a variant", "performance", "other scenario", "other description", "no description"],
)
def test_a_machine_that_two_submitters_describe_alike_may_have_one_accuracy_log_and_one_of_a_test(
    run: str, cell: str, first: SystemEntry, second: SystemEntry, severity: Severity
) -> None:
    one = sharing("closed/box/bert-99/SingleStream", "bert-99", "Acme", run)
    other = sharing(cell, "bert-99", "Bcme", run)
    machines = {(one.submitter, one.cell): first, (other.submitter, other.cell): second}
    (finding,) = find(one, other, inferable=INFERABLE, machines=machines)
    assert finding.severity is severity
    assert (finding.complaint.mechanism == "two-submitters") == (severity is Severity.NOTE)


@pytest.mark.parametrize(
    ("said", "alike"),
    [({"submitter": "Bcme"}, True), ({"submitter": "Bcme", "system_name": "B"}, False), ({"notes": "x"}, False)],
)
def test_descriptions_are_alike_where_only_the_submitter_differs(said: dict[str, object], alike: bool) -> None:
    first = {"submitter": "Acme", "system_name": "A", "accelerators_per_node": 4}
    documents = (ResultDocument(first), ResultDocument({**first, **said}))
    entries = [SystemFile("a", Read("a.json", document)).entry for document in documents]
    assert (entries[0] == entries[1]) is alike
    assert not SystemFile("a", Read("a.json")).entry.description


@pytest.mark.parametrize(
    ("said", "one"),
    [
        ({"system_type": "edge", "system_name": "B", "host_memory_capacity": " 256GB"}, True),
        ({"accelerators_per_node": "4"}, True),
        ({"accelerators_per_node": 8}, False),
        ({"framework": "Triton"}, False),
    ],
)
def test_entries_of_one_machine_have_its_processors_and_framework_in_common(said: dict[str, object], one: bool) -> None:
    first = {"system_type": "datacenter", "system_name": "A", "accelerators_per_node": 4, "framework": "TensorRT"}
    documents = (ResultDocument(first), ResultDocument({**first, **said}))
    machines = [SystemFile("a", Read("a.json", document)).machine for document in documents]
    assert (machines[0] == machines[1]) is one
    assert not SystemFile("a", Read("a.json")).machine
    assert not SystemFile("a", Read("a.json", ResultDocument({"system_name": "A"}))).machine


def test_official_name_reports_variants_where_the_folder_has_another() -> None:
    one, two = sharing("open/box/ours/Offline", "bert-99"), sharing("open/box/theirs/Offline", "bert-99.9")
    assert find(one, two) == find(sharing("open/box/bert-99/Offline", ""), two) == []
    assert len(find(one, sharing("open/box/bert/Offline", "resnet"))) == 1
    assert len(find(sharing("open/box/resnet/Offline", ""), two)) == 1


def test_edited_copy_has_other_bytes_and_the_marks_of_another_run() -> None:
    one = configured(digests=(("performance", "a"),))
    two = configured("closed/box/x/Server", digests=(("accuracy", "b"),))
    marks = {("Acme", OWN, "performance"): ("m", "n"), ("Acme", two.cell, "accuracy"): ("o", "n")}
    (reported,) = find(one, two, marks=marks)
    assert reported.cell == two.cell
    assert reported.complaint.found == f"the accuracy log of {OWN} (performance)"
    same = configured(two.cell, digests=(("accuracy", "a"),))
    (copied,) = find(one, same, marks=marks)
    assert copied.complaint.cause not in ("", reported.complaint.cause)
    assert find(one, two) == []


OWN = "closed/box/bert-99/Server"


def configured(cell: str = OWN, target: float | None = None, conf: float | None = None, **reported: object) -> Facts:
    values: dict[str, object] = {"submitter": "Acme", "official": "", "round": "v6.1", **reported}
    return Facts(cell=cell, target=target, conf_target=conf, **values)  # type: ignore[arg-type]


def wrong(found: str = "target_qps = 100000", cause: str = "", mechanism: str = "") -> TreeFinding:
    rule = Rule("user-conf.contradicts", "what user.conf says is what LoadGen took", ())
    complaint = Complaint(Place("user.conf", 3), found, "as logged", cause=cause, mechanism=mechanism)
    return TreeFinding(rule, "Acme", OWN, complaint)


def explain(finding: TreeFinding, *facts: Facts) -> tuple[str, str]:
    (reported,) = add_causes([finding], facts)
    assert (reported.cell, reported.complaint.place, reported.complaint.found) == (
        OWN,
        Place("user.conf", 3),
        finding.complaint.found,
    )
    return reported.complaint.cause, reported.complaint.mechanism


@pytest.mark.parametrize(
    ("other", "named"),
    [
        pytest.param(configured("closed/big/bert-99/Server", 100_000), True, id="other system"),
        pytest.param(configured("closed/big/bert-99.9/Server", 100_000), True, id="variant on an other system"),
        pytest.param(configured("closed/box/resnet/Server", 100_000), True, id="other benchmark"),
        pytest.param(configured("open/box/bert-99/Server", 100_000), True, id="other division"),
        pytest.param(configured("closed/big/resnet/Server", 100_000), False, id="unrelated"),
        pytest.param(configured("closed/box/bert-99/Offline", 100_000), False, id="other scenario"),
        pytest.param(configured("closed/big/bert-99/Server", 100_000, submitter="B"), False, id="other submitter"),
        pytest.param(configured("closed/big/bert-99/Server", 99_999.5), True, id="barely below"),
        pytest.param(configured("closed/big/bert-99/Server", 100_001), True, id="barely above"),
        pytest.param(configured("closed/big/bert-99/Server", 99_998), False, id="below"),
        pytest.param(configured("closed/big/bert-99/Server", 100_002), False, id="above"),
        pytest.param(configured("closed/big/bert-99/Server", None, 100_000), False, id="no target in the log"),
    ],
)
def test_wrong_target_is_explained_by_a_related_cell_whose_log_has_it(other: Facts, named: bool) -> None:
    cause, mechanism = explain(wrong(), configured(target=5, conf=100_000.0), other)
    assert mechanism == ("conf-of-other-cell" if named else "")
    assert cause.endswith(other.cell) is named


def test_scenarios_of_a_round_without_rules_may_share_a_log_for_all_that_is_known() -> None:
    scenario = sharing("closed/box/bert-99/MultiStream", "bert-99")
    system = sharing("closed/big/bert-99/MultiStream", "bert-99")
    found = compare_cells(verify_copied_logs, PublishedLogs([FIRST, scenario, system], {}, inferable=None))
    assert [(item.severity, bool(item.complaint.doubt)) for item in found] == [
        (Severity.NOTE, True),
        (Severity.ERROR, False),
    ]
