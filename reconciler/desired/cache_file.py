"""Disk cache of the compiled desired state, so that a warm `plan` imports neither a YAML library nor pydantic.

The file consists of lines: a header (the sources it was compiled from, and a row per resource), then the detail of each
resource, which is located by its offset and decoded on demand. If anything does not fit, the spec is compiled again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from reconciler.desired.state import Desired, DesiredFacts, Pins
from reconciler.resource.codec import CodecError, decode_json, encode_json
from reconciler.resource.inputs import Pin
from reconciler.resource.kinds import Address, Cell
from reconciler.resource.resources import Resource
from reconciler.storage.escaping import expand_variables, hide_location, hide_value
from reconciler.storage.files import hash_bytes, read_checked, write_cache

if TYPE_CHECKING:
    from reconciler.desired.detail import Detail

FORMAT = 14
_SHORTEST = 4  # characters; shorter values are not masked


class Compiled(Struct, frozen=True):
    """A desired state and the sources it was compiled from. ``variables``: environment variables read, and digests of
    their values. ``looked``: places that were checked, and whether they existed. ``written``: locations that contain
    variables, before expansion."""

    desired: Desired
    fingerprint: str
    variables: Mapping[str, str | None]
    pins: Pins
    spec: Mapping[str, str]
    looked: Mapping[str, bool] = field(default_factory=dict)
    written: tuple[str, ...] = ()


class _ResourceRow(NamedTuple):
    """``upstream``: indexes of other rows. ``cell``: "" for none. ``offset``: position of its detail after the
    header."""

    address: Address
    key: str
    upstream: tuple[int, ...]
    cell: str
    attempts: int
    brought: tuple[str, ...]
    offset: int


class _PinRow(NamedTuple):
    pin: Pin
    value: str | None
    origin: str | None


class _Head(Struct, frozen=True):
    """Header that decides whether the rest of the file may be read."""

    format: int
    variables: Mapping[str, str | None]
    written: tuple[str, ...] = ()


class _Header(Struct, frozen=True):
    fingerprint: str
    pins: Sequence[_PinRow]
    spec: Mapping[str, str]
    facts: DesiredFacts
    rows: Sequence[_ResourceRow]
    looked: Mapping[str, bool]


def digest_variables(names: Iterable[str]) -> dict[str, str | None]:
    """Digest environment variables with their current values; None for those that are not set."""
    return {name: _digest(name, os.environ[name]) if name in os.environ else None for name in names}


def _digest(name: str, value: str) -> str:
    return hash_bytes(f"{name}={value}".encode(errors="surrogateescape"))


class _Masked:
    """Replace locations and values of variables with placeholders, and restore them.

    Both directions are exact for any content: a placeholder begins and ends with different bytes, so that the end of
    one and the beginning of the next cannot form a third.
    """

    def __init__(self, names: Iterable[str], written: Sequence[str]) -> None:
        values = {name: os.environ.get(name, "") for name in sorted(names)}
        locations = {str(number): expand_variables(text, values) for number, text in enumerate(written)}
        self._pairs = [
            (encode_json(value)[1:-1], f"\\u0000{name}\\u0001".encode())
            for name, value in (*locations.items(), *values.items())
            if len(value) >= _SHORTEST and value.isprintable()
        ]

    def hide(self, data: bytes) -> bytes:
        for value, name in self._pairs:
            data = data.replace(value, name)
        return data

    def show(self, data: bytes) -> bytes:
        for value, name in reversed(self._pairs):
            data = data.replace(name, value)
        return data


def write(path: Path, compiled: Compiled) -> None:
    """Write the cache if the environment is unchanged. The file is not synced to disk, and a state that cannot be
    encoded is skipped, since it can always be compiled again."""
    if compiled.variables != digest_variables(compiled.variables):
        return  # the environment has changed since compilation
    with contextlib.suppress(CodecError):
        write_cache(path, _encode(compiled))


def _encode(compiled: Compiled) -> bytes:
    masked, desired = _Masked(compiled.variables, compiled.written), compiled.desired
    numbers = {r.address: i for i, r in enumerate(desired.resources)}
    lines, offsets, at = [], [], 0
    for resource in desired.resources:
        line = masked.hide(encode_json(desired.detail(resource.address))) + b"\n"
        lines.append(line)
        offsets.append(at)
        at += len(line)
    rows = [
        _ResourceRow(
            r.address, r.key, tuple(numbers[a] for a in r.upstream), str(r.cell or ""), r.attempts, r.brought, offset
        )
        for r, offset in zip(desired.resources, offsets, strict=True)
    ]
    pins = [_PinRow(pin, value, compiled.pins.origins.get(pin)) for pin, value in compiled.pins.values.items()]
    facts = DesiredFacts(**{name: getattr(desired, name) for name in DesiredFacts.__struct_fields__})
    header = _Header(compiled.fingerprint, pins, compiled.spec, facts, rows, compiled.looked)
    heads = [encode_json(_Head(FORMAT, compiled.variables, compiled.written)), masked.hide(encode_json(header)), b""]
    return b"\n".join(heads) + b"".join(lines)


def read(path: Path) -> Compiled | None:
    """Read the cache; return None if it does not exist, is unreadable, or was made in another environment."""
    data = read_checked(path) or b""
    start = data.find(b"\n") + 1
    end = data.find(b"\n", start) + 1
    try:
        head = decode_json(data[:start], _Head)
        if head.format != FORMAT or head.variables != digest_variables(head.variables):
            return None
        for name in head.variables:
            hide_value(name, os.environ.get(name, ""))
        for text in head.written:
            hide_location(text, expand_variables(text, os.environ))
        masked = _Masked(head.variables, head.written)
        return _decode(data, decode_json(masked.show(data[start:end]), _Header), end, head, masked)
    except CodecError:
        return None


def _decode(data: bytes, header: _Header, base: int, head: _Head, masked: _Masked) -> Compiled:
    addresses = [row.address for row in header.rows]
    cells: dict[str, Cell] = {}
    resources, by_address, offsets = [], {}, {}
    for address, key, ups, cell, attempts, brought, offset in header.rows:
        if cell and cell not in cells:
            cells[cell] = Cell.parse(cell)
        resource = Resource(address, key, tuple([addresses[i] for i in ups]), cells.get(cell), attempts, brought)
        resources.append(resource)
        by_address[address] = resource
        offsets[address] = base + offset

    def detail(address: Address) -> Detail:
        from reconciler.desired.detail import Detail

        at = offsets[address]
        found: Detail = decode_json(masked.show(data[at : data.index(b"\n", at)]), Detail)
        return found

    facts: dict[str, Any] = {name: getattr(header.facts, name) for name in header.facts.__struct_fields__}
    desired = Desired(resources=tuple(resources), detail=detail, by_address=by_address, **facts)
    origins = {row.pin: row.origin for row in header.pins if row.origin is not None}
    pins = Pins({row.pin: row.value for row in header.pins}, origins)
    return Compiled(desired, header.fingerprint, head.variables, pins, header.spec, header.looked, head.written)
