"""Pins: what keys need of the world. This machine answers where it can, else the last record that knew."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from reconciler.desired.state import Pins
from reconciler.observed.installed import backend_version
from reconciler.observed.stamps import Stamps
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, Recorded, Summary

# Where the last record of a source stands, and under which name: a benchmark's file is part of its dataset.
_KIND = {"model": Kind.MODEL, "dataset": Kind.DATASET, "benchmark": Kind.DATASET}
_NAME = {"model": "source", "dataset": "source", "benchmark": "benchmark.code"}


def observe_pins(
    needed: Iterable[str],
    recorded: Recorded,
    root: Path,
    stamps: Stamps,
    distributions: dict[str, str],
    elsewhere: Collection[str],
) -> Pins:
    """``root``: the repository, to which locations are relative. ``elsewhere``: systems that this machine is not;
    their versions come from records alone."""
    values: dict[str, str | None] = {}
    origins: dict[str, str] = {}
    for pin in needed:
        sort, _, rest = pin.partition(":")
        if sort == "source":
            values[pin], origins[pin] = _source(rest, recorded, root, stamps)
        else:
            backend, _, system = rest.partition("@")
            values[pin], origins[pin] = _version(backend, system, recorded, distributions, system in elsewhere)
    return Pins(values, origins)


def _source(rest: str, recorded: Recorded, root: Path, stamps: Stamps) -> tuple[str | None, str]:
    kind, _, where = rest.partition("@")
    benchmark, _, location = where.partition("|")
    path = root / location
    found = stamps.source(path) if path.exists() else None
    if found is not None:
        return found, location
    known = recorded.by_address.get(Address(_KIND[kind], benchmark), ())
    return _last(known, _NAME[kind]), "record"


def _version(
    backend: str, system: str, recorded: Recorded, distributions: dict[str, str], elsewhere: bool
) -> tuple[str | None, str]:
    here = None if elsewhere else backend_version(backend, distributions)
    if here is not None:
        return here, "this machine"
    return _last(_of_system(recorded, backend, system), "version"), "record"


def _of_system(recorded: Recorded, backend: str, system: str) -> Iterable[Summary]:
    """Records of one system and backend, oldest first; an address of a cell begins with division and system."""
    found = (
        summary
        for address, summaries in recorded.by_address.items()
        if f"/{system}/" in address.name
        for summary in summaries
        if ("engine.backend", backend) in summary.pins
    )
    return sorted(found, key=lambda summary: summary.started)


def _last(summaries: Iterable[Summary], name: str) -> str | None:
    found = None
    for summary in summaries:
        if summary.ended is Ended.DONE:
            found = dict(summary.pins).get(name, found)
    return found
