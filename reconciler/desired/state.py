"""The desired state as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from reconciler.errors import Problem
from reconciler.resource.inputs import Input, Origin, Pin
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.records import Recorded
from reconciler.resource.resources import Resource
from reconciler.resource.settings import SubmissionSettings

if TYPE_CHECKING:
    from reconciler.desired.detail import Detail


class SampleDemand(Struct, frozen=True):
    """The minimum number of samples in a cell's dataset, and the gap to report if a record shows fewer."""

    cell: Cell
    least: int
    gap: Problem


class DesiredFacts(Struct, frozen=True, kw_only=True):
    """A desired state without its resources. ``digest`` identifies the state: equal digests give equal plans.
    ``submission``: settings of the submission. ``shared``: inputs of the submission other than its results. ``notes``:
    shown in a plan, without effect. ``gaps``: what the spec still needs to be submitted; ``sample_demands``: the same
    for what only records show."""

    digest: str
    name: str = ""
    submission: SubmissionSettings = field(default_factory=SubmissionSettings)
    shared: tuple[Input, ...] = ()
    missing_cells: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    gaps: tuple[Problem, ...] = ()
    sample_demands: tuple[SampleDemand, ...] = ()


class Desired(DesiredFacts, frozen=True, kw_only=True):
    """Resources in pipeline order, cell by cell. ``detail`` returns a resource's inputs; the compiled cache decodes
    them on demand."""

    resources: tuple[Resource, ...]
    detail: Callable[[Address], Detail]
    by_address: Mapping[Address, Resource] = field(default_factory=dict)

    def list_lineage(self, address: Address) -> list[Address]:
        """List a resource and everything that it is made from, each once."""
        ahead, found = [address], dict[Address, None]()
        while ahead:
            next_one = ahead.pop()
            if next_one not in found and next_one in self.by_address:
                found[next_one] = None
                ahead += self.by_address[next_one].upstream
        return list(found)

    def list_gaps(self, recorded: Recorded) -> tuple[Problem, ...]:
        """List what is still needed to submit it, including datasets that are too small according to their records."""
        found = dict.fromkeys(self.gaps)
        for cell, least, gap in ((item.cell, item.least, item.gap) for item in self.sample_demands):
            run = self.by_address[RunAddress(cell, PERFORMANCE).address]
            dataset = next(self.by_address[up] for up in run.upstream if up.kind is Kind.DATASET)
            made = recorded.list_done(dataset.key)
            if made and 0 < made[-1].samples < least:
                found[gap._replace(message=f"{made[-1].samples:,} samples, as recorded: {gap.message}")] = None
        return tuple(found)


class Pins(Struct, frozen=True):
    """External facts that keys need: the SHA-256 of each source, the version of each backend.

    A value comes from the spec, else from this machine if it matches, else from the last record; None if it is unknown.
    """

    values: Mapping[Pin, str | None] = field(default_factory=dict)
    origins: Mapping[Pin, str] = field(default_factory=dict)

    def list_inputs(self, pins: Mapping[str, Pin]) -> list[Input]:
        """Return the pins with known values as inputs, by name."""
        known = ((name, pin, self.values.get(pin)) for name, pin in pins.items())
        return [
            Input(n, value, Origin(self.origins.get(pin, "record"))) for n, pin, value in known if value is not None
        ]
