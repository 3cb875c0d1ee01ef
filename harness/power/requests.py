"""Requests of this part, written by a pass and executed by the other modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from harness.contract import FileMessage, RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRequest(FileMessage):
    """Run under the client of MLCommons' power kit, which executes the run twice: to find the ranges, and to measure.

    ``run``: the measured run. ``kit``: the folder of the kit; ``director``: host:port of its server; ``ntp``: a time
    server. ``session``: a new folder for the client's files: power/, ranging/ and run_1/.
    """

    verb: ClassVar[str] = "power"
    module: ClassVar[str] = "harness.power.measuring"
    run: RunRequest
    kit: str
    director: str
    ntp: str
    session: str
    counter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRequest(FileMessage):
    """Execute a run while its machine is in a power state.

    ``inner_verb``, ``inner``: the verb and the request of the run. ``set_by`` and ``restore``: commands that set and
    restore the state; the output of ``read_by`` must then be ``expect``; all of them start in ``cwd``. ``journal``: a
    file on the machine with the state to restore. ``secrets``: as for the run; ``places``: the run's paths outside the
    repository.
    """

    verb: ClassVar[str] = "state"
    module: ClassVar[str] = "harness.power.state"
    has_keeper: ClassVar[bool] = True
    inner_verb: str
    inner: dict[str, Any]
    set_by: tuple[str, ...]
    restore: tuple[str, ...]
    read_by: tuple[str, ...]
    expect: str
    cwd: str
    journal: str
    counter: str
    secrets: dict[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()


REQUESTS = (PowerRequest, StateRequest)
