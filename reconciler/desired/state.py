"""The desired state as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from reconciler.errors import Problem
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address
from reconciler.resource.pins import Pin
from reconciler.resource.resources import Resource
from reconciler.resource.settings import SubmissionSettings

if TYPE_CHECKING:
    from reconciler.desired.detail import Detail


class Desired(Struct, frozen=True):
    """Resources in pipeline order, cell by cell. ``detail`` gives the inputs of a resource; the compiled cache reads it
    only when asked. ``digest`` identifies the whole: two equal digests plan alike. ``submission``: what is declared of
    the whole. ``shared``: inputs of the submission, but for its results. ``notes``: shown in a plan though nothing
    follows from them. ``gaps``: what a submission of it still needs."""

    digest: str
    resources: tuple[Resource, ...]
    detail: Callable[[Address], Detail]
    name: str = ""
    by_address: Mapping[Address, Resource] = field(default_factory=dict)
    submission: SubmissionSettings = field(default_factory=SubmissionSettings)
    shared: tuple[Input, ...] = ()
    missing_cells: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    gaps: tuple[Problem, ...] = ()


class Pins(Struct, frozen=True):
    """Facts of the world that keys need: the SHA-256 of each source, the version of each backend.

    A value comes from the spec, else from this machine when it matches, else from the last record; None where it is
    unknown.
    """

    values: Mapping[Pin, str | None] = field(default_factory=dict)
    origins: Mapping[Pin, str] = field(default_factory=dict)

    def list_inputs(self, pins: Mapping[str, Pin]) -> list[Input]:
        """By the names of inputs, those whose values are known."""
        known = ((name, pin, self.values.get(pin)) for name, pin in pins.items())
        return [
            Input(n, value, Origin(self.origins.get(pin, "record"))) for n, pin, value in known if value is not None
        ]
