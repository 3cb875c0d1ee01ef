"""One log in two cells, and one user.conf: which of them may share it, and what another cell has to do with it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.tree.findings import Complaint, Facts, Place, Rule, Severity, TreeFinding
from reconciler.tree.verify.across import add_causes, verify_copied_logs, verify_edited_copies

INFERABLE = frozenset({("MultiStream", "SingleStream")})


def sharing(cell: str, official: str, submitter: str = "Acme", run: str = "performance") -> Facts:
    return Facts(submitter, cell, official, "v6.1", digests=((run, "0" * 64),))


FIRST = sharing("closed/box/bert-99/SingleStream", "bert-99")


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
    found = list(verify_copied_logs([FIRST, other], {}, INFERABLE))
    assert [finding.complaint.severity for finding in found] == ([] if severity is None else [severity])


OWN = Facts("Acme", "closed/box/bert-99/Server", "bert-99", "v6.1", conf_target=1000.0)


def conf_finding(said: str = "target_qps 1000", cause: str = "", mechanism: str = "") -> TreeFinding:
    complaint = Complaint(Place("user.conf", 3), said, "900, which LoadGen logged", cause=cause, mechanism=mechanism)
    return TreeFinding(Rule("user-conf.contradicts", "t", ("ours",)), OWN.submitter, OWN.cell, complaint)


def find_causes(finding: TreeFinding, *others: Facts, own: Facts = OWN) -> tuple[str, str]:
    (found,) = add_causes([finding], [own, *others])
    assert replace(found.complaint, cause="", mechanism="") == replace(finding.complaint, cause="", mechanism="")
    return found.complaint.cause, found.complaint.mechanism


def other(cell: str, target: float | None = 1000.0, submitter: str = "Acme") -> Facts:
    return Facts(submitter, cell, "bert-99", "v6.1", target=target)


@pytest.mark.parametrize(
    ("cell", "target", "submitter", "said"),
    [
        ("closed/box/resnet/Server", 1000.0, "Acme", True),  # of one system and scenario
        ("closed/big/bert-99/Server", 1000.0, "Acme", True),  # of one benchmark and scenario
        ("closed/big/bert-99.9/Server", 1000.0, "Acme", True),
        ("open/box/bert-99/Server", 1000.0, "Acme", True),
        ("closed/box/bert-99/Offline", 1000.0, "Acme", False),
        ("closed/big/resnet/Server", 1000.0, "Acme", False),
        ("closed/box/resnet/Server", 1000.0, "Bcme", False),
        ("closed/box/resnet/Server", 1000.009, "Acme", True),
        ("closed/box/resnet/Server", 1000.011, "Acme", False),
        ("closed/box/resnet/Server", 999.991, "Acme", True),
        ("closed/box/resnet/Server", 999.989, "Acme", False),
        ("closed/box/resnet/Server", 1.0, "Acme", False),
        ("closed/box/resnet/Server", 0.0, "Acme", False),
        ("closed/box/resnet/Server", None, "Acme", False),
    ],
)
def test_a_target_is_that_of_another_cell_whose_file_can_be_mixed_up_with_it(
    cell: str, target: float | None, submitter: str, said: bool
) -> None:
    found = find_causes(conf_finding(), other(cell, target, submitter))
    told = f"the setting of {cell}, whose log has this target", "conf-of-other-cell"
    assert found == (told if said else ("", ""))


def test_its_own_target_is_of_no_other_cell() -> None:
    assert find_causes(conf_finding(), own=replace(OWN, target=1000.0)) == ("", "")


def test_a_setting_that_is_no_target_is_of_no_other_cells_target() -> None:
    near = other("closed/box/resnet/Server")
    assert find_causes(conf_finding("min_duration 1"), near) == ("", "")
    assert find_causes(conf_finding("target_latency 1"), near)[1] == "conf-of-other-cell"
    assert find_causes(conf_finding(), near, own=replace(OWN, conf_target=None)) == ("", "")


def test_one_conf_in_several_cells_of_a_submitter_is_counted() -> None:
    shared = (("user.conf", "d" * 64),)
    others = [
        Facts("Acme", "closed/box/resnet/Server", "resnet", "v6.1", digests=shared),
        Facts("Acme", "closed/big/dlrm/Offline", "dlrm", "v6.1", digests=(("performance", "x"), *shared)),
        Facts("Acme", "closed/big/bert/Offline", "bert", "v6.1", digests=(("performance", "d" * 64),)),
        Facts("Acme", "closed/big/bert/Server", "bert", "v6.1", digests=(("user.conf", "e" * 64),)),
        Facts("Bcme", "closed/box/bert/Server", "bert", "v6.1", digests=shared),
    ]
    own = replace(OWN, digests=shared)
    said = "one user.conf in 3 cells, as in closed/box/resnet/Server", "conf-of-several"
    assert find_causes(conf_finding("min_duration 1"), *others, own=own) == said
    near = replace(others[0], target=1000.0)  # which says more
    assert find_causes(conf_finding(), near, *others[1:], own=own)[1] == "conf-of-other-cell"
    assert find_causes(conf_finding("min_duration 1"), *others) == ("", "")
    assert find_causes(conf_finding("min_duration 1"), own=own) == ("", "")


def test_a_cause_that_is_known_stays_and_so_does_that_of_an_estimate() -> None:
    near = other("closed/box/resnet/Server")
    assert find_causes(conf_finding(cause="a known one", mechanism="known"), near) == ("a known one", "known")
    assert find_causes(conf_finding(mechanism="conf-estimate"), near)[1] == "conf-estimate"
    assert find_causes(conf_finding(mechanism="conf-of-another-run")) == ("", "conf-of-another-run")
    assert find_causes(conf_finding(mechanism="conf-of-another-run"), near)[1] == "conf-of-other-cell"


def test_findings_of_other_rules_and_of_cells_that_nobody_read_stay_as_they_are() -> None:
    finding = conf_finding()
    strange = replace(finding, rule=Rule("user-conf.ignored", "t", ("ours",)))
    unread = replace(finding, cell="closed/none/bert-99/Server")
    near = other("closed/box/resnet/Server")
    assert list(add_causes([strange, unread], [OWN, near])) == [strange, unread]


def describe(found: TreeFinding) -> tuple[str, str, str, str, str]:
    said = found.complaint
    assert said.other is not None
    return found.submitter, found.cell, said.place.file, said.found, said.other.file


CELL, LATER = "closed/box/bert-99/Server", "closed/box/resnet/Server"
FILES = {("Acme", CELL, "performance"): "first.txt", ("Acme", LATER, "accuracy"): "later.txt"}


@pytest.mark.parametrize(
    ("later", "run", "said"),
    [
        ("Acme", "performance", ("Acme", LATER, LATER, f"the performance log of {CELL}", "first.txt")),
        ("Acme", "accuracy", ("Acme", LATER, "later.txt", f"the accuracy log of {CELL} (performance)", "first.txt")),
        ("Bcme", "performance", ("Bcme", LATER, LATER, f"the performance log of Acme {CELL}", "first.txt")),
    ],
)
def test_the_later_of_two_cells_is_named_with_the_first_beside_it(
    later: str, run: str, said: tuple[str, str, str, str, str]
) -> None:
    facts = [sharing(CELL, "bert-99"), sharing(LATER, "resnet", later, run)]
    (found,) = verify_copied_logs(facts, FILES)
    assert describe(found) == said
    assert (found.complaint.wanted, found.complaint.cause) == ("a log of its own", "copied from another cell")


def test_a_log_is_no_copy_of_itself_and_a_conf_is_no_log() -> None:
    twice = Facts("Acme", CELL, "bert-99", "v6.1", digests=(("user.conf", "c"), ("performance", "p")))
    other_conf = Facts("Acme", LATER, "resnet", "v6.1", digests=(("user.conf", "c"), ("performance", "q")))
    assert list(verify_copied_logs([twice, twice, other_conf], {})) == []
    within = Facts("Acme", CELL, "bert-99", "v6.1", digests=(("performance", "p"), ("accuracy", "p")))
    (found,) = verify_copied_logs([within], {})
    assert found.complaint.found == f"the accuracy log of {CELL} (performance)"


@pytest.mark.parametrize(
    ("official", "own"), [("", "bert-99.9"), ("bert-99.9", "ours"), ("bert-99.9", "bert-99.9")], ids=["", "as", "both"]
)
def test_a_variant_is_known_by_its_folder_where_nothing_says_what_it_is_entered_as(official: str, own: str) -> None:
    cells = [sharing("closed/box/bert-99/Server", "bert-99"), sharing(f"closed/box/{own}/Server", official)]
    assert list(verify_copied_logs(cells, {})) == []
    assert list(verify_copied_logs(list(reversed(cells)), {})) == []


def test_a_log_that_was_edited_since_is_known_by_what_no_two_runs_share() -> None:
    first = Facts("Acme", CELL, "bert-99", "v6.1", digests=(("performance", "p"),))
    later = Facts("Acme", LATER, "resnet", "v6.1", digests=(("performance", "q"),))
    marks = {("Acme", CELL, "performance"): ("clock 1", "latencies 1")}

    def find(theirs: tuple[str, ...], second: Facts = later) -> list[TreeFinding]:
        known = {**marks, ("Acme", second.cell, "performance"): theirs}
        return list(verify_edited_copies([first, second], FILES, known))

    for theirs in (("clock 2", "latencies 1"), ("clock 1", "latencies 2"), ("clock 1", "latencies 1")):
        (found,) = find(theirs)
        assert describe(found) == ("Acme", LATER, LATER, f"the performance log of {CELL}", "first.txt")
        assert found.complaint.cause == "a copy that was edited"
        assert found.complaint.wanted.startswith("latencies or a clock")
    assert find(("clock 2", "latencies 2")) == []
    assert find(()) == []
    whole = replace(later, digests=(("performance", "p"),))  # which is told as a copy
    assert find(("clock 1", "latencies 1"), whole) == []
    variant = replace(later, cell="closed/box/bert-99.9/Server", official="bert-99.9")
    assert find(("clock 1", "latencies 1"), variant) == []
