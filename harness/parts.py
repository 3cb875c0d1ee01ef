"""Optional parts of the harness, each a package with one entry in ``PARTS``; backends have theirs in
``harness.catalog``. To remove a part, delete its package and its entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from harness.contract import FileMessage

PARTS: Mapping[str, str] = {
    "power": "harness.power",
}


def list_part_requests() -> Iterator[type[FileMessage]]:
    for package in PARTS.values():
        yield from import_module(f"{package}.requests").REQUESTS
