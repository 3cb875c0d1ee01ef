"""A cell by its name, a part of its name, or a glob."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase

from reconciler.errors import ReconcilerError
from reconciler.plan.select import join_parts
from reconciler.resource.kinds import Cell

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
    near = _nearest(text, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"`{listed_by}` lists the cells"
    raise ReconcilerError(f"no cell matches {text!r}", fix=hint)


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
    """The exact name; else names with these whole parts in this order; else with this text anywhere in them."""
    if text in known:
        return [text]
    lower = text.lower()
    if any(sign in text for sign in "*?["):
        globs = [name for name in known if fnmatchcase(name.lower(), lower)]
        return globs or [name for name in known if fnmatchcase(name.lower(), f"*{lower}*")]
    parts = f"/{lower}/"
    whole = [name for name in known if parts in f"/{name.lower()}/"]
    return whole or _scattered(lower.split("/"), known) or [name for name in known if lower in name.lower()]


def _scattered(parts: list[str], known: dict[str, Cell]) -> list[str]:
    """ "digits/offline" or "open/offline": the parts in order, others between them."""

    def fits(name: str) -> bool:
        rest = iter(name.lower().split("/"))
        return all(part in rest for part in parts)

    return [name for name in known if fits(name)]


def _nearest(text: str, known: dict[str, Cell]) -> list[str]:
    """Whole names, or names of which one part is near: a typo in a scenario should find its cells."""
    near = difflib.get_close_matches(text, known, 3)
    if near:
        return near
    by_part = {part: name for name in reversed(known) for part in name.split("/")}
    by_lower = {part.lower(): name for part, name in by_part.items()}
    return [by_lower[part] for part in difflib.get_close_matches(text.lower(), by_lower, 3)]
