"""Optional parts of the harness, each a package with one entry in ``PARTS``; backends are listed in
``harness.catalog``. To remove a part, delete its package and its entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from harness.contract import BackgroundLoad, Benchmark, Fact, FileMessage
from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.backends import LoadPlan, Session

PARTS: Mapping[str, str] = {
    "mig": "harness.mig",
    "power": "harness.power",
}


def list_part_requests() -> Iterator[type[FileMessage]]:
    for package in PARTS.values():
        yield from import_module(f"{package}.requests").REQUESTS


class Neighbours(Protocol):
    """Background loads during a run. They compute while this context is entered."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """Raise HarnessError if any load stopped before the end of the run."""

    def facts(self) -> dict[str, Fact]:
        """Return how fast each load computed."""


class Slices(Protocol):
    """The interface of ``mig``."""

    def take_slices(self, wanted: Sequence[str], *, anywhere: bool = False) -> None:
        """Make only slices of these profiles visible to CUDA, in this process and its children."""

    def open_session(self, backend: str, benchmark: Benchmark, plan: LoadPlan, slices: Sequence[str]) -> Session:
        """Open the session of a run over several slices."""

    def prepare_background(self, loads: Sequence[BackgroundLoad], own: int, folder: Path) -> Neighbours:
        """Prepare the background loads of a run, to which only its first ``own`` slices are visible from here on."""


def load_mig() -> Slices:
    """Load the part. Raises HarnessError if it was removed."""
    if "mig" not in PARTS:
        problem = "this installation does not include mig"
        raise HarnessError(problem, "missing", "remove slices, or install the complete project")
    slices: Slices = import_module(f"{PARTS['mig']}.slices")
    return slices
