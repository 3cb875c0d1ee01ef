"""Shell completion of cells, selectors, rounds, branches and tags. Imported only when the shell requests it.

Completion never reports errors: if a spec cannot be read, there are no completions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from click.shell_completion import CompletionItem

from reconciler.cli.shared.plan_options import find_asked_cells, list_declared_cells
from reconciler.cli.shared.repository import find_root
from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import Cell

_FIELDS = ("division", "system", "benchmark", "scenario")


def complete_cells(beginning: str, specs: Sequence[str] = ()) -> list[CompletionItem]:
    """Complete declared cells that begin with this prefix, or else cells with a part that does."""
    text = beginning.lower()
    cells = [str(cell) for cell in list_declared(specs)]
    whole = [name for name in cells if name.lower().startswith(text)]
    parts = (name for name in cells if any(part.startswith(text) for part in name.lower().split("/")))
    return [CompletionItem(name) for name in whole or parts]


def complete_selectors(beginning: str, before: Sequence[str] = ()) -> list[CompletionItem]:
    """Complete "benchmark=digits", or a cell. A shell may split words at "=": ``before`` then ends with the preceding
    part."""
    cells = list_declared()
    values = dict.fromkeys((field, str(getattr(cell, field))) for field in _FIELDS for cell in cells)
    split = [word for word in before[-2:] if word != "="]
    if before and (before[-1] == "=" or before[-1] in _FIELDS):
        wanted = [value for field, value in values if field == split[-1]] if split else []
        return [CompletionItem(value) for value in wanted if value.lower().startswith(beginning.lower())]
    terms = (f"{field}={value}" for field, value in values)
    found = [CompletionItem(term) for term in terms if term.lower().startswith(beginning.lower())]
    return [*found, *(complete_cells(beginning) if "=" not in beginning else ())]


def complete_words(beginning: str, before: Sequence[str]) -> list[CompletionItem]:
    """Complete selectors; the shell itself completes spec files."""
    return [*complete_selectors(beginning, before), CompletionItem(beginning, type="file")]


def complete_rounds(beginning: str) -> list[CompletionItem]:
    from reconciler.rules.rounds import list_rounds

    return [CompletionItem(name) for name in reversed(list_rounds()) if name.startswith(beginning)]


def complete_refs(beginning: str) -> list[CompletionItem]:
    """Complete branches and tags, the newest first; after "A..", complete the second commit of the range."""
    from reconciler.storage.git import list_refs

    root = find_root(Path.cwd())
    first, dots, second = beginning.rpartition("..")
    names = dict.fromkeys(("HEAD", *(list_refs(root) if root is not None else ())))
    return [CompletionItem(f"{first}{dots}{name}") for name in names if name.startswith(second)]


def list_declared(specs: Sequence[str] = ()) -> tuple[Cell, ...]:
    try:
        paths, options = find_asked_cells(specs)
    except (ReconcilerError, OSError):
        return ()
    return tuple(list_declared_cells(paths, options.specs))
