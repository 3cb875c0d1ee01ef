"""Which files a folder of logs must hold, and which it may."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reconciler.check.demands import Complaints
from reconciler.loadgen.log_files import ACCURACY_LOG, TRACE
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.cell import Folder

# Files that may accompany LoadGen's logs.
TOLERATED = frozenset({ACCURACY_LOG, TRACE, "results.json", ".gitkeep"})


def list_missing(folder: Folder, names: Iterable[str]) -> Complaints:
    if not folder.exists:
        yield Complaint(Place(folder.shown), "missing", f"a folder with {', '.join(names)}")
        return
    there = set(folder.list_files())
    for name in names:
        if name not in there:
            yield Complaint(Place(f"{folder.shown}/{name}"), "missing", name)


def list_unlisted(folder: Folder, allowed: Collection[str], wanted: str) -> Complaints:
    """``wanted``: in words, what alone may be there."""
    for name in folder.list_files():
        if name not in allowed:
            yield Complaint(Place(f"{folder.shown}/{name}"), f"a file {name}", wanted, fix="remove it")
