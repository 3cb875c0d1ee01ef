"""Steps: their order, what is left out, what waits for what; and whole plans, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from ruamel.yaml import YAML

from reconciler.desired.state import Desired
from reconciler.diff.change import Change, Difference, Finding, InputChange, Work
from reconciler.diff.difference import compare
from reconciler.observed.state import ArtifactPresence, Observed
from reconciler.plan.builder import PlanContext, Policy, make_plan
from reconciler.plan.plan import Plan, Step
from reconciler.plan.select import Selection, parse, parse_repeated
from reconciler.resource.decisions import Acceptance, AcceptanceStatus
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
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


def test_tests_of_a_blocked_performance_run_are_blocked() -> None:
    desired = desire([Wish(tests=("TEST01", "TEST04")), Wish(scenario="Server", tests=("TEST01",))])
    run = RunAddress(Wish().cell, PERFORMANCE).address
    plan = World().plan(desired, blocked={run: "another LoadGen"})
    blocked = {step.change.address: step.blocked for step in plan.steps if step.blocked}
    tests = [Address(kind, f"{run.cell}/{name}") for kind in _TESTS for name in ("TEST01", "TEST04")]
    assert set(blocked) == {run, *tests, Address(Kind.RESULT, str(run.cell))}
    assert all("another LoadGen" in text for text in blocked.values())


_TESTS = (Kind.COMPLIANCE_TEST, Kind.VERDICT)


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


EXPECTED = YAML(typ="safe").load(Path(__file__).with_name("plans.yaml"))
NET, SERVER, OTHER = Wish(), Wish(scenario="Server"), Wish("other")
DATASET, MODEL = Address(Kind.DATASET, "net"), Address(Kind.MODEL, "net")
TIMED = Address(Kind.RUN, f"{NET.cell}/performance")
ENGINE, SCORE = Address(Kind.ENGINE, str(NET.cell)), Address(Kind.SCORE, str(NET.cell))
SERVED = replace(NET, service="one")


class Asked(Struct):
    """``world``: what is recorded; ``frozen``: benchmarks and scenarios that people want left alone."""

    desired: Desired
    policy: Policy = Policy()
    world: World | None = None
    observed: Observed = Observed()
    forced: Iterable[Address] = ()
    blocked: Mapping[Address, str] = {}
    frozen: tuple[Cell, ...] = ()
    findings: tuple[Finding, ...] = ()


def measured(*wishes: Wish, without: Address | None = None) -> World:
    world = World()
    world.settle(desire(wishes))
    world.summaries = [s for s in world.summaries if s.address != without]
    return world


def select(*words: str, only: Iterable[str] = (), exclude: Iterable[str] = ()) -> Policy:
    return Policy(parse(words), parse_repeated(list(exclude)) if exclude else Selection(), frozenset(only))


def all_of(desired: Desired, *wishes: Wish, kinds: Iterable[Kind] = tuple(Kind)) -> dict[Address, str]:
    cells = {wish.cell for wish in wishes}
    return {r.address: "another machine" for r in desired.resources if r.cell in cells and r.kind in kinds}


def logs_are_missing(*kinds: Kind) -> tuple[World, Observed]:
    """Logs in git of records of these kinds."""
    world = measured(NET)
    own = [s for s in world.summaries if s.address.kind in kinds]
    for summary in own:
        kept = tuple(a._replace(place="logs") for a in summary.artifacts)
        world.summaries[world.summaries.index(summary)] = replace(summary, artifacts=kept)
    lost = {("logs", a.sha256): ArtifactPresence.MISSING for s in own for a in s.artifacts}
    return world, Observed(artifacts=lost)


def restore(
    policy: Policy | None = None, frozen: tuple[Cell, ...] = (), forced: Iterable[Address] = (), because: str = ""
) -> Asked:
    """``because``: why the performance run is blocked."""
    world, observed = logs_are_missing(Kind.RUN)
    blocked = {TIMED: because} if because else {}
    return Asked(desire([NET]), policy or Policy(), world, observed, forced, blocked, frozen)


def rendered(**given: object) -> Asked:
    """A tree that shows another rendering, submission and all, next to a due run."""
    tree = Observed(tree_present=True, rendered={str(NET.cell): "before", "submission": "before"})
    return Asked(desire([replace(NET, target=2), SERVER]), world=measured(NET, SERVER), observed=tree, **given)  # type: ignore[arg-type]


BOTH, THREE = desire([NET, SERVER]), desire([NET, SERVER, OTHER])
FINDINGS = tuple(
    Finding("Invalid", where, "m")
    for where in (str(NET.cell), str(SERVER.cell), str(OTHER.cell), "state/records/Run/x.json")
)
APART = desire([
    Wish("a", service="one", data=1), Wish("b"), Wish("c", scenario="Server", service="one", data=1), Wish("d", data=1),
])  # fmt: skip
STORIES: dict[str, Callable[[], Asked]] = {
    "all": lambda: Asked(THREE),
    "all again": lambda: Asked(THREE, world=measured(NET, SERVER, OTHER)),
    "another target": lambda: Asked(desire([replace(NET, target=2), SERVER]), world=measured(NET, SERVER)),
    "a scenario": lambda: Asked(THREE, select("scenario=Server")),
    "a benchmark": lambda: Asked(THREE, select("benchmark=other"), findings=FINDINGS),
    "a scenario of a benchmark": lambda: Asked(THREE, select("benchmark=net", "scenario=Offline"), findings=FINDINGS),
    "without a scenario": lambda: Asked(THREE, select(exclude=["scenario=Offline"]), findings=FINDINGS),
    "without a benchmark": lambda: Asked(THREE, select(exclude=["benchmark=net"]), findings=FINDINGS),
    "a benchmark without a scenario": lambda: Asked(
        THREE, select("benchmark=net", exclude=["scenario=Server"]), findings=FINDINGS
    ),
    "without two of three": lambda: Asked(
        THREE, select(exclude=["benchmark=net scenario=Server", "benchmark=other"]), findings=FINDINGS
    ),
    "performance runs": lambda: Asked(BOTH, select("mode=performance")),
    "a kind": lambda: Asked(BOTH, select("kind=Engine")),
    "kinds by their names": lambda: Asked(BOTH, select(only=["ENGINE", "run accuracy"])),
    "results alone": lambda: Asked(desire([replace(NET, batch=2)]), select(only=["Result"]), measured(NET)),
    "results alone, of one run that is due": lambda: Asked(
        desire([replace(NET, target=2)]), select(only=["Result"]), measured(NET)
    ),
    "results by their kind": lambda: Asked(desire([NET]), select("kind=Result")),
    "servers alone": lambda: Asked(desire([SERVED]), select(only=["Service"])),
    "cells of one server": lambda: Asked(APART),
    "cells of one server, and the last without it": lambda: Asked(APART, select("benchmark=c")),
    "a server and its runs": lambda: Asked(desire([SERVED, replace(SERVER, service="one")])),
    "runs of a server that are blocked": lambda: Asked(
        desire([SERVED]), blocked=all_of(desire([SERVED]), SERVED, kinds=(Kind.RUN,))
    ),
    "one run of a server that is blocked": lambda: Asked(desire([SERVED]), blocked={TIMED: "no meter"}),
    "a server that is blocked": lambda: Asked(
        desire([SERVED]), blocked=all_of(desire([SERVED]), SERVED, kinds=(Kind.SERVICE,))
    ),
    "a dataset that is blocked": lambda: Asked(BOTH, blocked={DATASET: "no disk"}),
    "an engine that is blocked": lambda: Asked(desire([NET]), blocked={ENGINE: "no compiler"}),
    "one cell that is blocked": lambda: Asked(THREE, blocked=all_of(THREE, OTHER)),
    "two cells of a benchmark that are blocked": lambda: Asked(THREE, blocked=all_of(THREE, NET, SERVER)),
    "one of two cells that is blocked": lambda: Asked(
        desire([NET, replace(SERVER, batch=2)]), blocked={Address(Kind.ENGINE, str(SERVER.cell)): "another machine"}
    ),
    "one cell that is frozen": lambda: Asked(desire([NET, replace(SERVER, batch=2)]), frozen=(NET.cell,)),
    "two cells that are frozen": lambda: Asked(BOTH, frozen=(NET.cell, SERVER.cell)),
    "a frozen cell that is blocked": lambda: Asked(desire([NET]), frozen=(NET.cell,), blocked={ENGINE: "no compiler"}),
    "logs that are missing": restore,
    "logs that are missing of a frozen cell": lambda: restore(frozen=(NET.cell,)),
    "logs that are missing of a blocked run": lambda: restore(because="no meter"),
    "logs that are missing next to a score that is due": lambda: restore(select("kind=Score"), forced=[SCORE]),
    "a tree of another rendering": rendered,
    "a tree of another rendering, and a run that is blocked": lambda: rendered(blocked={TIMED: "no meter"}),
    "the tree alone": lambda: rendered(policy=select(only=["Submission"])),
    "the submission of a scenario": lambda: rendered(policy=select("scenario=Server")),
}


def predict(address: Address) -> tuple[float | None, str]:
    return (None, "") if address.kind is Kind.MODEL else (len(str(address)) / 2, "history")


def explain(change: Change) -> tuple[InputChange, ...]:
    return (InputChange("batch", 1, 2, Origin("specs/a.yaml", 3)),) if change.address.kind is Kind.ENGINE else ()


def plan(asked: Asked) -> Plan:
    recorded = (asked.world or World()).recorded
    difference = compare(asked.desired, recorded, asked.observed, frozenset(asked.forced))
    difference = replace(difference, findings=(*difference.findings, *asked.findings))
    context = PlanContext(
        asked.desired.by_address,
        lambda address: (asked.blocked[address], f"repair {address}") if address in asked.blocked else None,
        predict,
        explain,
        lambda address: ("frozen", "thaw it") if address.cell in asked.frozen else None,
    )
    return make_plan("box", "desired", "recorded", difference, asked.policy, context)


def outline(found: Plan) -> dict[str, object]:
    """Steps in their order, those that are blocked, findings, and how many changes were left out."""
    reported = {
        "steps": [" and ".join(map(str, (step.change.address, *step.shared))) for step in found.steps],
        "blocked": [str(step.change.address) for step in found.steps if step.blocked],
        "findings": [finding.where for finding in found.findings],
        "excluded": found.excluded,
        "unchanged": found.unchanged,
    }
    return {name: _shorten(value) for name, value in reported.items() if value}


def _shorten(value: object) -> object:
    return [line.replace("open/box/", "").replace(":", " ") for line in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", STORIES)
def test_a_plan_has_the_steps_that_are_asked_for(name: str) -> None:
    assert outline(plan(STORIES[name]())) == EXPECTED[name]


@pytest.mark.parametrize("name", STORIES)
def test_steps_come_after_what_causes_them_and_have_their_prediction(name: str) -> None:
    asked = STORIES[name]()
    found = plan(asked)
    planned = {address for step in found.steps for address in (step.change.address, *step.shared)}
    done: set[Address] = set()
    for step in found.steps:
        own = (step.change.address, *step.shared)
        upstream = {up for address in own for up in asked.desired.by_address[address].upstream}
        assert set(step.because) <= upstream
        assert upstream & planned <= done
        made = step.change.how in (Work.MAKE, Work.START)
        assert (step.seconds, step.basis) == (predict(step.change.address) if made else (0.0, "")), step
        assert step.explained == explain(step.change) or not made
        done.update(own)
