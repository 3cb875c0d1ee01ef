"""The digests a rendered tree must have, and how a directory differs from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.tree.content import Content, LogRef


@dataclass(frozen=True, slots=True)
class Differences:
    """Paths by what is wrong with them, each sorted: not there, there with other bytes, there but not rendered."""

    missing: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.edited or self.extra)


def hash_content(content: Content) -> str:
    """SHA-256 in hexadecimal."""
    return content.sha256 if isinstance(content, LogRef) else hashlib.sha256(content).hexdigest()


def build_manifest(rendered: Iterable[tuple[str, Content]]) -> dict[str, str]:
    """{path: SHA-256} of a rendered tree, in its order."""
    return {path: hash_content(content) for path, content in rendered}


def compare(expected: Mapping[str, str], found: Mapping[str, str]) -> Differences:
    """``expected`` from ``manifest``; ``found``: {path: SHA-256} of every file of a directory."""
    return Differences(
        missing=tuple(sorted(expected.keys() - found.keys())),
        edited=tuple(sorted(path for path in expected.keys() & found.keys() if expected[path] != found[path])),
        extra=tuple(sorted(found.keys() - expected.keys())),
    )
