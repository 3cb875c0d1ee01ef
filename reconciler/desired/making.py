"""Collects desired resources as they are made, each once, with what its kind read of the spec."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.desired.auditing import attempts_of
from reconciler.desired.inputs import Reader, upstream
from reconciler.resource.inputs import Input, make_key
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.resources import Detail, Resource
from reconciler.spec.declared import DeclaredCell

_INPUT_NAME = {kind: str(kind).lower() for kind in Kind}
_KINDS = {str(kind) for kind in Kind}


@dataclass(frozen=True, slots=True)
class Made:
    """A resource with its detail."""

    resource: Resource
    detail: Detail


@dataclass(slots=True)
class Making:
    """``made`` in the order in which people read it; ``noted``: label of a resource → names of settings it read."""

    made: dict[Address, Made] = field(default_factory=dict)
    noted: dict[str, set[str]] = field(default_factory=dict)

    def put(
        self, address: Address, inputs: list[Input], reader: Reader | None, cell: DeclaredCell | None, **extra: object
    ) -> Input:
        """Add one resource; gives back the input by which others are made from it."""
        ups = tuple(Address.parse(i.origin.file) for i in inputs if i.origin.file.partition(":")[0] in _KINDS)
        key = make_key(address.kind, inputs)
        if reader is not None:
            self.noted.setdefault(address.label, set()).update(reader.noted)
        resource = Resource(address, key, ups, cell.cell if cell else None, _attempts(address, reader, cell))
        detail = Detail(tuple(sorted(inputs, key=lambda i: i.name)), **extra)  # type: ignore[arg-type]
        self.made.setdefault(address, Made(resource, detail))
        return upstream(_INPUT_NAME[address.kind], address, key)

    def made_already(self, name: str, address: Address) -> Input:
        """A resource that was put before, as an input of this name."""
        return upstream(name, address, self.made[address].resource.key)


def _attempts(address: Address, reader: Reader | None, cell: DeclaredCell | None) -> int:
    if cell is not None and address.kind is Kind.RUN and "attempts" in cell.settings:
        return int(cell.settings["attempts"].value)
    if reader is not None and address.kind in (Kind.COMPLIANCE_TEST, Kind.VERDICT):
        return attempts_of(reader, address)
    return 1
