"""Collects desired resources as they are made, each once, with what its kind read of the spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec import Struct, field

from reconciler.desired.compliance import count_attempts
from reconciler.desired.detail import Detail
from reconciler.desired.inputs import SettingsReader, make_upstream_input
from reconciler.resource.inputs import Input, make_key
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.resources import Resource
from reconciler.resource.settings import CellSettings
from reconciler.spec.declared import DeclaredCell

_INPUT_NAME = {kind: str(kind).lower() for kind in Kind}
_name = attrgetter("name")


class ResourceBuilder(Struct):
    """``resources`` in the order in which people read them; ``noted``: label of a resource → names of settings it read.

    ``details`` make those of a resource's maker, the first cell that has it; of a resource that is known from an
    earlier compilation there is none until it is made. ``given``: what the cell ``under_way`` has, shared resources
    too.
    """

    resources: dict[Address, Resource] = field(default_factory=dict)
    details: dict[Address, Callable[[], Detail]] = field(default_factory=dict)
    makers: dict[Address, DeclaredCell | None] = field(default_factory=dict)
    given: list[Resource] = field(default_factory=list)
    under_way: DeclaredCell | None = None
    noted: dict[str, set[str]] = field(default_factory=dict)

    def begin(self, cell: DeclaredCell | None) -> None:
        self.under_way, self.given = cell, []

    def put(
        self,
        address: Address,
        inputs: list[Input],
        reader: SettingsReader | None,
        cell: DeclaredCell | None,
        brought: tuple[str, ...] = (),
        **extra: Any,
    ) -> Input:
        """Add one resource; gives back the input by which others are made from it. ``extra``: of its detail,
        settings and locations as what makes them, since few details are ever asked for."""
        ups = tuple([i.upstream for i in inputs if i.upstream is not None])
        key = make_key(address.kind, inputs)
        if reader is not None and reader.noted is not None:
            self.noted.setdefault(address.label, set()).update(reader.noted)
        attempts = _attempts(address, reader, cell)
        resource = Resource(address, key, ups, cell.cell if cell else None, attempts, brought)
        self.take(resource)
        if self.makers[address] is self.under_way:
            self.details[address] = partial(_make_detail, inputs, **extra)
        return make_upstream_input(_INPUT_NAME[address.kind], address, key)

    def take(self, resource: Resource) -> None:
        """A resource without its detail."""
        self.given.append(resource)
        self.resources.setdefault(resource.address, resource)
        self.makers.setdefault(resource.address, self.under_way)

    def share(self, address: Address) -> Resource | None:
        """A resource that another cell made, for the cell under way as well; None where this cell is to make it."""
        found = self.resources.get(address)
        if found is None or self.makers[address] is self.under_way:
            return None
        self.given.append(found)
        return found

    def find_made(self, name: str, address: Address) -> Input:
        """A resource that was put before, as an input of this name."""
        return make_upstream_input(name, address, self.resources[address].key)


def _make_detail(
    inputs: list[Input],
    settings: Callable[[], CellSettings] = CellSettings,
    locations: Callable[[], Mapping[str, str]] = dict,
    **extra: Any,
) -> Detail:
    return Detail(tuple(sorted(inputs, key=_name)), settings=settings(), locations=locations(), **extra)


def _attempts(address: Address, reader: SettingsReader | None, cell: DeclaredCell | None) -> int:
    if cell is not None and address.kind in (Kind.RUN, Kind.SERVICE) and "attempts" in cell.settings:
        return int(cell.settings["attempts"].value)
    if reader is not None and address.kind in (Kind.COMPLIANCE_TEST, Kind.VERDICT):
        return count_attempts(reader, address)
    return 1
