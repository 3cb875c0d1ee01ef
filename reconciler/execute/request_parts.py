"""Parts of an executor's request, of any kind: its secrets and its paths outside the repository."""

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
    """Return the child's variable name → the environment variable that has the secret."""
    found: Mapping[str, str] = getattr(request, "secrets", {})  # only some kinds have any
    return found


def select_slices(settings: CellSettings) -> tuple[str, ...]:
    """Return the profiles of the GPU slices that a child takes; none if its backend computes on CPUs."""
    facts = BACKENDS.get(settings.backend)
    return () if facts is not None and facts.drives == "cpu" else settings.hardware.slices


def list_locations(request: FileMessage) -> Iterator[Path]:
    """List the paths outside the repository that a request refers to."""
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
    yield from map(Path, getattr(request, "places", ()))  # of a request that wraps another one


Users = TypeVar("Users", CommandRequest, ServiceRequest)
_SLICE = "CUDA_VISIBLE_DEVICES"


def enclose(request: Users, attempt: Attempt, paths: RepositoryPaths) -> Users:
    """Return the request with its command in its system's container, if the image has none of our code. A container
    outlives its client, so the request gets another command that ends it. A container that the user's own words start
    gets one, too."""
    return request.edit(**_find_container(request, attempt, paths))


def _find_container(
    request: CommandRequest | ServiceRequest, attempt: Attempt, paths: RepositoryPaths
) -> dict[str, Any]:
    """Return the values of the request that differ inside the container."""
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
    """Return True if the request starts a container, whose client needs the environment variables that launchers
    read."""
    return bool(getattr(request, "ending", ()) or getattr(request, "inner", {}).get("ending"))


def name_submission(attempt: Attempt) -> str:
    """Return a name unique to this attempt's submission, also used for its container."""
    return f"reconcile-{attempt.intent.id}"


class PowerRequests(Protocol):
    """The interface of ``power``, an optional part."""

    def wrap_run(self, run: FileMessage, attempt: Attempt, paths: RepositoryPaths) -> FileMessage:
        """Return a run's request as its system declares it: with measured power, in its power state, both or
        neither."""

    def put_back_state(self) -> None:
        """Restore the state after a killed run. Called when no other run can be running."""


def load_power() -> PowerRequests | None:
    """Return the power part, or None if it was removed."""
    power: PowerRequests | None = load_part("power")
    return power
