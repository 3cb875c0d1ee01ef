"""Folders of a tree that this user may not list or enter: nothing is known of their content, least of all that it is
missing. An examination of a whole tree collects them, names each once, and goes on with the rest.
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

# Findings about folders that this user may not list, in place of all that follows from not seeing what they hold.

UNREADABLE = Rule("tree.readable", "every file and folder can be read", ("ours",))
_OF_CELLS = ("results", "measurements", "compliance")


def report_closed_folders(
    closed: Iterable[Path], roots: Sequence[tuple[Path, str]], findings: Iterable[TreeFinding]
) -> tuple[TreeFinding, ...]:
    """``findings`` without those about what is in a closed folder, then one for each such folder. ``roots``: the top of
    each tree, and how what is in it is shown. The submitter is not blamed: it may be open to everybody else."""
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
        "this user may not read it, so that nothing is known of what it holds",
        "what can be read",
        fix="have its owner run `chmod -R a+rX` on it, or run this as a user who may read it",
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
    """Collect the closed folders that are met within."""
    found: set[Path] = set()
    token = _CLOSED.set(found)
    try:
        yield found
    finally:
        _CLOSED.reset(token)


def pass_over(error: UnreadableFolderError) -> None:
    """Remember its folder. Raises the error where they are not collected."""
    if (found := _CLOSED.get()) is None:
        raise error
    found.add(error.folder)


def read_if_open(otherwise: T, read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call ``read``, giving ``otherwise`` where it meets a closed folder."""
    try:
        return read(*arguments, **named)
    except UnreadableFolderError as error:
        pass_over(error)
        return otherwise


def list_if_open(names: Callable[P, Iterable[T]], *arguments: P.args, **named: P.kwargs) -> tuple[T, ...]:
    """Call ``names``, giving nothing where it meets a closed folder."""
    with pass_over_closed():
        return tuple(names(*arguments, **named))
    return ()


@contextlib.contextmanager
def pass_over_closed() -> Iterator[None]:
    """End the block at a closed folder."""
    try:
        yield
    except UnreadableFolderError as error:
        pass_over(error)


def is_passed_over(folder: Path) -> bool:
    """True where a folder, or any below it, was met and could not be read."""
    return any(closed.is_relative_to(folder) for closed in _CLOSED.get() or ())


def find_closed_folder(path: Path | str) -> Path | None:
    """The folder above ``path`` that this user may not enter; None where all can be entered."""
    try:
        os.stat(path)  # noqa: PTH116
    except PermissionError:
        return find_closed_folder(Path(path).parent) or Path(path).parent
    except OSError:
        return None
    return None


def refuse_closed_folder(error: OSError, path: Path | str) -> None:
    """Raises ClosedFolderError where a folder above ``path`` cannot be entered."""
    if isinstance(error, PermissionError) and (folder := find_closed_folder(path)) is not None:
        raise UnreadableFolderError(error, folder) from error


def note_closed_file(path: Path | str) -> None:
    """Remember a file that this user may not read, or the folder above it that cannot be entered."""
    if (found := _CLOSED.get()) is not None:
        found.add(find_closed_folder(path) or Path(path))


def note_closed_folder(path: Path | str) -> bool:
    """Remember the folder above ``path`` that cannot be entered; False where there is none, or they are not
    collected."""
    folder, found = find_closed_folder(path), _CLOSED.get()
    if folder is None or found is None:
        return False
    found.add(folder)
    return True
