"""Which executor a step belongs to, by what its system declares and by what is asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.contract import CommandRequest, FileMessage, ProbeRequest, Ready, ServiceRequest
from reconciler.execute.attempt import Intent, create
from reconciler.execute.executors.executor import Handle, Progressing, State, write_handle
from reconciler.execute.executors.table import Executors
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths

SCORED = {"harness.score.command": ["score"]}
SYSTEMS: dict[str, dict[str, Any]] = {
    "local": {},
    "launcher": {"system.launcher": ["ssh", "n1"]},
    "slurm": {"executor.slurm": True, "system.launcher": ["srun"]},
    "ray": {"executor.ray": True},
}
COMMAND = CommandRequest(purpose="run", command=("go",), cwd="/", run_dir="r", output="o", counter="c")
SERVICE = ServiceRequest(command=("go",), cwd="/", counter="c", ready="r", probe=Ready(timeout=1.0), log="log")


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_belongs_to_a_machine_is_made_there_and_the_rest_here(system: str, tmp_path: Path) -> None:
    executors, settings = Executors.of(RepositoryPaths(tmp_path)), SYSTEMS[system]
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
def test_commands_of_the_users_and_servers_come_with_their_machine(
    kind: Kind, request_: FileMessage, there: bool, tmp_path: Path
) -> None:
    settings = CellSettings(SYSTEMS["launcher"])
    intent = Intent("1", Address(kind, "open/box/net/Offline/accuracy"), "k" * 64, 1, "2026", {}, settings)
    found = Executors.of(RepositoryPaths(tmp_path)).choose(create(tmp_path, intent), request_)
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
    assert [executors.goes_on(handle) for handle in (*handles, None)] == [True, False, False, False]
    executors.end(tmp_path)
    write_handle(handles[2])
    executors.end(tmp_path)
    assert asked == []
    write_handle(handles[0])
    executors.end(tmp_path)
    assert asked == ["cancel n", "harvest n"]
