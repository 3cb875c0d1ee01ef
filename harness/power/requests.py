"""Requests of this part, which a pass writes and the other modules carry out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from harness.contract import FileMessage, RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRequest(FileMessage):
    """Make a run under the client of MLCommons' power kit, which makes it twice: for the ranges, and to be measured.

    ``run``: what is measured. ``kit``: the folder of the kit; ``director``: host:port of its server; ``ntp``: a time
    server. ``session``: a folder that does not exist yet, for what the client leaves: power/, ranging/ and run_1/.
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
    """Carry out a run while its machine is in a power state.

    ``inner_verb``, ``inner``: the request of the run. ``set_by`` and ``restore``: commands that bring the machine there
    and back; ``read_by`` prints what must then be ``expect``; all of them start in ``cwd``. ``journal``: a file of the
    machine that says what to put back. ``secrets``: as of the run; ``places``: what it names outside the repository.
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
