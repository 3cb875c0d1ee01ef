"""The compiled desired state on disk, so that a warm `plan` imports no YAML library and no pydantic.

One file of lines: a header (what it was compiled from, and a row per resource), then the detail of each resource,
found by its offset and decoded only when asked for. Disposable: any doubt, and it is compiled again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconciler.desired.state import Desired, Pins
from reconciler.files import read_checked, write_cache
from reconciler.resource.inputs import Input, Origin
from reconciler.resource.kinds import Address, Cell
from reconciler.resource.pins import Pin, PinKind
from reconciler.resource.resources import Detail, Resource

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Compiled:
    """A desired state with what it was compiled from. ``variables``: environment variables read, and their values."""

    desired: Desired
    fingerprint: str
    variables: Mapping[str, str | None]
    pins: Pins
    spec: Mapping[str, str]


def write(path: Path, compiled: Compiled) -> None:
    """Losing this file loses nothing, so it is not flushed to the disk."""
    desired = compiled.desired
    numbers = {r.address: i for i, r in enumerate(desired.resources)}
    lines, offsets, at = [], [], 0
    for resource in desired.resources:
        line = json.dumps(_encode(desired.detail(resource.address)), separators=(",", ":")).encode() + b"\n"
        lines.append(line)
        offsets.append(at)
        at += len(line)
    header = {
        "format": FORMAT,
        "fingerprint": compiled.fingerprint,
        "variables": dict(compiled.variables),
        "pins": [[*pin, value, compiled.pins.origins.get(pin)] for pin, value in compiled.pins.values.items()],
        "spec": dict(compiled.spec),
        "digest": desired.digest,
        "name": desired.name,
        "missing": list(desired.missing_cells),
        "resources": [
            [str(r.address), r.key, [numbers[a] for a in r.upstream], str(r.cell) if r.cell else "", r.attempts, offset]
            for r, offset in zip(desired.resources, offsets, strict=True)
        ],
    }
    write_cache(path, json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(lines))


def read(path: Path) -> Compiled | None:
    """None when there is none, or it cannot be read."""
    data = read_checked(path) or b"{}"
    end = data.find(b"\n") + 1
    try:
        header = json.loads(data[:end] or b"{}")
        if header.get("format") != FORMAT:
            return None
        return _decode(data, header, end)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def _decode(data: bytes, header: dict[str, Any], base: int) -> Compiled:
    rows = header["resources"]
    addresses = [Address.parse(row[0]) for row in rows]
    cells: dict[str, Cell] = {}
    resources = []
    for address, (_, key, ups, cell, attempts, _) in zip(addresses, rows, strict=True):
        if cell and cell not in cells:
            cells[cell] = Cell.parse(cell)
        resources.append(Resource(address, key, tuple(addresses[i] for i in ups), cells.get(cell), attempts))
    offsets = {address: base + row[5] for address, row in zip(addresses, rows, strict=True)}

    def detail(address: Address) -> Detail:
        at = offsets[address]
        return _decode_detail(json.loads(data[at : data.index(b"\n", at)]))

    desired = Desired(
        digest=header["digest"],
        resources=tuple(resources),
        detail=detail,
        name=header["name"],
        by_address={r.address: r for r in resources},
        missing_cells=tuple(header["missing"]),
    )
    return Compiled(desired, header["fingerprint"], header["variables"], _decode_pins(header["pins"]), header["spec"])


def _decode_pins(rows: list[list[Any]]) -> Pins:
    found = [(Pin(PinKind(kind), *named), value, origin) for kind, *named, value, origin in rows]
    origins = {pin: origin for pin, _, origin in found if origin is not None}
    return Pins({pin: value for pin, value, _ in found}, origins)


def _encode(detail: Detail) -> list[Any]:
    inputs = [_encode_input(item) for item in detail.inputs]
    return [inputs, dict(detail.locations), dict(detail.settings), list(detail.marks)]


def _encode_input(item: Input) -> list[Any]:
    upstream = str(item.upstream) if item.upstream is not None else ""
    return [item.name, item.value, item.origin.file, item.origin.line, item.origin.column, upstream]


def _decode_detail(document: list[Any]) -> Detail:
    inputs, locations, settings, marks = document
    decoded = tuple(
        Input(name, value, Origin(file, line, column), Address.parse(upstream) if upstream else None)
        for name, value, file, line, column, upstream in inputs
    )
    return Detail(decoded, locations, settings, tuple(marks))
