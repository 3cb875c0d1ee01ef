"""A desired resource, reduced to the values needed for comparisons."""

from __future__ import annotations

from msgspec import Struct

from reconciler.resource.kinds import Address, Cell, Kind


class Resource(Struct, frozen=True):
    """A resource that the spec requires, reduced to the values needed for comparisons; the rest is in its ``Detail``
    (see ``desired.state``).

    ``upstream``: the addresses it is made from. ``attempts``: the maximum number of attempts if outcomes are INVALID or
    transient. ``brought``: for a result, the required compliance tests that are imported with runs made elsewhere, and
    so are not resources here.
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
