"""A desired resource, in the few values that comparing needs."""

from __future__ import annotations

from msgspec import Struct

from reconciler.resource.kinds import Address, Cell, Kind


class Resource(Struct, frozen=True):
    """A resource that the spec asks for, in the few values that comparing needs; everything else is in its ``Detail``
    (see ``desired.state``).

    ``upstream`` are the addresses it is made from. ``attempts`` bounds how often an INVALID or transient outcome is
    tried again. ``brought``: of a result, the compliance tests that the round requires and that come with runs made
    elsewhere, which makes them no resources.
    """

    address: Address
    key: str
    upstream: tuple[Address, ...] = ()
    cell: Cell | None = None
    attempts: int = 1
    brought: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return self.address.kind
