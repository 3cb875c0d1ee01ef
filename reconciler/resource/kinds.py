"""Cells and addresses, and their components."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from reconciler.resource.pipeline import ORDER as ORDER
from reconciler.resource.pipeline import Kind as Kind
from reconciler.resource.programs import PROGRAMS
from reconciler.resource.quantities import read_count

_BY_NAME = {kind.value: kind for kind in Kind}  # three times as fast as Kind(name)

ACCURACY, PERFORMANCE = "accuracy", "performance"
AUDIT = "audit"  # name of a test's own run among the inputs of its verdict
MODES = (ACCURACY, PERFORMANCE)  # accuracy first, so that a broken engine fails before the long run
SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline", "Interactive")
DIVISIONS = ("closed", "open", "network")
ALL_DIVISIONS = (*DIVISIONS, *(name for entry in PROGRAMS.values() for name in entry.divisions))


class Cell(Struct, frozen=True, order=True):
    """Division x system x benchmark (with its accuracy variant) x scenario: one scenario folder of the tree."""

    division: str
    system: str
    benchmark: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.division}/{self.system}/{self.benchmark}/{self.scenario}"

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Parse a cell. Raises TypeError for any other text."""
        return cls(*text.split("/"))


def name_point(concurrency: int) -> str:
    """Return the name of a curve's point, which replaces the scenario in its cell."""
    return f"c{concurrency}"


def read_point(cell: Cell) -> int:
    """Return the concurrency of a curve's point; 0 for a cell of MLPerf Inference."""
    return read_count(cell.scenario[1:], 0)


def rank_cell(cell: Cell) -> tuple[str, str, str, int, str]:
    """Return the sort key for display: points of a curve are ordered by concurrency."""
    return cell.division, cell.system, cell.benchmark, read_point(cell), cell.scenario


class Address(NamedTuple):
    """Address of a resource in the desired state: ``Engine:open/box/digits/Offline``, ``Dataset:digits``.

    ``name`` is a benchmark, a cell, or a cell followed by a run's mode or a test's name. Addresses with the same key
    share one record and one artifact. It is a named tuple for speed, since a command creates and hashes tens of
    thousands.
    """

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Address:
        kind, _, name = text.partition(":")
        return cls(_BY_NAME.get(kind) or Kind(kind), name)

    @property
    def cell(self) -> Cell | None:
        """The cell of this address; None for resources shared by a benchmark or submission."""
        parts = self.name.split("/")
        return Cell(*parts[:4]) if len(parts) >= 4 else None

    @property
    def part(self) -> str:
        """Part after the cell: a run's mode or a test's name; "" without one."""
        parts = self.name.split("/")
        return parts[4] if len(parts) == 5 else ""

    @property
    def mode(self) -> str:
        """The mode of a run; "" for other kinds."""
        return self.name.rpartition("/")[2] if self.kind is Kind.RUN else ""

    @property
    def is_run(self) -> bool:
        """True for a run of the benchmark, also for a compliance test's."""
        return self.kind in (Kind.RUN, Kind.COMPLIANCE_TEST)

    @property
    def is_timed(self) -> bool:
        """True for a timed run; a compliance test is a performance run, too."""
        return self.mode == PERFORMANCE or self.kind is Kind.COMPLIANCE_TEST

    @property
    def label(self) -> str:
        """Label for users: "Engine", "Run accuracy", "TEST01", "TEST01 verdict", "TEST07 dataset"."""
        pattern = _LABELS.get(self.kind) if self.part else None
        return pattern.format(self.part) if pattern else str(self.kind)


_LABELS = {Kind.RUN: "Run {}", Kind.COMPLIANCE_TEST: "{}", Kind.VERDICT: "{} verdict", Kind.DATASET: "{} dataset"}


class RunAddress(NamedTuple):
    """Address of a cell's run, by mode."""

    cell: Cell
    mode: str

    @property
    def address(self) -> Address:
        return Address(Kind.RUN, f"{self.cell}/{self.mode}")


def find_proved_run(address: Address) -> Address | None:
    """Return the performance run that a compliance test or its verdict is about; None for other resources."""
    if address.kind not in (Kind.COMPLIANCE_TEST, Kind.VERDICT) or address.cell is None:
        return None
    return RunAddress(address.cell, PERFORMANCE).address


def find_upstream(origin: str) -> Address | None:
    """Find the resource that an input comes from, by the origin's text in a record or a saved plan; None if the origin
    is a line, a round or a machine."""
    kind, _, name = origin.partition(":")
    return Address(_BY_NAME[kind], name) if kind in _BY_NAME else None


_VARIANTS = ("-99.9", "-99", "-95")


def strip_variant(benchmark: str) -> str:
    """Return the common name of variants that differ only in their accuracy targets: bert for bert-99.9. The rules let
    such variants share runs."""
    return next((benchmark.removesuffix(ending) for ending in _VARIANTS if benchmark.endswith(ending)), benchmark)
