"""What keys need of the world beyond the spec: digests of sources, versions of backends."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from reconciler.resource.kinds import Address, Kind

MADE_OF_SOURCES = {"model": Kind.MODEL, "dataset": Kind.DATASET}
"""What is made of the source that a pin of this name finds, under the name of the pin's owner."""


class PinKind(StrEnum):
    """The names under which pins enter a key: the digest of a file or folder, or an installed version."""

    SOURCE = "source"
    VERSION = "version"


class Pin(NamedTuple):
    """``name``: what is pinned: "model", "harness.code.sha256", a backend. ``owner``: the benchmark, cell, test or
    document that has it; of a version the system. ``location``: where a source is found here, which is no identity."""

    kind: PinKind
    name: str
    owner: str
    location: str = ""


def make_source_pin(name: str, owner: str, location: str) -> Pin:
    return Pin(PinKind.SOURCE, name, owner, location)


class MovedSource(Struct, frozen=True):
    """A path of the spec that was changed to one that is not on this machine, while a record counts of what ``before``
    named: ``field`` "model.path", ``address`` of what is made of it."""

    address: Address
    field: str
    path: str
    before: str

    def __str__(self) -> str:
        named = f"{self.address.name}: {self.field} names {self.path}, which is not on this machine"
        return f"{named}; what is recorded was made of {self.before}, and counts on"
