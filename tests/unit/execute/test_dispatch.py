"""Which steps begin where several machines work at a time: simulated, nothing sleeps."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.contract import CommandRequest, FileMessage, ProbeRequest, Ready, ServiceRequest
from reconciler.diff.change import Action, Change, Reason
from reconciler.execute.attempt import Intent, create
from reconciler.execute.executors.executor import Capacity, Handle, Progressing, State, write_handle
from reconciler.execute.executors.table import Executors
from reconciler.execute.parallel_executor import Dispatch, measure_chains
from reconciler.plan.plan import Step
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.queues import QUEUES
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths


def make_step(name: str, seconds: float | None = None, shared: tuple[Address, ...] = ()) -> Step:
    address = Address(Kind.RUN, name)
    change = Change(address, name, Action.CREATE, Reason.NOT_RECORDED)
    return Step(change, shared=shared, seconds=seconds)


def make_machine(name: str, places: int = 1) -> Capacity:
    return Capacity("", 0.0, name, places)


def at(name: str) -> Address:
    return Address(Kind.RUN, name)


def make_dispatch(
    steps: Sequence[Step], needs: Mapping[str, Sequence[str]], places: int = 1, limit: int = 0
) -> Dispatch:
    needed = {step.change.address: {at(name) for name in needs.get(step.change.key, ())} for step in steps}
    machines = {step.change.address: make_machine("lab", places) for step in steps}
    return Dispatch(list(steps), needed, machines, limit)


def names(steps: Sequence[Step]) -> list[str]:
    return [step.change.key for step in steps]


def test_nothing_begins_before_what_it_is_made_from_has_ended() -> None:
    engine, run, score = make_step("engine"), make_step("run"), make_step("score")
    dispatch = make_dispatch([engine, run, score], {"run": ["engine"], "score": ["run"]}, places=9)
    assert names(dispatch.take()) == ["engine"]
    assert dispatch.take() == []
    dispatch.end(engine)
    assert names(dispatch.take()) == ["run"]
    dispatch.end(run)
    assert names(dispatch.take()) == ["score"]


def test_machine_takes_as_many_as_it_has_places_and_others_go_on() -> None:
    steps = [make_step(name) for name in ("a1", "a2", "a3", "b1", "b2")]
    machines = {
        step.change.address: make_machine(step.change.key[0], 2 if step.change.key[0] == "a" else 1) for step in steps
    }
    dispatch = Dispatch(steps, {step.change.address: set() for step in steps}, machines)
    assert names(dispatch.take()) == ["a1", "a2", "b1"]
    dispatch.end(steps[0])
    assert names(dispatch.take()) == ["a3"]


def test_limit_counts_all_machines_together() -> None:
    steps = [make_step(name) for name in "abcd"]
    machines = {step.change.address: make_machine(step.change.key) for step in steps}
    dispatch = Dispatch(steps, {step.change.address: set() for step in steps}, machines, limit=3)
    assert names(dispatch.take()) == ["a", "b", "c"]


def test_longest_way_to_go_begins_first() -> None:
    steps = [make_step("short", 5), make_step("build", 1), make_step("long", 50), make_step("middle", 20)]
    dispatch = make_dispatch(steps, {"long": ["build"]}, places=1)
    assert names(dispatch.take()) == ["build"]
    assert measure_chains(steps, dispatch.needs)[at("build")] == 51
    dispatch.end(steps[1])
    assert names(dispatch.take()) == ["long"]
    dispatch.end(steps[2])
    assert names(dispatch.take()) == ["middle"]


def test_the_way_of_a_step_is_the_longest_of_all_that_share_its_outcome() -> None:
    steps = [
        make_step("other", 20),
        make_step("engine", 1, shared=(at("twin"),)),
        make_step("own", 2),
        make_step("long", 50),
    ]
    needs = {"own": ["engine"], "long": ["twin"]}
    dispatch = make_dispatch(steps, needs)
    assert measure_chains(steps, dispatch.needs) == {at("other"): 20, at("engine"): 51, at("own"): 2, at("long"): 50}
    assert names(dispatch.take()) == ["engine"]


def test_what_runs_already_goes_before_all_others() -> None:
    steps = [make_step("long", 50), make_step("running", 1)]
    dispatch = Dispatch(
        steps,
        {at("long"): set(), at("running"): set()},
        {at(n): make_machine("lab") for n in ("long", "running")},
        first=frozenset({"running"}),
    )
    assert names(dispatch.take()) == ["running"]


def simulate(dispatch: Dispatch, seconds: Mapping[str, float]) -> tuple[float, Counter[str]]:
    """The whole plan on a clock of its own: when it ends, and how often each step began."""
    now, began = 0.0, Counter[str]()
    ends: list[tuple[float, int, Step]] = []
    while dispatch.waiting or ends:
        for step in dispatch.take():
            began[step.change.key] += 1
            heapq.heappush(ends, (now + seconds[step.change.key], len(began), step))
        now, _, step = heapq.heappop(ends)
        dispatch.end(step)
    return now, began


def test_seventy_two_nodes_with_two_thousand_cells_end_near_the_lower_bound() -> None:
    """An engine for each ten cells, then an accuracy and a performance run of each; lengths differ by forty times."""
    steps: list[Step] = []
    needs: dict[str, list[str]] = {}
    for engine in range(200):
        steps.append(make_step(f"engine{engine}", 120.0 + engine % 7 * 90))
    for cell in range(2000):
        for kind, long in (("accuracy", 60.0 + cell * 37 % 1200), ("performance", 600.0 + cell * 53 % 1800)):
            steps.append(make_step(f"{kind}{cell}", long))
            needs[f"{kind}{cell}"] = [f"engine{cell // 10}"]
    seconds = {step.change.key: step.seconds or 0.0 for step in steps}
    makespan, began = simulate(make_dispatch(steps, needs, places=72), seconds)
    chain = max(measure_chains(steps, {at(n): {at(x) for x in needs.get(n, ())} for n in seconds}).values())
    lower_bound = max(sum(seconds.values()) / 72, chain)
    assert set(began.values()) == {1}
    assert len(began) == len(steps)
    assert makespan <= 1.1 * lower_bound


SCORED = {"harness.score.command": ["score"]}
SYSTEMS: dict[str, dict[str, Any]] = {
    "local": {},
    "launcher": {"system.launcher": ["ssh", "n1"]},
    **{name: {f"executor.{name}": True, "system.launcher": ["srun"]} for name in QUEUES},
}
COMMAND = CommandRequest(purpose="run", command=("go",), cwd="/", run_dir="r", output="o", counter="c")
SERVICE = ServiceRequest(command=("go",), cwd="/", counter="c", ready="r", probe=Ready(timeout=1.0), log="log")


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_belongs_to_a_machine_is_made_there_and_the_rest_here(system: str, tmp_path: Path) -> None:
    executors, settings = Executors.make(RepositoryPaths(tmp_path)), SYSTEMS[system]
    assert executors.choose_for_system(CellSettings(settings)).name == system
    there = {Kind.ENGINE, Kind.RUN, Kind.COMPLIANCE_TEST}
    for more, of_machine in (({}, there), (SCORED, {*there, Kind.SCORE, Kind.VERDICT})):
        found = {kind: executors.choose_for_kind(kind, CellSettings({**settings, **more})).name for kind in Kind}
        assert found == {kind: system if kind in of_machine else "local" for kind in Kind}


@pytest.mark.parametrize(
    ("kind", "request_", "there"),
    [
        (Kind.DATASET, ProbeRequest(), False),
        (Kind.RUN, ProbeRequest(), True),
        (Kind.SCORE, ProbeRequest(), False),
        (Kind.SCORE, COMMAND, True),
        (Kind.SERVICE, SERVICE, True),
        (Kind.SERVICE, ProbeRequest(), False),
    ],
    ids=["data set", "run", "score", "command that scores", "server", "other"],
)
def test_commands_come_with_their_machine(kind: Kind, request_: FileMessage, there: bool, tmp_path: Path) -> None:
    settings = CellSettings(SYSTEMS["launcher"])
    intent = Intent("1", Address(kind, "open/box/net/Offline/accuracy"), "k" * 64, 1, "2026", {}, settings)
    found = Executors.make(RepositoryPaths(tmp_path)).choose(create(tmp_path, intent), request_)
    assert found.name == ("launcher" if there else "local")


def test_only_what_was_submitted_to_somebody_who_is_known_goes_on_or_is_ended(tmp_path: Path) -> None:
    asked: list[str] = []
    known = SimpleNamespace(
        poll=lambda _: Progressing(State.RUNNING),
        cancel=lambda handle: asked.append(f"cancel {handle.name}"),
        harvest=lambda handle: asked.append(f"harvest {handle.name}"),
    )
    ended = SimpleNamespace(poll=lambda _: Progressing(State.LOST))
    executors = Executors(cast(Any, {"known": known, "ended": ended}))
    handles = [Handle(name, tmp_path, "n") for name in ("known", "ended", "of a later version")]
    assert [executors.is_still_running(handle) for handle in (*handles, None)] == [True, False, False, False]
    executors.end(tmp_path)
    write_handle(handles[2])
    executors.end(tmp_path)
    assert asked == []
    write_handle(handles[0])
    executors.end(tmp_path)
    assert asked == ["cancel n", "harvest n"]
