"""The compiled desired state on disk, so that a warm `plan` imports no YAML library and no pydantic.

One file of lines: a header (what it was compiled from, and a row per resource), then the detail of each resource,
found by its offset and decoded only when asked for. Disposable: any doubt, and it is compiled again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.codec import CodecError, decode_json, encode_json
from reconciler.desired.state import Desired, Pins
from reconciler.files import read_checked, write_cache
from reconciler.resource.kinds import Address, Cell
from reconciler.resource.pins import Pin
from reconciler.resource.resources import Detail, Resource

FORMAT = 3


@dataclass(frozen=True, slots=True)
class Compiled:
    """A desired state with what it was compiled from. ``variables``: environment variables read, and their values."""

    desired: Desired
    fingerprint: str
    variables: Mapping[str, str | None]
    pins: Pins
    spec: Mapping[str, str]


class _Row(NamedTuple):
    """``upstream``: numbers of other rows. ``cell``: "" for none. ``offset``: of its detail, behind the header."""

    address: Address
    key: str
    upstream: tuple[int, ...]
    cell: str
    attempts: int
    offset: int


class _PinRow(NamedTuple):
    pin: Pin
    value: str | None
    origin: str | None


@dataclass(frozen=True, slots=True)
class _Header:
    format: int
    fingerprint: str
    variables: Mapping[str, str | None]
    pins: Sequence[_PinRow]
    spec: Mapping[str, str]
    digest: str
    name: str
    missing: tuple[str, ...]
    rows: Sequence[_Row]


def write(path: Path, compiled: Compiled) -> None:
    """Losing this file loses nothing, so it is not flushed to the disk."""
    desired = compiled.desired
    numbers = {r.address: i for i, r in enumerate(desired.resources)}
    lines, offsets, at = [], [], 0
    for resource in desired.resources:
        line = encode_json(desired.detail(resource.address)) + b"\n"
        lines.append(line)
        offsets.append(at)
        at += len(line)
    rows = [
        _Row(r.address, r.key, tuple(numbers[a] for a in r.upstream), str(r.cell or ""), r.attempts, offset)
        for r, offset in zip(desired.resources, offsets, strict=True)
    ]
    pins = [_PinRow(pin, value, compiled.pins.origins.get(pin)) for pin, value in compiled.pins.values.items()]
    header = _Header(
        FORMAT,
        compiled.fingerprint,
        compiled.variables,
        pins,
        compiled.spec,
        desired.digest,
        desired.name,
        desired.missing_cells,
        rows,
    )
    write_cache(path, encode_json(header) + b"\n" + b"".join(lines))


def read(path: Path) -> Compiled | None:
    """None when there is none, or it cannot be read."""
    data = read_checked(path) or b""
    end = data.find(b"\n") + 1
    try:
        header = decode_json(data[:end], _Header)
    except CodecError:
        return None
    return _decode(data, header, end) if header.format == FORMAT else None


def _decode(data: bytes, header: _Header, base: int) -> Compiled:
    addresses = [row.address for row in header.rows]
    cells: dict[str, Cell] = {}
    resources, by_address, offsets = [], {}, {}
    for address, key, ups, cell, attempts, offset in header.rows:
        if cell and cell not in cells:
            cells[cell] = Cell.parse(cell)
        resource = Resource(address, key, tuple([addresses[i] for i in ups]), cells.get(cell), attempts)
        resources.append(resource)
        by_address[address] = resource
        offsets[address] = base + offset

    def detail(address: Address) -> Detail:
        at = offsets[address]
        found: Detail = decode_json(data[at : data.index(b"\n", at)], Detail)
        return found

    desired = Desired(
        digest=header.digest,
        resources=tuple(resources),
        detail=detail,
        name=header.name,
        by_address=by_address,
        missing_cells=header.missing,
    )
    origins = {row.pin: row.origin for row in header.pins if row.origin is not None}
    pins = Pins({row.pin: row.value for row in header.pins}, origins)
    return Compiled(desired, header.fingerprint, header.variables, pins, header.spec)
