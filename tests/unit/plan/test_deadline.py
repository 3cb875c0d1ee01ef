"""Which results fit the time that is left."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.diff.change import Action, Change, Reason, Work
from reconciler.plan.deadline import schedule
from reconciler.plan.plan import Plan, Step
from reconciler.resource.kinds import Address, Kind

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
