"""External facts that keys need in addition to the spec: digests of sources and versions of backends."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from reconciler.resource.kinds import Kind

CODE = "harness.code.sha256"  # of a harness command's code
MADE_OF_SOURCES = {"model": Kind.MODEL, "dataset": Kind.DATASET}
"""The kind of the resource made from the source that a pin of this name locates; it is named after the pin's owner."""


class PinKind(StrEnum):
    """Names under which pins enter a key: the digest of a file or folder, or an installed version."""

    SOURCE = "source"
    VERSION = "version"


class Pin(NamedTuple):
    """``name``: what is pinned: "model", "harness.code.sha256", a backend. ``owner``: the benchmark, cell, test or
    document that uses it; for a version, the system. ``location``: the source's path here, not part of the identity."""

    kind: PinKind
    name: str
    owner: str
    location: str = ""


def make_source_pin(name: str, owner: str, location: str) -> Pin:
    return Pin(PinKind.SOURCE, name, owner, location)
