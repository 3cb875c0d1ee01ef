"""Optional parts of the harness, each a package with one entry in ``PARTS``; backends have theirs in
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
    """Computation next to a run. Entered, all of it computes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """Raises HarnessError where any did not compute until the end of the run."""

    def facts(self) -> dict[str, Fact]:
        """How fast each computed."""


class Slices(Protocol):
    """The door of ``mig``."""

    def take_slices(self, wanted: Sequence[str], *, anywhere: bool = False) -> None:
        """Show CUDA, in this process and those that it starts, slices of these profiles and nothing else."""

    def open_session(self, backend: str, benchmark: Benchmark, plan: LoadPlan, slices: Sequence[str]) -> Session:
        """The session of a run over several slices."""

    def prepare_background(self, loads: Sequence[BackgroundLoad], own: int, folder: Path) -> Neighbours:
        """What computes next to a run on its ``own`` first slices, which alone are shown from here on."""


def load_mig() -> Slices:
    """Raises HarnessError where the part was removed."""
    if "mig" not in PARTS:
        raise HarnessError("this installation has no mig", "missing", "leave slices out, or install the whole project")
    slices: Slices = import_module(f"{PARTS['mig']}.slices")
    return slices
