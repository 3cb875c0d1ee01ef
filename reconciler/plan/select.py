"""Selectors: ``benchmark=resnet scenario=Offline,Server system=h200* kind=Engine``.

Terms are joined by "and", the comma inside a term is "or", values are shell globs, compared without regard to case.
A word without "=" matches any part of the cell.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import Address, Kind

FIELDS = ("division", "system", "benchmark", "scenario", "kind", "mode", "cell")


@dataclass(frozen=True, slots=True)
class Selector:
    """``terms``: (field, globs) pairs; none selects everything."""

    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def matches(self, address: Address) -> bool:
        return all(any(_matches(address, field, glob) for glob in globs) for field, globs in self.terms)


def parse(words: Sequence[str]) -> Selector:
    """Raises ReconcilerError for a field that does not exist, naming the nearest, and for two terms in one word."""
    terms = []
    for word in words:
        field, equals, value = word.partition("=")
        if not equals:
            field, value = "cell", f"*{word}*"
        if field not in FIELDS:
            near = difflib.get_close_matches(field, FIELDS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(FIELDS)}"
            raise ReconcilerError(f"selector {word!r}: there is no field {field!r}", fix=hint)
        if "=" in value:
            fix = "give each term as a word of its own, as in kind=Engine benchmark=resnet"
            raise ReconcilerError(f"selector {word!r}: the value {value!r} holds another '='", fix=fix)
        terms.append((field, tuple(glob.lower() for glob in value.split(","))))
    return Selector(tuple(terms))


def _matches(address: Address, field: str, glob: str) -> bool:
    """What belongs to a whole benchmark matches by its benchmark and by kind, and any cell-wide term it has no
    value for."""
    cell = address.cell
    if field == "kind":
        return fnmatchcase(str(address.kind).lower(), glob) or fnmatchcase(address.label.lower(), glob)
    if field == "mode":
        return address.kind is not Kind.RUN or fnmatchcase(address.mode.lower(), glob)
    if cell is None:
        shared = field == "benchmark" and address.kind in (Kind.DATASET, Kind.MODEL)
        return fnmatchcase(address.name.lower(), glob) if shared else True
    value = str(cell) if field == "cell" else str(getattr(cell, field))
    return fnmatchcase(value.lower(), glob)
