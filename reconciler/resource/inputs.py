"""Inputs with their roles and origins, and the key computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.resource.canonical import digest
from reconciler.resource.kinds import Address, Kind

# Incremented when a change to our code must make every resource of a kind stale; shown in `plan`.
REVISIONS = dict.fromkeys(Kind, 1)


class Role(StrEnum):
    IDENTITY = "identity"
    EVIDENCE = "evidence"
    NOTE = "note"


class Origin(Struct, frozen=True, order=True):
    """Origin of a value. For a spec, its ``file`` with 1-based line and column; otherwise ``file`` is the source's
    name: "round v6.1", "default", "record", "this machine", "Engine:…" (an upstream key). Line 0 means no line."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def make_problem(self, path: str, message: str, fix: str = "") -> Problem:
        """Report a problem at this place. ``path``: of the value in the document."""
        return Problem(self.file, self.line, self.column, path, message, fix)


DEFAULT = Origin("default")


class Value(Struct, frozen=True):
    """A resolved value and where it was set. ``value`` is canonical (see ``canonical.py``)."""

    value: Any
    origin: Origin = DEFAULT


class Input(Struct, frozen=True):
    """One identity input of a resource. ``upstream``: the resource it comes from, whose key is the value."""

    name: str
    value: Any
    origin: Origin = DEFAULT
    upstream: Address | None = None


def make_key(kind: Kind, inputs: Iterable[Input]) -> str:
    """Return the key of a resource. Values of None are omitted, so that a new field that defaults to None makes no
    record stale."""
    return digest_inputs(kind, {item.name: item.value for item in inputs if item.value is not None})


def digest_inputs(kind: Kind, values: Mapping[str, object], revision: int | None = None) -> str:
    """Return the key for names and values, none of which is None. ``revision``: the revision in an earlier version of
    this program."""
    made = REVISIONS[kind] if revision is None else revision
    return digest({"kind": str(kind), "revision": made, "inputs": values})


CODE = "harness.code.sha256"  # name of the pin for a harness command's code
MADE_OF_SOURCES = {"model": Kind.MODEL, "dataset": Kind.DATASET}
"""Name of a pin → kind of the resource that is made from the source at the pin's location and named after the pin's
owner."""


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
