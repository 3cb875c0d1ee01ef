"""External facts that keys need in addition to the spec: digests of sources, versions of backends."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from reconciler.resource.kinds import Kind

CODE = "harness.code.sha256"  # of the code of a harness's command
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
