"""A desired resource, reduced to the values needed for comparisons."""

from __future__ import annotations

from msgspec import Struct

from reconciler.resource.kinds import Address, Cell, Kind


class Resource(Struct, frozen=True):
    """A resource that the spec requires, reduced to the values needed for comparisons; the rest is in its ``Detail``
    (see ``desired.state``).

    ``upstream``: the addresses it is made from. ``attempts``: how often an INVALID or transient outcome is tried again
    at most. ``brought``: for a result, the required compliance tests that are imported with runs made elsewhere, and so
    are no resources here.
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
