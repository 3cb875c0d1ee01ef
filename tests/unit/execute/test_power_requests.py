"""Requests for runs that are measured or made in a power state, and where they go."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.contract import RunRequest
from harness.power.requests import PowerRequest, StateRequest
from reconciler.execute.request_parts import list_locations, list_secrets
from reconciler.execute.requests import make_request
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.machine_locks import find_lock_folder
from tests.unit.execute.test_launcher import LOCK, put
from tests.unit.execute.test_requests import run

STATE = StateRequest(
    inner_verb="run",
    inner={},
    set_by=(),
    restore=(),
    read_by=(),
    expect="",
    cwd="w",
    journal="j",
    counter="c",
    secrets={"api_key": "TOKEN"},
    places=("/own/place",),
)
METER = {"power.director": "10.0.0.1", "power.ntp": "time.example", "power.kit": "kit"}


def test_a_timed_run_under_a_meter_is_measured_and_no_other(tmp_path: Path) -> None:
    attempt = run(tmp_path / "a", "performance", METER)
    request = make_request(attempt, RepositoryPaths(tmp_path / "a"))
    assert isinstance(request, PowerRequest)
    assert (request.director, request.ntp) == ("10.0.0.1", "time.example")
    assert request.kit == str((tmp_path / "a/kit").resolve())
    assert (request.session, request.counter) == (str(attempt.session), str(attempt.counter))
    assert (request.run.mode, request.run.log_dir) == ("performance", str(attempt.output))
    other = run(tmp_path / "b", "accuracy", METER)
    assert isinstance(make_request(other, RepositoryPaths(tmp_path / "b")), RunRequest)


def test_a_run_without_a_state_to_set_is_made_as_it_is(tmp_path: Path) -> None:
    attempt = run(tmp_path, "performance", {"power_state.read": ["read", "it"], "power_state.expect": "300 W"})
    assert isinstance(make_request(attempt, RepositoryPaths(tmp_path)), RunRequest)


@pytest.mark.parametrize("meter", [{}, METER], ids=["plain", "measured"])
def test_a_run_is_made_in_the_power_state_of_its_system(tmp_path: Path, meter: dict[str, str]) -> None:
    settings = {
        **meter,
        "power_state.set": ["set", "it"],
        "power_state.restore": ["put", "back"],
        "power_state.read": ["read", "it"],
        "power_state.expect": "300 W",
        "run.options.api_key_env": "KEY",
    }
    attempt = run(tmp_path, "performance", settings, locations={"model.path": "m/x.onnx"})
    request = make_request(attempt, RepositoryPaths(tmp_path))
    assert isinstance(request, StateRequest)
    assert request.inner_verb == ("power" if meter else "run")
    own = {name: value for name, value in attempt.intent.settings.values.items() if "power_state" not in name}
    plain = replace(attempt, intent=replace(attempt.intent, settings=CellSettings(own)))
    assert request.inner == dataclasses.asdict(make_request(plain, RepositoryPaths(tmp_path)))
    assert request.journal == str(find_lock_folder() / "power_state.json")
    assert (request.set_by, request.restore, request.read_by) == (("set", "it"), ("put", "back"), ("read", "it"))
    assert (request.expect, request.cwd, request.counter) == ("300 W", str(tmp_path), str(attempt.counter))
    assert request.secrets == {"api_key": "KEY"}
    assert request.places == (str((tmp_path / "m/x.onnx").resolve()),)


@pytest.mark.parametrize("lock", ["", LOCK], ids=["none", "lock"])
def test_a_lock_of_a_run_in_a_power_state_is_one_that_each_node_sees(tmp_path: Path, lock: str) -> None:
    shared = str(RepositoryPaths(tmp_path).work / "locks/quiet-1") if lock else ""
    attempt, _ = put(tmp_path, dataclasses.replace(STATE, inner={"lock": lock, "cwd": "/own"}))
    assert StateRequest.read(attempt.request).inner == {"lock": shared, "cwd": "/own"}


def test_the_places_and_secrets_of_a_state_are_those_of_what_is_done_in_it() -> None:
    assert list(list_locations(STATE)) == [Path("/own/place")]
    assert list_secrets(STATE) == {"api_key": "TOKEN"}
