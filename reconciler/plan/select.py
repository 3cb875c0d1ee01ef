"""Selectors: ``benchmark=resnet scenario=Offline,Server system=h200* kind=Engine``.

Terms of different fields are joined by "and"; terms of one field, like the commas inside a term, by "or". Values are
shell globs, compared without regard to case. A cell is matched by whole parts of its name in their order, as in
``cell=open/Server``; a word without "=" also by any piece of text in it. An option that takes a selector may be
repeated, and its selectors add up: see ``parse_repeated``.
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


# Cells by their names, parts of names, globs, or selectors.

_MOST = 12


def find_cell(text: str, cells: Iterable[Cell], listed_by: str = "reconcile status") -> Cell:
    """The one cell meant. ``listed_by``: the command that lists them.

    Raises ReconcilerError that lists the candidates, or the nearest names."""
    known = {str(cell): cell for cell in cells}
    found = _candidates(join_parts(text), known)
    if len(found) == 1:
        return known[found[0]]
    if found:
        shown = "\n".join(f"  {name}" for name in found[:_MOST])
        more = f"\n  … and {len(found) - _MOST} more" if len(found) > _MOST else ""
        problem = f"{text!r} matches {len(found)} cells:\n{shown}{more}"
        raise ReconcilerError(problem, fix="name more of the one you mean")
    raise _explain_no_match(text, known, listed_by)


def find_cells(text: str, cells: Iterable[Cell]) -> list[Cell]:
    """All cells that a glob or a selector chooses; of any other text, the one cell meant. Raises ReconcilerError."""
    known = {str(cell): cell for cell in cells}
    if not set("=*?[").intersection(text):
        return [find_cell(text, known.values())]
    found = _select(text, known) if "=" in text else _candidates(join_parts(text), known)
    if not found:
        raise _explain_no_match(text, known, "reconcile status")
    return [known[name] for name in found]


def resolve_words(words: Sequence[str], cells: Callable[[], Iterable[Cell]]) -> tuple[str, ...]:
    """Words that select cells: where one is a whole name or whole parts of names, names that merely contain it do not
    match. ``cells``: asked where a word has no "=". Raises ReconcilerError that names the nearest."""
    if all("=" in word for word in words):
        return tuple(words)
    known = {str(cell): cell for cell in cells()}

    def resolve(word: str) -> str:
        if "=" in word or not known:
            return word
        parts = [part.strip() for part in word.split(",")]
        found = [_candidates(join_parts(part), known) for part in parts]
        if not all(found):
            raise _explain_no_match(parts[found.index([])], known, "reconcile status")
        narrow = f"cell={join_parts(word)}"
        exact = all(_select(f"cell={join_parts(part)}", known) for part in parts)
        return narrow if exact and _select(narrow, known) != _select(word, known) else word

    return tuple(map(resolve, words))


def _explain_no_match(text: str, known: dict[str, Cell], listed_by: str) -> ReconcilerError:
    near = _nearest(text, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"`{listed_by}` lists the cells"
    return ReconcilerError(f"no cell matches {text!r}", fix=hint)


def _select(text: str, known: dict[str, Cell]) -> list[str]:
    selection = parse_repeated([text])
    return [name for name in known if selection.matches(Address(Kind.RESULT, name))]


def find_measured_cell(text: str, measured: Collection[Cell], declared: Callable[[], Iterable[Cell]]) -> Cell:
    """The one cell meant, of those with a committed result. ``declared``: asked where none of them is meant, so that a
    cell which is only declared is not denied. Raises ReconcilerError."""
    try:
        return find_cell(text, measured)
    except ReconcilerError as error:
        try:
            found = find_cell(text, declared())
        except ReconcilerError:
            raise error from None
        if found in measured:
            raise
        fix = "`reconcile --commit` measures it and commits what was recorded; `reconcile status` shows its state"
        raise ReconcilerError(f"{found} is declared, and no result of it is committed yet", fix=fix) from None


def _candidates(text: str, known: dict[str, Cell]) -> list[str]:
    """The exact name; else what a selector chooses; else names with these whole parts in this order, first those where
    they follow each other; else with this text anywhere in them."""
    if text in known:
        return [text]
    if "=" in text:
        return _select(text, known)
    lower = text.lower()
    adjacent = [name for name in known if f"/{lower}/" in f"/{name.lower()}/"]
    whole = adjacent or [name for name in known if match_cell(name, lower)]
    return whole or [name for name in known if match_cell(name, f"*{lower}*")]


def _nearest(text: str, known: dict[str, Cell]) -> list[str]:
    """Whole names, or names of which one part is near: a typo in a scenario should find its cells."""
    text = text.rpartition("=")[2]
    near = difflib.get_close_matches(text, known, 3)
    if near:
        return near
    by_part = {part: name for name in reversed(known) for part in name.split("/")}
    by_lower = {part.lower(): name for part, name in by_part.items()}
    return [by_lower[part] for part in difflib.get_close_matches(text.lower(), by_lower, 3)]
