"""The desired state as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.mlperf.rules.context import RuleContext
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.pins import Pin
from reconciler.resource.resources import Resource


@dataclass(frozen=True, slots=True)
class Detail:
    """What executing, recording and explaining a resource needs. ``locations`` (paths) and ``settings`` never enter
    the key unless an input of the same name says so. ``rules``: what the round says of its cell."""

    inputs: tuple[Input, ...]
    locations: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    rules: RuleContext | None = None

    @property
    def ruling(self) -> RuleContext:
        """Of a run, a score or a test: every one belongs to a benchmark of the round."""
        assert self.rules is not None
        return self.rules

    def values(self) -> dict[str, Any]:
        return {item.name: item.value for item in self.inputs}


@dataclass(frozen=True, slots=True)
class Desired:
    """Resources in pipeline order, cell by cell. ``detail`` gives what a resource was made from; the compiled cache
    reads it only when asked. ``digest`` stands for the whole: two equal digests plan alike."""

    digest: str
    resources: tuple[Resource, ...]
    detail: Callable[[Address], Detail]
    name: str = ""
    by_address: Mapping[Address, Resource] = field(default_factory=dict)
    missing_cells: tuple[str, ...] = ()


def get_submission_settings(desired: Desired) -> Mapping[str, Any]:
    """What the whole submission declares, by flat name; empty where nothing is declared."""
    submission = next((r for r in desired.resources if r.kind is Kind.SUBMISSION), None)
    return desired.detail(submission.address).settings if submission else {}


@dataclass(frozen=True, slots=True)
class Pins:
    """What keys need of the world: the SHA-256 of each source, the version of each backend.

    A value comes from the spec, else from this machine when it matches, else from the last record; None where
    nobody knows.
    """

    values: Mapping[Pin, str | None] = field(default_factory=dict)
    origins: Mapping[Pin, str] = field(default_factory=dict)

    def inputs(self, pins: Mapping[str, Pin]) -> list[Input]:
        """By the names of inputs, those whose values are known."""
        known = ((name, pin, self.values.get(pin)) for name, pin in pins.items())
        return [
            Input(n, value, Origin(self.origins.get(pin, "record"))) for n, pin, value in known if value is not None
        ]
