"""Parts of a request for an executor, whatever it asks for: its secrets, and what it names outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from harness.contract import BACKENDS, BuildRequest, CommandRequest, FileMessage, RunRequest, ServiceRequest
from reconciler.execute.attempt import Attempt
from reconciler.resource.parts import load_part
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths


def list_secrets(request: FileMessage) -> Mapping[str, str]:
    """Name, as the child calls it → the variable of the environment that holds it."""
    found: Mapping[str, str] = getattr(request, "secrets", {})  # of a kind that has any
    return found


def select_slices(settings: CellSettings) -> tuple[str, ...]:
    """Profiles of the slices of GPUs that a child takes; none where its backend computes on processors."""
    facts = BACKENDS.get(settings.backend)
    return () if facts is not None and facts.drives == "cpu" else settings.hardware.slices


def list_locations(request: FileMessage) -> Iterator[Path]:
    """List the places that a request names outside the repository."""
    if isinstance(request, BuildRequest | RunRequest) and request.benchmark.path:
        yield Path(request.benchmark.path)
    if isinstance(request, BuildRequest) and request.source:
        yield Path(request.source)
    if isinstance(request, RunRequest):
        yield from map(Path, request.sources.values())
        yield from (Path(load.benchmark.path) for load in request.background if load.benchmark.path)
    if isinstance(request, CommandRequest | ServiceRequest):
        own = (request.logs, request.user_conf_at) if isinstance(request, CommandRequest) else ()
        yield from (Path(name) for name in (request.cwd, request.code, *own) if name)
    yield from map(Path, getattr(request, "places", ()))  # of a request around another one


class PowerRequests(Protocol):
    """The door of ``power``, an optional part."""

    def wrap_run(self, run: FileMessage, attempt: Attempt, paths: RepositoryPaths) -> FileMessage:
        """The request of a run as its system declares it: measured, in its power state, both or neither."""

    def put_back_state(self) -> None:
        """Put back the state of a killed run. Called while no other run can be under way."""


def load_power() -> PowerRequests | None:
    """None where the part was removed."""
    power: PowerRequests | None = load_part("power")
    return power
