"""Which results fit the time that is left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.desired.detail import Detail
from reconciler.desired.state import Desired
from reconciler.diff.change import Action, Change, Reason, Work
from reconciler.plan.expectation import START, Expectation
from reconciler.plan.plan import Plan, Step, schedule
from reconciler.reconcile.planning import predict_run
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Recorded, Summary
from reconciler.resource.resources import Resource

HOUR = 3600.0


def step(kind: Kind, name: str, seconds: float | None, *shared: str, blocked: str = "") -> Step:
    change = Change(Address(kind, name), f"{kind}-{name}", Action.CREATE, Reason.NOT_RECORDED, Work.MAKE)
    return Step(change, tuple(Address(kind, other) for other in shared), seconds=seconds, blocked=blocked)


def run(cell: str, hours: float | None, blocked: str = "") -> Step:
    return step(Kind.RUN, f"{cell}/performance", None if hours is None else hours * HOUR, blocked=blocked)


def plan(*steps: Step) -> Plan:
    return Plan("one", "", "", steps)


def place(found: Step) -> str:
    cell = found.change.address.cell
    assert cell is not None
    return cell.system


def test_what_takes_least_comes_first_and_the_longest_is_dropped_first() -> None:
    found = plan(
        run("open/box/a/Offline", 5),
        run("open/box/b/Offline", 1),
        run("open/box/c/Offline", 2),
        run("open/box/d/Offline", 9),
    )
    (machine,) = schedule(found, place, 4 * HOUR)
    assert [entry.name for entry in machine.fits] == ["open/box/b/Offline", "open/box/c/Offline"]
    assert [entry.ends for entry in machine.fits] == [HOUR, 3 * HOUR]
    assert [entry.name for entry in machine.drops] == ["open/box/d/Offline", "open/box/a/Offline"]


def test_machines_have_their_own_time() -> None:
    found = schedule(plan(run("open/one/a/Offline", 3), run("open/two/a/Offline", 3)), place, 4 * HOUR)
    assert {machine.machine: len(machine.fits) for machine in found} == {"one": 1, "two": 1}


def test_a_benchmark_of_the_closed_division_stays_or_goes_as_a_whole() -> None:
    found = plan(run("closed/box/a/Offline", 1), run("closed/box/a/Server", 4), run("closed/box/b/Offline", 2))
    (machine,) = schedule(found, place, 4 * HOUR)
    assert [entry.name for entry in machine.fits] == ["closed/box/b"]
    assert [[cell.scenario for cell in entry.cells] for entry in machine.drops] == [["Offline", "Server"]]


def test_what_cells_share_counts_for_the_first_that_needs_it() -> None:
    engine = step(Kind.ENGINE, "open/box/a/Offline", 2 * HOUR, "open/box/a/Server")
    dataset = step(Kind.DATASET, "a", HOUR)
    found = plan(dataset, engine, run("open/box/a/Offline", 1), run("open/box/a/Server", 1.5))
    (machine,) = schedule(found, place, 5.5 * HOUR)
    assert [entry.ends for entry in machine.fits] == [4 * HOUR, 5.5 * HOUR]


def test_what_is_blocked_from_here_says_why() -> None:
    (machine,) = schedule(plan(run("open/box/a/Offline", 1, blocked="another accelerator")), place, HOUR)
    assert machine.blocked == "another accelerator"


@settings(max_examples=60)
@given(st.lists(st.floats(0.01, 20), min_size=1, max_size=12), st.floats(0.1, 40))
def test_no_other_choice_of_results_completes_more(hours: list[float], left: float) -> None:
    (machine,) = schedule(plan(*(run(f"open/box/{n}/Offline", h) for n, h in enumerate(hours))), place, left * HOUR)
    assert len(machine.fits) + len(machine.drops) == len(hours)
    assert all(entry.ends <= left * HOUR for entry in machine.fits)
    shortest = sorted(hours)[: len(machine.fits) + 1]
    assert len(machine.fits) == len(hours) or sum(shortest) > left * (1 - 1e-9)


def test_each_machine_has_its_own_steps_and_what_their_benchmarks_share() -> None:
    start = step(Kind.SERVICE, "open/two/b/Offline", HOUR)
    start = replace(start, change=replace(start.change, how=Work.START))
    brought = run("open/two/b/Offline", 0.25)
    brought = replace(brought, change=replace(brought.change, how=Work.RESTORE, key="brought"))
    shown = step(Kind.RESULT, "open/two/b/Offline", 100 * HOUR)
    shown = replace(shown, change=replace(shown.change, how=Work.RENDER))
    shared = [step(Kind.DATASET, name, HOUR) for name in ("a", "b")]
    own = [run("open/one/a/Offline", 4), run("open/one/a/Server", 4), run("open/two/b/Offline", 2)]
    one, two = schedule(plan(*shared, start, brought, shown, *own), place, 100 * HOUR)
    assert (one.machine, two.machine) == ("two", "one")
    assert [(entry.name, entry.seconds, entry.ends) for entry in one.fits] == [
        ("open/two/b/Offline", 4.25 * HOUR, 4.25 * HOUR)
    ]
    assert [(entry.name, entry.seconds, entry.ends) for entry in two.fits] == [
        ("open/one/a/Offline", 5 * HOUR, 5 * HOUR),
        ("open/one/a/Server", 4 * HOUR, 9 * HOUR),
    ]


ROUND, LINE = Origin("round v6.1 (mlperf.conf)"), Origin("specs/one.yaml", 7)


STREAM, OFFLINE, SERVER = (f"closed/box/resnet/{name}" for name in ("SingleStream", "Offline", "Server"))


RUN = Address(Kind.RUN, f"{STREAM}/performance")


def expect(
    address: Address, *recorded: Summary, origin: Origin = LINE, key: str = "new", **values: object
) -> tuple[float | None, str]:
    scenario = address.cell.scenario if address.cell else ""
    inputs = {"mode": address.mode, "scenario": scenario, **values}
    items = tuple(Input(n, v, origin if n.startswith("target") else LINE) for n, v in inputs.items())
    by_address: dict[Address, tuple[Summary, ...]] = {}
    for summary in recorded:
        by_address[summary.address] = (*by_address.get(summary.address, ()), summary)
    resource = Resource(address, key, cell=address.cell)
    desired = Desired(digest="", resources=(resource,), detail=lambda _: Detail(items), by_address={address: resource})
    return Expectation(desired, Recorded(by_address=by_address), predict_run).predict(address)


def took(seconds: float, address: Address = RUN, key: str = "old", ended: Ended = Ended.DONE) -> Summary:
    return Summary("x", address, key, ended, "2026", seconds, ())


def test_a_latency_that_no_one_declared_says_nothing_of_this_machine() -> None:
    """It is the round's: of a network of 0.05 ms it would make 20 s of 0.1 s."""
    settings = {"target_latency": 10_000_000, "min_query_count": 2000}
    assert expect(RUN, origin=ROUND, min_duration=0, **settings) == (None, "")
    assert expect(RUN, origin=ROUND, min_duration=600_000, **settings) == (600.0, "formula")
    declared = expect(RUN, min_duration=0, **{**settings, "target_latency": 50_000})
    assert declared == (pytest.approx(0.1 + START), "formula")


