"""Find the repository of a command, and separate specs from selectors."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from reconciler.cli.shared.output import say
from reconciler.errors import ReconcilerError, RepositoryError
from reconciler.spec.files import make_written_name
from reconciler.storage.files import WORK, RepositoryPaths
from reconciler.storage.untrusted_files import find_in_index, find_place_in_git

_APART = "reconcile"  # folder inside git's folder
_SIGNS = ("specs", ".git", "state")


def find_root(start: Path) -> Path | None:
    """Return the nearest folder, from ``start`` upwards, that contains specs/, state/ or .git."""
    folder = start.resolve()
    return next((f for f in (folder, *folder.parents) if any((f / sign).exists() for sign in _SIGNS)), None)


def refuse_bare_repository(start: Path) -> None:
    """Raise RepositoryError if ``start``, or a folder above it, looks like git's own folder."""
    for folder in (start, *start.parents):
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
            fix = f"clone it and run there: git clone {shlex.quote(str(folder))} DIR"
            raise RepositoryError(f"this is a bare repository, without specs: {folder}", fix=fix)


def find_repository(specs: Sequence[str] = ()) -> RepositoryPaths:
    """Find the repository around the working folder, else around the first spec named."""
    starts = [Path.cwd(), *(Path(spec).parent for spec in specs[:1])]
    root = next((root for start in starts if (root := find_root(start)) is not None), None)
    if root is None:
        refuse_bare_repository(Path.cwd())
        raise RepositoryError(
            f"no repository here: {Path.cwd()} and the folders above it contain no specs/, state/ or .git",
            fix="`reconcile init` makes one here; `-C DIR` works on another",
        )
    paths = find_paths(root)
    if paths.apart is not None:
        _warn_of_tracked_work(paths)
    return paths


def find_paths(root: Path) -> RepositoryPaths:
    """Find the paths of a repository. If git tracks any part of the work folder, whose files a commit may have
    supplied, use one inside git's own folder."""
    tracked = find_in_index(root, WORK)
    return RepositoryPaths(root, find_place_in_git(root, _APART) if tracked else None)


def _warn_of_tracked_work(paths: RepositoryPaths) -> None:
    """Warn once per command."""
    context = click.get_current_context(silent=True)
    if context is not None and context.find_root().meta.setdefault(__name__, paths) is not paths:
        return
    say(
        f"warning: {find_in_index(paths.root, WORK)} is in git, so that nothing of {WORK}/ is read: it is what one "
        f"machine alone writes and believes. {paths.work} is used instead\n"
        f"fix: git rm -r --cached {WORK}, and commit that; also rm -r {WORK} if it came with a commit of others",
        err=True,
    )


def sort_words(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (specs, selectors). A spec is an existing path, or has a spec's suffix and no "="; other words name
    cells. Raises ReconcilerError for an empty word."""
    if "" in words:
        fix = "omit it, or set the variable that it comes from"
        raise ReconcilerError("an empty word is no spec or cell", fix=fix)
    specs = tuple(w for w in words if Path(w).exists() or ("=" not in w and w.endswith((".yaml", ".yml"))))
    return specs, tuple(word for word in words if word not in specs)


def show_from_root(paths: RepositoryPaths, path: str) -> str:
    """Convert a typed path (from the working folder) to one relative to the root if possible. A link keeps its own
    name, so that the reader judges its target."""
    written = make_written_name(Path(path), paths.root)
    if not Path(written).is_absolute() and ".." not in Path(written).parts:
        return written
    typed = Path(path)
    full = typed.parent.resolve() / typed.name
    return full.relative_to(paths.root).as_posix() if full.is_relative_to(paths.root) else str(full)
