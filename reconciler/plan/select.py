"""Selectors: ``benchmark=resnet scenario=Offline,Server system=h200* kind=Engine``.

Terms of different fields are combined with "and"; terms of one field, and values separated by commas, with "or". Values
are case-insensitive shell globs. A cell matches by complete parts of its name in order, as in ``cell=open/Server``; a
word without "=" also matches any part of the name's text. An option that takes a selector may be repeated, and its
selectors add up: see ``parse_repeated``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import Address, Cell, Kind

FIELDS = ("division", "system", "benchmark", "scenario", "kind", "mode", "cell")
_OF_RESOURCES = ("kind", "mode")  # the other fields select cells
_AROUND_SLASH = re.compile(r"\s*/\s*")
_BETWEEN_TERMS = re.compile(r"\s+(?=[a-z]+=)")


class Selector(Struct, frozen=True):
    """``terms``: (field, globs) pairs; without terms it selects everything."""

    terms: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def matches(self, address: Address) -> bool:
        return all(any(_matches(address, field, glob) for glob in globs) for field, globs in self.terms)

    def drop_resource_terms(self) -> Selector:
        """Return the selector without the terms that select a cell's resources."""
        return Selector(tuple(term for term in self.terms if term[0] not in _OF_RESOURCES))

    @property
    def names_kind(self) -> bool:
        return any(field == "kind" for field, _ in self.terms)


class Selection(Struct, frozen=True):
    """A union of selectors; without any it matches nothing."""

    selectors: tuple[Selector, ...] = ()

    def matches(self, address: Address) -> bool:
        return any(selector.matches(address) for selector in self.selectors)

    def drop_resource_terms(self) -> Selection:
        """Return the selectors that select entire cells."""
        return Selection(tuple(found for found in self.selectors if found.drop_resource_terms() == found))


def parse_repeated(options: Sequence[str]) -> Selection:
    """Parse a repeated option, one selector each, with terms separated by spaces, as in ``--exclude "benchmark=resnet
    scenario=Server"``. Raises ReconcilerError like ``parse``."""
    return Selection(tuple(parse(_BETWEEN_TERMS.split(text.strip())) for text in options))


def parse(words: Sequence[str]) -> Selector:
    """Parse the terms of a selector. Raises ReconcilerError for an unknown field, with the nearest name, and for two
    terms in one word."""
    terms: dict[str, tuple[str, ...]] = {}
    for word in words:
        field, equals, value = word.partition("=")
        if not equals:
            field, value = "cell", ",".join(f"{text},*{text}*" for text in map(join_parts, word.split(",")))
        if field not in FIELDS:
            near = difflib.get_close_matches(field, FIELDS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(FIELDS)}"
            raise ReconcilerError(f"selector {word!r}: unknown field {field!r}", fix=hint)
        if "=" in value:
            fix = "separate terms with spaces: kind=Engine benchmark=resnet"
            raise ReconcilerError(f"selector {word!r}: the value {value!r} contains another '='", fix=fix)
        terms[field] = (*terms.get(field, ()), *(glob.lower() for glob in value.split(",")))
    return Selector(tuple(terms.items()))


def join_parts(text: str) -> str:
    """Convert a cell as printed in plans, with spaces around its slashes, to its name in records."""
    return _AROUND_SLASH.sub("/", text.strip()).strip("/")


def _matches(address: Address, field: str, glob: str) -> bool:
    """Match a resource. One that belongs to an entire benchmark is compared only by benchmark and kind; it matches any
    other term."""
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
    """Match the complete name, or complete parts of it in order, possibly with gaps. ``glob``: in lower case."""
    rest = iter(name.lower().split("/"))
    in_order = all(any(fnmatchcase(part, wanted) for part in rest) for wanted in glob.split("/"))
    return in_order or fnmatchcase(name.lower(), glob)


# Find cells by name, parts of a name, glob, or selector.

_MOST = 12