def test_a_rate_that_no_one_declared_says_nothing_of_offline_and_everything_of_server() -> None:
    settings = {"target_qps": "1", "min_duration": 0, "min_query_count": 24_576}
    assert expect(Address(Kind.RUN, f"{OFFLINE}/performance"), origin=ROUND, **settings) == (None, "")
    asked = expect(Address(Kind.RUN, f"{SERVER}/performance"), origin=ROUND, **settings)
    assert asked == (24_576.0, "formula")  # LoadGen asks at that rate indeed


def test_a_run_that_was_made_takes_as_long_as_it_took() -> None:
    settings = {"target_latency": 10_000_000, "min_duration": 600_000, "min_query_count": 100}
    assert expect(RUN, took(4000.0, key="same"), took(30.0), key="same", **settings) == (4000.0, "history")


def test_of_a_long_run_with_another_target_the_formula_predicts_more_than_an_earlier_one() -> None:
    settings = {"target_latency": 10_000_000, "min_query_count": 100}
    assert expect(RUN, took(30.0), min_duration=600_000, **settings) == (600.0, "formula")
    assert expect(RUN, took(3.0), min_duration=0, **settings) == (3.0, "history")


def test_a_failed_attempt_says_nothing_of_how_long_it_takes() -> None:
    settings = {"target_latency": 10_000_000, "min_query_count": 100, "min_duration": 600_000}
    assert expect(RUN, took(1.5, key="same", ended=Ended.FAILED), key="same", **settings) == (600.0, "formula")


@pytest.mark.parametrize("part", ["Engine:{}", "Score:{}", "Run:{}/accuracy"])
def test_what_was_never_made_takes_as_long_as_in_another_scenario(part: str) -> None:
    here, there = (Address.parse(part.format(cell)) for cell in (STREAM, OFFLINE))
    assert expect(here, took(90.0, there)) == (90.0, "alike")
    assert expect(here, took(90.0, Address.parse(part.format("closed/other/resnet/Offline")))) == (None, "")


def test_a_performance_run_is_not_like_that_of_another_scenario() -> None:
    other = took(90.0, Address(Kind.RUN, f"{OFFLINE}/performance"))
    assert expect(RUN, other, origin=ROUND, target_latency=10_000_000, min_duration=0) == (None, "")


@pytest.mark.parametrize(
    ("minimum", "found"),
    [(59_999, (59.999 + START, "formula")), (60_000, (60.0, "formula")), (57_000, (57.0 + START, "formula"))],
)
def test_a_run_of_a_minute_is_not_lengthened_by_its_start(minimum: int, found: tuple[float, str]) -> None:
    settings = {"target_latency": 1_000_000, "min_query_count": 1}
    assert (START, expect(RUN, min_duration=minimum, **settings)) == (2.0, (pytest.approx(found[0]), found[1]))


@pytest.mark.parametrize(("minimum", "basis"), [(57_999, "history"), (60_000, "formula")])
def test_from_a_minute_on_the_formula_predicts_more_than_an_earlier_run(minimum: int, basis: str) -> None:
    settings = {"target_latency": 1_000_000, "min_query_count": 1}
    assert expect(RUN, took(30.0), min_duration=minimum, **settings)[1] == basis


def test_the_last_that_reports_is_reported() -> None:
    engine, other = Address(Kind.ENGINE, STREAM), Address(Kind.ENGINE, OFFLINE)
    past = (took(10.0, engine), took(20.0, engine), took(0.0, engine))
    assert expect(engine, *past) == (20.0, "history")
    again = (took(10.0, engine, "same"), took(15.0, engine, "same"), took(20.0, engine))
    assert expect(engine, *again, key="same") == (15.0, "history")
    alike = (took(10.0, other), took(20.0, other), took(30.0, other, ended=Ended.FAILED))
    assert expect(engine, *alike) == (20.0, "alike")
