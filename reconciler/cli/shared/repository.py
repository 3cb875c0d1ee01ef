"""Which repository a command works on, and which words name specs or selectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.errors import RepositoryError
from reconciler.files import RepositoryPaths
from reconciler.foreign import find_in_index
from reconciler.plan.select import join_parts
from reconciler.resource.kinds import ALL_DIVISIONS

WORK = ".reconcile"
_SIGNS = ("specs", ".git", "state")


def find_root(start: Path) -> Path | None:
    """The nearest folder, from ``start`` upwards, that holds specs/, state/ or .git."""
    folder = start.resolve()
    return next((f for f in (folder, *folder.parents) if any((f / sign).exists() for sign in _SIGNS)), None)


def find_repository(specs: Sequence[str] = ()) -> RepositoryPaths:
    """The repository around the working folder, else around the first spec named."""
    starts = [Path.cwd(), *(Path(spec).resolve().parent for spec in specs[:1])]
    root = next((root for start in starts if (root := find_root(start)) is not None), None)
    if root is None:
        raise RepositoryError(
            f"no repository here: {Path.cwd()} and the folders above it hold no specs/, state/ or .git",
            fix="`reconcile init` makes one here; `-C DIR` works on another",
        )
    if tracked := find_in_index(root, WORK):
        raise RepositoryError(
            f"{tracked} is in git: {WORK}/ is what this machine alone writes and believes, and came with a commit here",
            fix=f"git rm -r --cached {WORK} && rm -r {WORK}; then commit that, or leave the branch",
        )
    return RepositoryPaths(root)


def sort_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(specs, selectors). A selector holds an "=", or is a cell as it is printed, and is not an existing file."""
    selectors = tuple(word for word in words if ("=" in word or _names_cell(word)) and not Path(word).exists())
    specs = tuple(word for word in words if word not in selectors)
    for word in specs:
        if not Path(word).exists() and not word.endswith((".yaml", ".yml")):
            raise click.UsageError(
                f"{word!r} is neither a spec file nor a selector. A selector looks like benchmark=resnet."
            )
    return specs, selectors


def _names_cell(word: str) -> bool:
    division, slash, _ = join_parts(word).partition("/")
    return bool(slash) and division in ALL_DIVISIONS


def show_from_root(paths: RepositoryPaths, path: str) -> str:
    """A path as typed (from the working folder) as the repository knows it: relative to its root where possible."""
    full = Path(path).resolve()
    return full.relative_to(paths.root).as_posix() if full.is_relative_to(paths.root) else str(full)
