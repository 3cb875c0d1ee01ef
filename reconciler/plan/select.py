"""Selectors: ``benchmark=resnet scenario=Offline,Server system=h200* kind=Engine``.

Terms of different fields are joined by "and"; terms of one field, like the commas inside a term, by "or". Values are
shell globs, compared without regard to case. A cell is matched by whole parts of its name in their order, as in
``cell=open/Server``; a word without "=" also by any piece of text in it. An option that takes a selector may be
repeated, and its selectors add up: see ``parse_repeated``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import Address, Kind

FIELDS = ("division", "system", "benchmark", "scenario", "kind", "mode", "cell")
_OF_RESOURCES = ("kind", "mode")  # the others choose cells
_AROUND_SLASH = re.compile(r"\s*/\s*")
_BETWEEN_TERMS = re.compile(r"\s+(?=[a-z]+=)")


class Selector(Struct, frozen=True):
    """``terms``: (field, globs) pairs; none selects everything."""

    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def matches(self, address: Address) -> bool:
        return all(any(_matches(address, field, glob) for glob in globs) for field, globs in self.terms)

    def drop_resource_terms(self) -> Selector:
        """Without the terms that choose among the resources of a cell."""
        return Selector(tuple(term for term in self.terms if term[0] not in _OF_RESOURCES))

    @property
    def names_kind(self) -> bool:
        return any(field == "kind" for field, _ in self.terms)


class Selection(Struct, frozen=True):
    """Matches of any of several selectors; without one, nothing."""

    selectors: tuple[Selector, ...] = ()

    def matches(self, address: Address) -> bool:
        return any(selector.matches(address) for selector in self.selectors)

    def drop_resource_terms(self) -> Selection:
        """The selectors that choose whole cells."""
        return Selection(tuple(found for found in self.selectors if found.drop_resource_terms() == found))


def parse_repeated(options: Sequence[str]) -> Selection:
    """An option that was given several times, one selector each: its terms are separated by spaces, as in
    ``--exclude "benchmark=resnet scenario=Server"``. Raises ReconcilerError as ``parse`` does."""
    return Selection(tuple(parse(_BETWEEN_TERMS.split(text.strip())) for text in options))


def parse(words: Sequence[str]) -> Selector:
    """Raises ReconcilerError for a field that does not exist, naming the nearest, and for two terms in one word."""
    terms: dict[str, tuple[str, ...]] = {}
    for word in words:
        field, equals, value = word.partition("=")
        if not equals:
            field, value = "cell", ",".join(f"{text},*{text}*" for text in map(join_parts, word.split(",")))
        if field not in FIELDS:
            import difflib

            near = difflib.get_close_matches(field, FIELDS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(FIELDS)}"
            raise ReconcilerError(f"selector {word!r}: there is no field {field!r}", fix=hint)
        if "=" in value:
            fix = "give each term as a word of its own, as in kind=Engine benchmark=resnet"
            raise ReconcilerError(f"selector {word!r}: the value {value!r} holds another '='", fix=fix)
        terms[field] = (*terms.get(field, ()), *(glob.lower() for glob in value.split(",")))
    return Selector(tuple(terms.items()))


def join_parts(text: str) -> str:
    """A cell as plans print it, with spaces around its slashes, as records name it."""
    return _AROUND_SLASH.sub("/", text.strip()).strip("/")


def _matches(address: Address, field: str, glob: str) -> bool:
    """A resource of a whole benchmark matches by its benchmark and by kind, and any cell-wide term it has no value
    for."""
    cell = address.cell
    if field == "kind":
        return fnmatchcase(str(address.kind).lower(), glob) or fnmatchcase(address.label.lower(), glob)
    if field == "mode":
        return address.kind is not Kind.RUN or fnmatchcase(address.mode.lower(), glob)
    if cell is None:
        shared = field == "benchmark" and address.kind in (Kind.DATASET, Kind.MODEL)
        return fnmatchcase(address.name.lower(), glob) if shared else True
    return match_cell(str(cell), glob) if field == "cell" else fnmatchcase(str(getattr(cell, field)).lower(), glob)


def match_cell(name: str, glob: str) -> bool:
    """The whole name, or whole parts of it in this order, others between them. ``glob``: in small letters."""
    rest = iter(name.lower().split("/"))
    in_order = all(any(fnmatchcase(part, wanted) for part in rest) for wanted in glob.split("/"))
    return in_order or fnmatchcase(name.lower(), glob)
