"""A request that is carried out in the declared power state of its system."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from harness.contract import CommandRequest, ProbeRequest
from harness.power.requests import StateRequest
from reconciler.execute.attempt import Intent, create
from reconciler.execute.power import hold_state
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


@pytest.mark.parametrize("within", [False, True])
def test_a_request_is_carried_out_in_the_state_that_its_system_declares(within: bool, tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    intent = Intent("1", Address(Kind.MODEL, "net"), "k" * 64, 1, "2026", {}, CellSettings(STATE))
    attempt = create(tmp_path, intent)
    asked = ProbeRequest() if within else COMMAND
    assert hold_state(asked, attempt, paths, COMMAND if within else None) == StateRequest(
        inner_verb=asked.verb,
        inner=asdict(asked),
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
    assert hold_state(COMMAND, create(tmp_path, intent), RepositoryPaths(tmp_path)) is COMMAND
