"""Cells by their names, parts of names, globs, or selectors."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Sequence

from reconciler.errors import ReconcilerError
from reconciler.plan.select import join_parts, match_cell, parse_repeated
from reconciler.resource.kinds import Address, Cell, Kind

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
        raise ReconcilerError(
            f"{text!r} matches {len(found)} cells:\n{shown}{more}", fix="name more of the one you mean"
        )
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
