"""Steps: their order, what is left out, what waits for what."""

from __future__ import annotations

from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.diff.change import Difference, Finding
from reconciler.plan.builder import PlanContext, Policy, make_plan
from reconciler.plan.plan import Step
from reconciler.plan.select import Selection, parse
from reconciler.resource.decisions import Acceptance, AcceptanceStatus
from reconciler.resource.kinds import Address, Kind
from tests.unit.diff.simulated import Wish, World, desire
from tests.unit.diff.test_difference import wishes

few = settings(max_examples=60)


@few
@given(wishes)
def test_what_is_needed_comes_first_and_each_key_once(cells: list[Wish]) -> None:
    desired = desire(cells)
    plan = World().plan(desired)
    seen: set[Address] = set()
    for step in plan.steps:
        due = set(desired.by_address[step.change.address].upstream)
        assert due <= seen
        seen.update((step.change.address, *step.shared))
    keys = [step.change.key for step in plan.steps]
    assert len(keys) == len(set(keys))
    assert seen == {r.address for r in desired.resources if r.kind is not Kind.SUBMISSION}


@few
@given(wishes, st.data())
def test_blocked_step_blocks_exactly_what_hangs_on_it(cells: list[Wish], data: st.DataObject) -> None:
    desired = desire(cells)
    free = World().plan(desired)
    stop = data.draw(st.sampled_from([s.change.address for s in free.steps]))
    plan = World().plan(desired, blocked={stop: "no such thing"})
    stuck = {a for s in plan.steps if s.blocked for a in (s.change.address, *s.shared)}
    if stop.kind is Kind.RESULT:
        assert stuck == set()
        return
    expected = {stop, *next(s.shared for s in plan.steps if s.change.address == stop)}
    for resource in desired.resources:
        if expected.intersection(resource.upstream):
            expected |= {a for s in plan.steps if resource.address in (s.change.address, *s.shared)
                         for a in (s.change.address, *s.shared)}  # fmt: skip
    assert expected <= stuck
    for address in stuck - expected:  # what is made for nothing but blocked steps
        users = [r for r in desired.resources if address in r.upstream and r.kind is not Kind.RESULT]
        assert address.kind in (Kind.DATASET, Kind.MODEL)
        assert {r.address for r in users} <= stuck
    assert all("no such thing" in s.blocked for s in plan.steps if s.blocked)


@few
@given(wishes, st.sampled_from(["Offline", "Server", "SingleStream"]))
def test_selection_and_its_complement_are_everything(cells: list[Wish], scenario: str) -> None:
    desired, selector = desire(cells), parse([f"scenario={scenario}"])
    chosen = World().plan(desired, Policy(select=selector))
    others = World().plan(desired, Policy(exclude=Selection((selector,))))

    def own(steps: tuple[Step, ...]) -> set[str]:
        """What some cell has for itself, also where a whole benchmark's shares its key."""
        return {s.change.key for s in steps if any(a.cell for a in (s.change.address, *s.shared))}

    everything = own(World().plan(desired).steps)
    assert own(chosen.steps) | own(others.steps) == everything
    total = len(World().plan(desired).steps)
    assert chosen.excluded + len(chosen.steps) == total
    assert others.excluded + len(others.steps) == total


@few
@given(wishes, st.sampled_from(["Offline", "Server"]))
def test_settling_a_selection_never_needs_what_was_not_selected(cells: list[Wish], scenario: str) -> None:
    desired, world = desire(cells), World()
    policy = Policy(select=parse([f"scenario={scenario}"]))
    while world.carry_out(desired, world.plan(desired, policy)):
        pass
    left = [s for s in world.plan(desired, policy).steps if s.change.how == "make"]
    assert left == []
    assert all(s.address.cell is None or s.address.cell.scenario == scenario or s.shared for s in world.summaries)


def test_what_only_a_blocked_step_needs_names_its_reason_once() -> None:
    desired = desire([Wish()])
    blocked = {r.address: "another machine" for r in desired.resources if r.kind is Kind.ENGINE}
    plan = World().plan(desired, Policy(only=frozenset({"engine"})), blocked)
    why = "needed only by what is blocked (another machine)"
    assert {s.change.address.label: s.blocked for s in plan.steps} == {
        "Dataset": why,
        "Model": why,
        "Engine": "another machine",
    }


