"""Folders of a tree that this user may not list or enter. Their content is unknown, not missing. An examination of a
whole tree collects them, reports each once, and continues with the rest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import ParamSpec, TypeVar

from reconciler.errors import StorageError
from reconciler.resource.kinds import DIVISIONS
from reconciler.resource.rules import Rule
from reconciler.storage.storage_errors import explain_storage_error
from reconciler.tree.findings import Complaint, Place, TreeFinding

# Findings about folders that this user may not list; they replace all findings caused by not seeing the content.

UNREADABLE = Rule("tree.readable", "every file and folder can be read", ("ours",))
_OF_CELLS = ("results", "measurements", "compliance")


def report_closed_folders(
    closed: Iterable[Path], roots: Sequence[tuple[Path, str]], findings: Iterable[TreeFinding]
) -> tuple[TreeFinding, ...]:
    """Return ``findings`` without those about the content of closed folders, followed by one for each closed folder.
    ``roots``: the top of each tree, and the prefix of its shown paths. The submitter is not blamed, because other users
    may have access."""
    unreadable = [_report(path, roots) for path in sorted(closed)]
    hidden = tuple(f"{finding.complaint.place.file}/" for finding in unreadable)
    kept = (finding for finding in findings if not f"{finding.complaint.place.file}/".startswith(hidden))
    return (*kept, *unreadable)


def _report(path: Path, roots: Sequence[tuple[Path, str]]) -> TreeFinding:
    top, before = next(((top, shown) for top, shown in roots if path.is_relative_to(top)), (Path(), ""))
    inside = path.relative_to(top) if path.is_relative_to(top) else path
    shown = f"{before}{inside}"
    complaint = Complaint(
        Place(shown),
        "this user cannot read it, so its content is unknown",
        "readable content",
        fix="have its owner run `chmod -R a+rX` on it, or run this as a user with access",
    )
    division, *rest = inside.parts or ("",)
    of_cell = rest[2:5] if rest[1:2] and rest[1] in _OF_CELLS else []
    return TreeFinding(UNREADABLE, "", "/".join((division, *of_cell)) if division in DIVISIONS else "", complaint)


T = TypeVar("T")
P = ParamSpec("P")
_CLOSED: ContextVar[set[Path] | None] = ContextVar("closed", default=None)


class UnreadableFolderError(StorageError):
    """This user may not list or enter ``folder``."""

    def __init__(self, error: PermissionError, folder: Path) -> None:
        explained = explain_storage_error(error, folder, "read")
        super().__init__(explained.message, fix=explained.fix)
        self.folder = folder


@contextlib.contextmanager
def collect_closed_folders() -> Iterator[set[Path]]:
    """Collect the closed folders encountered within the context."""
    found: set[Path] = set()
    token = _CLOSED.set(found)
    try:
        yield found
    finally:
        _CLOSED.reset(token)


def pass_over(error: UnreadableFolderError) -> None:
    """Record the error's folder. Raises the error if folders are not being collected."""
    if (found := _CLOSED.get()) is None:
        raise error
    found.add(error.folder)


def read_if_open(otherwise: T, read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call ``read``; return ``otherwise`` if it encounters a closed folder."""
    with pass_over_closed():
        return read(*arguments, **named)
    return otherwise


def list_if_open(names: Callable[P, Iterable[T]], *arguments: P.args, **named: P.kwargs) -> tuple[T, ...]:
    """Call ``names``; return an empty tuple if it encounters a closed folder."""
    with pass_over_closed():
        return tuple(names(*arguments, **named))
    return ()


@contextlib.contextmanager
def pass_over_closed() -> Iterator[None]:
    """End the block if it encounters a closed folder."""
    try:
        yield
    except UnreadableFolderError as error:
        pass_over(error)


def is_passed_over(folder: Path) -> bool:
    """Return True if the folder, or any below it, was found to be unreadable."""
    return any(closed.is_relative_to(folder) for closed in _CLOSED.get() or ())


def find_closed_folder(path: Path | str) -> Path | None:
    """Find the folder above ``path`` that this user may not enter; None if all can be entered."""
    try:
        os.stat(path)  # noqa: PTH116
    except PermissionError:
        return find_closed_folder(Path(path).parent) or Path(path).parent
    except OSError:
        pass
    return None


def refuse_closed_folder(error: OSError, path: Path | str) -> None:
    """Raise UnreadableFolderError if a folder above ``path`` cannot be entered."""
    if isinstance(error, PermissionError) and (folder := find_closed_folder(path)) is not None:
        raise UnreadableFolderError(error, folder) from error


def note_closed_file(path: Path | str) -> None:
    """Record a file that this user may not read, or the folder above it that cannot be entered."""
    if (found := _CLOSED.get()) is not None:
        found.add(find_closed_folder(path) or Path(path))


def note_closed_folder(path: Path | str) -> bool:
    """Record the folder above ``path`` that cannot be entered. Return False if there is none, or if folders are not
    being collected."""
    folder, found = find_closed_folder(path), _CLOSED.get()
    if folder is None or found is None:
        return False
    found.add(folder)
    return True
