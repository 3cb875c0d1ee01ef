"""Parts of a request for an executor, whatever it asks for: its secrets, and what it names outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.contract import (
    BACKENDS,
    BuildRequest,
    CommandRequest,
    FileMessage,
    LaunchRequest,
    RunRequest,
    ServiceRequest,
    StateRequest,
)
from reconciler.resource.settings import CellSettings


def list_secrets(request: FileMessage) -> Mapping[str, str]:
    """Name, as the child calls it → the variable of the environment that holds it."""
    asking = CommandRequest | LaunchRequest | RunRequest | ServiceRequest | StateRequest
    return request.secrets if isinstance(request, asking) else {}


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
    if isinstance(request, StateRequest):
        yield from map(Path, request.places)
