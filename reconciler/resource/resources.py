"""A desired resource and the desired state as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reconciler.resource.inputs import Input
from reconciler.resource.kinds import Address, Cell, Kind


@dataclass(frozen=True, slots=True)
class Resource:
    """What the spec asks for, in the few values that comparing needs; everything else is in its ``Detail``.

    ``upstream`` are the addresses it is made from. ``attempts`` bounds how often an INVALID or transient outcome is
    tried again.
    """

    address: Address
    key: str
    upstream: tuple[Address, ...] = ()
    cell: Cell | None = None
    attempts: int = 1

    @property
    def kind(self) -> Kind:
        return self.address.kind


@dataclass(frozen=True, slots=True)
class Detail:
    """What executing, recording and explaining a resource needs. ``locations`` (paths) and ``settings`` never enter
    the key unless an input of the same name says so."""

    inputs: tuple[Input, ...]
    locations: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        return {item.name: item.value for item in self.inputs}