def test_selection_keeps_findings_of_its_cells_and_of_files() -> None:
    desired, world = desire([Wish(), Wish(scenario="Server")]), World()
    found = (
        Finding("Invalid", str(Wish().cell), "m"),
        Finding("Invalid", str(Wish(scenario="Server").cell), "m"),
        Finding("DamagedRecord", "state/records/Run/x.json", "m"),
    )
    context = world.plan(desired)
    assert context.findings == ()
    plan = make_plan(
        "all", "", "", Difference((), findings=found), Policy(select=parse(["scenario=Offline"])),
        PlanContext({}, lambda _: None, lambda _: (None, ""), lambda _: ()),
    )  # fmt: skip
    assert plan.findings == (found[0], found[2])


@few
@given(wishes)
def test_runs_of_one_server_follow_each_other(cells: list[Wish]) -> None:
    desired = desire(cells)
    asked: list[str] = []
    for step in World().plan(desired).steps:
        if step.change.address.kind is Kind.RUN:
            ups = desired.by_address[step.change.address].upstream
            asked += [desired.by_address[up].key for up in ups if up.kind is Kind.SERVICE]
    starts = [key for before, key in zip(["", *asked], asked, strict=False) if key != before]
    assert len(starts) == len(set(starts))


def test_no_server_starts_for_nothing() -> None:
    world, desired = World(), desire([Wish(service="one")])
    world.settle(desired)
    assert world.plan(desired).in_sync
    only = World().plan(desired, Policy(only=frozenset({"service"})))
    assert not only.steps
    again = desire([Wish(service="one", target=2)])
    starts = [str(s.change.how) for s in world.plan(again).steps if s.change.address.kind is Kind.SERVICE]
    assert starts == ["start"]


def test_what_is_rendered_alone_waits_for_no_run() -> None:
    world, desired = World(), desire([Wish()])
    world.settle(desired)
    again = desire([Wish(target=2)])
    whole = {step.change.address.label for step in world.plan(again).steps}
    assert "Run performance" in whole
    for policy in (Policy(only=frozenset({"result"})), Policy(select=parse(["kind=Result"]))):
        steps = world.plan(again, policy).steps
        assert [(s.change.address.label, s.blocked) for s in steps] == [
            ("Result", "Run performance is due but not selected")
        ]


def test_a_selection_keeps_the_acceptances_of_its_cells() -> None:
    offline, server = (
        Acceptance(Wish(scenario=scenario).cell, "why", "Ada", "", date(2026, 4, 1), "", ())
        for scenario in ("Offline", "Server")
    )
    decisions = tuple(
        (f"state/accepted/{n}", item, AcceptanceStatus.IN_FORCE) for n, item in enumerate((offline, server))
    )
    context = PlanContext({}, lambda _: None, lambda _: (None, ""), lambda _: ())
    for terms, kept in ((["scenario=Server"], decisions[1:]), (["scenario=SingleStream"], ()), ([], decisions)):
        policy = Policy(select=parse(terms))
        assert make_plan("all", "", "", Difference((), acceptances=decisions), policy, context).acceptances == kept


def test_what_cells_share_is_withheld_only_where_all_of_them_are_frozen() -> None:
    world, cells = World(), [Wish("a"), Wish("b", note=1)]
    desired = desire(cells)
    difference = world.compare(desired)

    def find_withheld(*frozen: str) -> set[str]:
        def why(address: Address) -> tuple[str, str] | None:
            is_frozen = address.cell is not None and address.cell.benchmark in frozen
            return ("it is frozen", "thaw it") if is_frozen else None

        context = PlanContext(desired.by_address, lambda _: None, lambda _: (None, ""), lambda _: (), why)
        steps = make_plan("all", "", "", difference, Policy(), context).steps
        assert all(step.fix == "thaw it" for step in steps if step.blocked == "it is frozen")
        return {step.change.address.label for step in steps if step.blocked == "it is frozen"}

    engines = {r.key for r in desired.resources if r.kind is Kind.ENGINE}
    assert len(engines) == 1  # one step for both
    assert find_withheld() == set()
    assert find_withheld("a") == find_withheld("b") == {"Result"}
    assert find_withheld("a", "b") == {"Engine", "Run accuracy", "Run performance", "Score", "Result"}