def find_cell(text: str, cells: Iterable[Cell], listed_by: str = "reconcile status") -> Cell:
    """Find the one matching cell. ``listed_by``: the command that lists the cells.

    Raises ReconcilerError with the candidates, or with the nearest names.
    """
    known = {str(cell): cell for cell in cells}
    found = _list_candidates(join_parts(text), known)
    if len(found) == 1:
        return known[found[0]]
    if found:
        shown = "\n".join(f"  {name}" for name in found[:_MOST])
        more = f"\n  … and {len(found) - _MOST} more" if len(found) > _MOST else ""
        problem = f"{text!r} matches {len(found)} cells:\n{shown}{more}"
        raise ReconcilerError(problem, fix="give a longer name")
    raise _explain_no_match(text, known, listed_by)


def find_cells(text: str, cells: Iterable[Cell]) -> list[Cell]:
    """Find all cells that match a glob or selector, or the one cell that matches any other text. Raises
    ReconcilerError."""
    known = {str(cell): cell for cell in cells}
    if not set("=*?[").intersection(text):
        return [find_cell(text, known.values())]
    found = _select(text, known) if "=" in text else _list_candidates(join_parts(text), known)
    if not found:
        raise _explain_no_match(text, known, "reconcile status")
    return [known[name] for name in found]


def resolve_words(words: Sequence[str], cells: Callable[[], Iterable[Cell]]) -> tuple[str, ...]:
    """Narrow words that select cells, so that a complete name, or complete parts of one, does not match names that
    merely contain it. ``cells``: called if a word has no "=". Raises ReconcilerError with the nearest names."""
    if all("=" in word for word in words):
        return tuple(words)
    known = {str(cell): cell for cell in cells()}

    def resolve(word: str) -> str:
        if "=" in word or not known:
            return word
        parts = [part.strip() for part in word.split(",")]
        found = [_list_candidates(join_parts(part), known) for part in parts]
        if not all(found):
            raise _explain_no_match(parts[found.index([])], known, "reconcile status")
        narrow = f"cell={join_parts(word)}"
        exact = all(_select(f"cell={join_parts(part)}", known) for part in parts)
        return narrow if exact and _select(narrow, known) != _select(word, known) else word

    return tuple(map(resolve, words))


def _explain_no_match(text: str, known: dict[str, Cell], listed_by: str) -> ReconcilerError:
    near = _find_nearest(text, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"`{listed_by}` lists the cells"
    return ReconcilerError(f"no cell matches {text!r}", fix=hint)


def _select(text: str, known: dict[str, Cell]) -> list[str]:
    selection = parse_repeated([text])
    return [name for name in known if selection.matches(Address(Kind.RESULT, name))]


def find_measured_cell(text: str, measured: Collection[Cell], declared: Callable[[], Iterable[Cell]]) -> Cell:
    """Find the one matching cell among those with a committed result. ``declared``: called if none matches, so that the
    error can say that a cell is declared but not measured. Raises ReconcilerError."""
    try:
        return find_cell(text, measured)
    except ReconcilerError as error:
        try:
            found = find_cell(text, declared())
        except ReconcilerError:
            raise error from None
        if found in measured:
            raise
        fix = "`reconcile --commit` measures it and commits the records; `reconcile status` shows its state"
        raise ReconcilerError(f"{found} is declared, but has no committed result", fix=fix) from None


def _list_candidates(text: str, known: dict[str, Cell]) -> list[str]:
    """Return the exact name; else the cells that a selector matches; else names with these complete parts in order,
    preferably adjacent; else names that contain the text."""
    if text in known:
        return [text]
    if "=" in text:
        return _select(text, known)
    lower = text.lower()
    adjacent = [name for name in known if f"/{lower}/" in f"/{name.lower()}/"]
    whole = adjacent or [name for name in known if match_cell(name, lower)]
    return whole or [name for name in known if match_cell(name, f"*{lower}*")]


def _find_nearest(text: str, known: dict[str, Cell]) -> list[str]:
    """Return similar names, or names with a similar part, so that a typo in a scenario finds its cells."""
    text = text.rpartition("=")[2]
    if near := difflib.get_close_matches(text, known, 3):
        return near
    by_part = {part: name for name in reversed(known) for part in name.split("/")}
    by_lower = {part.lower(): name for part, name in by_part.items()}
    return [by_lower[part] for part in difflib.get_close_matches(text.lower(), by_lower, 3, cutoff=0.8)]
