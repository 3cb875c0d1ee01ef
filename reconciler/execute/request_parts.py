"""Parts of a request for an executor, whatever it asks for: its secrets, and what it names outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from harness.contract import BACKENDS, BuildRequest, CommandRequest, FileMessage, RunRequest, ServiceRequest
from reconciler.execute.attempt import Attempt
from reconciler.resource.parts import load_part
from reconciler.resource.settings import CellSettings
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.launch.adapters import find_outermost, name_container, start_bare
from reconciler.storage.launch.launcher import BareLaunch, Launcher
from reconciler.storage.process import FIXED


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


Users = TypeVar("Users", CommandRequest, ServiceRequest)
_SLICE = "CUDA_VISIBLE_DEVICES"


def enclose(request: Users, attempt: Attempt, paths: RepositoryPaths) -> Users:
    """The same request, its command in the container of its system where the image has nothing of ours. A container
    outlives its client, so that it comes with what ends it; so does one that the user's own words start."""
    return request.edit(**_find_container(request, attempt, paths))


def _find_container(
    request: CommandRequest | ServiceRequest, attempt: Attempt, paths: RepositoryPaths
) -> dict[str, Any]:
    """Values of the request that are others there."""
    launcher, name = attempt.intent.settings.bare_launcher, name_submission(attempt)
    if not launcher.words:
        own = name_container(request.command, name)
        return {"command": own.command, "ending": own.ending} if own else {}
    program = launcher.words[0]
    if "/" in program:
        launcher = Launcher((str(paths.root / program), *launcher.words[1:]))
    sources = (attempt.intent.locations.get(f"{kind}.path") for kind in ("model", "dataset"))
    shown = [paths.root, paths.work, *list_locations(request), *(paths.root / source for source in sources if source)]
    passed = [*request.secrets, *((_SLICE,) if request.slices else ())]
    variables = {**FIXED, **request.env}
    bare = BareLaunch(launcher, request.command, name, find_outermost(shown), request.cwd, variables, passed)
    started = start_bare(bare)
    assert started is not None, "refused where it was declared"
    return {"command": started.command, "env": {}, "ending": started.ending}


def starts_container(request: FileMessage) -> bool:
    """True where its client needs what launchers read of the environment."""
    return bool(getattr(request, "ending", ()) or getattr(request, "inner", {}).get("ending"))


def name_submission(attempt: Attempt) -> str:
    """Name a submission of this attempt alone: also its container."""
    return f"reconcile-{attempt.intent.id}"


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
