"""A request that is carried out in the declared power state of its system."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from harness.contract import CommandRequest
from harness.power.requests import StateRequest
from reconciler.execute.attempt import Intent, create
from reconciler.execute.power import wrap_run
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.machine_locks import find_lock_folder

STATE = {
    "power_state.set": ["set", "400"],
    "power_state.restore": ["restore"],
    "power_state.read": ["read"],
    "power_state.expect": "400",
}
COMMAND = CommandRequest(
    purpose="run",
    command=("go",),
    cwd="/work",
    run_dir="r",
    output="o",
    counter="c",
    code="/code",
    secrets={"key": "TOKEN"},
)


def test_a_request_is_carried_out_in_the_state_that_its_system_declares(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    intent = Intent("1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, CellSettings(STATE))
    attempt = create(tmp_path, intent)
    assert wrap_run(COMMAND, attempt, paths) == StateRequest(
        inner_verb=COMMAND.verb,
        inner=asdict(COMMAND),
        set_by=("set", "400"),
        restore=("restore",),
        read_by=("read",),
        expect="400",
        cwd=str(tmp_path),
        journal=str(find_lock_folder() / "power_state.json"),
        counter=str(attempt.counter),
        secrets={"key": "TOKEN"},
        places=("/work", "/code"),
    )


def test_where_none_is_declared_a_request_stays_as_it_is(tmp_path: Path) -> None:
    settings = {name: value for name, value in STATE.items() if name != "power_state.set"}
    intent = Intent("1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, CellSettings(settings))
    assert wrap_run(COMMAND, create(tmp_path, intent), RepositoryPaths(tmp_path)) is COMMAND
