"""Conditions of cells, and the table that shows them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.change import CONTRADICTED, Action, Change, Chosen, Difference, Finding, Reason, Work
from reconciler.diff.conditions import summarise_cells, trace_lineages
from reconciler.observed.state import Observed
from reconciler.render.status import render_status_text
from reconciler.resource.conditions import NOT_REQUIRED, CellStatus
from reconciler.resource.kinds import PERFORMANCE as TIMED
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Recorded, Summary
from reconciler.resource.resources import Resource
from tests.unit.diff.simulated import Wish, World, desire
from tests.unit.diff.test_acceptance import accepted, with_it

OFFLINE = Cell("open", "box", "digits", "Offline")
SERVER = Cell("open", "box", "digits", "Server")
MODEL = Address(Kind.MODEL, "digits")


def resources(cell: Cell) -> list[Resource]:
    engine, score, result = (Address(kind, str(cell)) for kind in (Kind.ENGINE, Kind.SCORE, Kind.RESULT))
    accuracy, performance = (Address(Kind.RUN, f"{cell}/{mode}") for mode in ("accuracy", "performance"))
    made = [
        (engine, (MODEL,)),
        (accuracy, (engine,)),
        (performance, (engine,)),
        (score, (accuracy,)),
        (result, (accuracy, performance, score)),
    ]
    return [Resource(address, f"key {address}", upstream, cell) for address, upstream in made]


def desired() -> Desired:
    all_of_them = (Resource(MODEL, "key model"), *resources(OFFLINE), *resources(SERVER))
    return Desired(
        digest="d",
        resources=all_of_them,
        detail=lambda _: Detail(()),
        name="one",
        by_address={r.address: r for r in all_of_them},
    )


def summary(name: str, address: Address, metric: tuple[str, str], validity: str = "") -> Summary:
    return Summary(
        name, address, f"key {address}", Ended.DONE, "", 1.0, (), validity, metric=metric, marks=("rehearsal",)
    )


RECORDED = Recorded(
    by_key={
        "p": (summary("p", Address(Kind.RUN, f"{OFFLINE}/performance"), ("107.2", "samples/s"), "VALID"),),
        "s": (summary("s", Address(Kind.SCORE, str(OFFLINE)), ("98.9", "acc")),),
    }
)
CHOSEN = {OFFLINE: Chosen(performance="p", score="s")}


def stand(*changes: Change, findings: tuple[Finding, ...] = (), **observed: object) -> dict[Cell, CellStatus]:
    seen = Observed(tree_present=True, rendered={str(OFFLINE): "f", str(SERVER): "f"})
    seen = replace(seen, **observed)  # type: ignore[arg-type]
    found = summarise_cells(desired(), RECORDED, seen, Difference(changes, findings=findings, chosen=CHOSEN))
    return {standing.cell: standing for standing in found}


def change(kind: Kind, name: str, reason: Reason = Reason.INPUT_CHANGED, how: Work = Work.MAKE) -> Change:
    address = Address(kind, name)
    key = "key model" if kind is Kind.MODEL else f"key {address}"
    return Change(address, key, Action.REPLACE, reason, how)


def words(standing: CellStatus) -> str:
    """Less what nothing asks for, as the table leaves it out."""
    return " ".join(c.status.value[0] for c in standing.conditions if c.reason != NOT_REQUIRED)


def test_all_true_when_nothing_differs() -> None:
    assert words(stand()[OFFLINE]) == "T T T T T T"
    assert stand()[OFFLINE].metric == ("107.2", "samples/s")
    assert stand()[OFFLINE].marks == ("rehearsal",)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((change(Kind.ENGINE, str(OFFLINE)),), "F T T T T F"),
        ((change(Kind.RUN, f"{OFFLINE}/performance"),), "T T F U T F"),
        ((change(Kind.RUN, f"{OFFLINE}/accuracy"),), "T U T T T U"),
        ((change(Kind.SCORE, str(OFFLINE)),), "T U T T T U"),
        ((change(Kind.RESULT, str(OFFLINE), how=Work.RENDER),), "T T T T F F"),
    ],
    ids=["engine", "performance", "accuracy", "score", "result"],
)
def test_one_change_shows_in_its_column_and_in_ready_only(changes: tuple[Change, ...], expected: str) -> None:
    found = stand(*changes)
    assert words(found[OFFLINE]) == expected
    assert words(found[SERVER]) == "T T T T T T"


def test_what_cells_share_shows_in_each() -> None:
    assert {words(s) for s in stand(change(Kind.MODEL, "digits")).values()} == {"F T T T T F"}


def test_an_invalid_run_is_red_and_says_its_margin() -> None:
    finding = Finding("Invalid", str(OFFLINE), "p99 is 20 % above the limit")
    found = stand(findings=(finding,), rendered={})[OFFLINE]
    assert words(found) == "T T T F U F"
    assert found.conditions[3].reason == "Invalid"
    assert found.conditions[-1].message == "p99 is 20 % above the limit"


def test_an_invalid_run_is_measured_though_not_published() -> None:
    address = Address(Kind.RUN, f"{SERVER}/performance")
    invalid = summary("i", address, ("12.5", "queries/s"), "INVALID")
    recorded = Recorded(by_key={"i": (invalid,)})
    difference = Difference((), recorded_as={address: "i"}, chosen={SERVER: Chosen()})
    found = summarise_cells(desired(), recorded, Observed(), difference)[1]
    assert (found.metric, found.validity) == (("12.5", "queries/s"), "INVALID")
    assert "12.5 queries/s  INVALID, rehearsal" in render_status_text((found,))


def test_accuracy_below_the_bar_is_no_invalid_run() -> None:
    finding = Finding("AccuracyBelow", str(OFFLINE), "98.1 is below 99")
    assert words(stand(findings=(finding,))[OFFLINE]) == "T F T T T F"


@pytest.mark.parametrize(
    ("where", "red"),
    [("Run:{}/performance", 3), ("Run:{}/accuracy", 1), ("Score:{}", 1), ("ComplianceTest:{}/TEST01", None)],
)
def test_contradicted_logs_are_red_where_they_count(where: str, red: int | None) -> None:
    finding = Finding(CONTRADICTED, where.format(OFFLINE), "accuracy is not about this")
    conditions = stand(findings=(finding,))[OFFLINE].conditions[:4]
    assert [n for n, condition in enumerate(conditions) if condition.status.value == "False"] == (
        [red] if red is not None else []
    )


def test_a_cell_with_tests_shows_whether_they_pass() -> None:
    at = Address(Kind.COMPLIANCE_TEST, f"{OFFLINE}/TEST01"), Address(Kind.VERDICT, f"{OFFLINE}/TEST01")
    tests = tuple(Resource(address, f"key {address}", (), OFFLINE) for address in at)
    with_tests = replace(desired(), resources=(*desired().resources, *tests))
    seen = Observed(tree_present=True, rendered={str(OFFLINE): "f", str(SERVER): "f"})

    def audited(*changes: Change, findings: tuple[Finding, ...] = ()) -> tuple[str, str]:
        difference = Difference(changes, findings=findings, chosen=CHOSEN)
        found = summarise_cells(with_tests, RECORDED, seen, difference)
        condition = next(c for c in found[0].conditions if c.type == "Audited")
        return condition.status.value, condition.reason

    assert audited() == ("True", "Passed")
    assert audited(change(Kind.VERDICT, f"{OFFLINE}/TEST01", Reason.UPSTREAM_REPLACED)) == (
        "Unknown",
        "UpstreamReplaced",
    )
    assert audited(change(Kind.COMPLIANCE_TEST, f"{OFFLINE}/TEST01")) == ("Unknown", "InputChanged")
    fails = Finding("AuditFails", str(OFFLINE), "TEST01: the score is +12 % of 100")
    assert audited(findings=(fails,)) == ("False", "AuditFails")
    assert audited(findings=(Finding("Invalid", str(OFFLINE), "too slow"),)) == ("Unknown", "NotJudged")
    assert audited(findings=(Finding("AccuracyBelow", str(OFFLINE), "98 %"),)) == ("True", "Passed")


def test_an_edited_file_is_red_and_a_missing_tree_is_not() -> None:
    edited = stand(tree={str(OFFLINE): (("a/b.json", "edited"), ("a/c.json", "missing"))})[OFFLINE]
    assert (words(edited), edited.conditions[-2].reason) == ("T T T T F F", "FileEdited")
    link = stand(tree={str(OFFLINE): (("a/b.json", "a link"),)})[OFFLINE].conditions[-2]
    assert (link.reason, link.message) == ("FileReplaced", "a/b.json is a link")
    assert words(stand(tree_present=False, rendered={})[OFFLINE]) == "T T T T T T"


def test_what_accepted_results_were_made_from_may_be_made_again_for_others() -> None:
    before = [Wish("a"), Wish("b", scenario="Server")]
    after = [replace(wish, batch=2) for wish in before]  # by one engine
    world, desired = World(), desire(after)
    world.settle(desire(before))
    item = accepted(world, desired, after[0].cell)
    found = summarise_cells(desired, world.recorded, Observed(), with_it(world, desired, item))
    assert {standing.cell.benchmark: words(standing) for standing in found} == {"a": "T T T T T T", "b": "F U F U F F"}
    assert {standing.cell.benchmark: standing.marks for standing in found} == {
        "a": ("accepted until 2026-04-01",),
        "b": (),
    }


def test_blocked_is_said() -> None:
    engine = change(Kind.ENGINE, str(OFFLINE))
    blocked = {engine.address: "no H200 here"}
    found = summarise_cells(desired(), RECORDED, Observed(), Difference((engine,), chosen=CHOSEN), blocked)
    assert found[0].conditions[0].message == "blocked: no H200 here"


BORROWING = Cell("open", "box", "digits", "SingleStream")


def borrow(*own: str) -> Desired:
    """A cell that publishes the runs of Offline, but for those that are its ``own``."""
    runs = {mode: Address(Kind.RUN, f"{BORROWING if mode in own else OFFLINE}/{mode}") for mode in ("accuracy", TIMED)}
    ups = (*runs.values(), Address(Kind.SCORE, str(OFFLINE)))
    made = [Resource(address, f"key {address}", (), BORROWING) for mode, address in runs.items() if mode in own]
    made.append(Resource(Address(Kind.RESULT, str(BORROWING)), "key borrowing", ups, BORROWING))
    everything = (*desired().resources, *made)
    return replace(desired(), resources=everything, by_address={r.address: r for r in everything})


@pytest.mark.parametrize(
    ("changed", "inferred", "sharing"),
    [
        ((), "T T T T T T", "T T T T T T"),
        ((Kind.RUN, f"{OFFLINE}/performance"), "T T F U T F", "T T T T T T"),
        ((Kind.RUN, f"{OFFLINE}/accuracy"), "T U T T T U", "T U T T T U"),
        ((Kind.SCORE, str(OFFLINE)), "T U T T T U", "T U T T T U"),
    ],
    ids=["nothing", "performance", "accuracy", "score"],
)
def test_a_cell_is_as_the_runs_it_takes(changed: tuple[Kind, str] | tuple[()], inferred: str, sharing: str) -> None:
    """``sharing``: only its accuracy is that of the other."""
    changes = (change(*changed),) if changed else ()
    seen = Observed(tree_present=True, rendered={str(BORROWING): "f"})
    for own, expected, marked in (((), inferred, True), ((TIMED,), sharing, False)):
        found = summarise_cells(borrow(*own), RECORDED, seen, Difference(changes, chosen=CHOSEN))
        (standing,) = (each for each in found if each.cell == BORROWING)
        assert words(standing) == expected
        assert ("inferred" in standing.marks) is marked


@pytest.mark.parametrize(
    ("kind", "where", "inferred", "sharing"),
    [
        ("Invalid", str(OFFLINE), True, False),
        ("Invalid", f"Run:{OFFLINE}/performance", True, False),
        ("Invalid", str(BORROWING), True, True),
        ("AccuracyBelow", str(OFFLINE), True, True),
        ("Lost", f"Score:{OFFLINE}", True, True),
        ("Invalid", str(SERVER), False, False),
        ("AccuracyBelow", f"{OFFLINE}-99", False, False),
    ],
)
def test_what_is_wrong_with_runs_it_takes_is_its_own(kind: str, where: str, inferred: bool, sharing: bool) -> None:
    findings = (Finding(kind, where, "so it is"),)
    for own, reported in (((), inferred), ((TIMED,), sharing)):
        found = summarise_cells(borrow(*own), RECORDED, Observed(), Difference((), findings=findings, chosen=CHOSEN))
        (standing,) = (each for each in found if each.cell == BORROWING)
        assert standing.conditions[-1].message == ("so it is" if reported else "")


def test_an_accuracy_run_that_only_follows_a_performance_run_is_not_made_from_it() -> None:
    """The runs of one are made again without those of the other."""
    both = desired()
    accuracy, timed = (Address(Kind.RUN, f"{OFFLINE}/{mode}") for mode in ("accuracy", TIMED))
    tied = tuple(replace(r, upstream=(*r.upstream, timed)) if r.address == accuracy else r for r in both.resources)
    sharing = Resource(Address(Kind.RESULT, str(BORROWING)), "key borrowing", (accuracy,), BORROWING)
    everything = (*tied, sharing)
    lineage = trace_lineages(replace(both, resources=everything, by_address={r.address: r for r in everything}))
    assert [r.address.label for r in lineage[BORROWING]] == ["Model", "Engine", "Run accuracy", "Result"]


def test_a_long_table_shows_what_is_not_ready_first() -> None:
    table = render_status_text(tuple(stand(change(Kind.ENGINE, str(SERVER))).values()), limit=1).splitlines()
    assert table[1].startswith(str(SERVER))
    assert table[2] == "… and 1 more cell; --all shows them"


def test_efficiency_of_a_measured_run_is_next_to_its_result() -> None:
    standing = stand()[OFFLINE]
    assert "samples/J" not in render_status_text([standing])
    row = render_status_text([replace(standing, efficiency=("0.0625", "samples/J"))]).splitlines()[1]
    assert row.index("107 samples/s") < row.index("0.0625 samples/J")
