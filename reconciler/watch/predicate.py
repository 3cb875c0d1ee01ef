"""Which changes on disk are worth a look, and what they are about. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from harness.contract import SKIPPED
from reconciler.storage.files import is_leftover


class Topic(StrEnum):
    SPECS = "specs"
    SOURCES = "models, data or code"
    RECORDS = "records"
    TREE = "rendered tree"
    GIT = "git"
    OURS = "our own working files"
    UNWATCHED = "files not watched until now"  # perhaps they changed before that; of no event


# Files and folders that are watched, and what a change there is about.
Homes = Mapping[Path, Topic]

WRITES = frozenset({"created", "modified", "moved", "deleted"})  # reading a file is not an event
_GIT_FILES = frozenset({"HEAD", "packed-refs"})
_EDITOR = (".swp", ".swx", ".swpx", "~", ".tmp", ".lock")


def classify_change(path: Path, kind: str, *, folder: bool, homes: Homes) -> Topic | None:
    """Classify a change; None when no look can come out differently for it. The deepest home decides."""
    if kind not in WRITES or (folder and kind == "modified") or is_leftover(path.name):
        return None
    found = [home for home in homes if path.is_relative_to(home)]
    if not found:
        # A folder that comes or goes takes what is below with it.
        below = (topic for home, topic in homes.items() if folder and home.is_relative_to(path))
        return next((topic for topic in below if topic not in (Topic.GIT, Topic.OURS)), None)
    home = max(found, key=lambda item: len(item.parts))
    topic, inside = homes[home], path.relative_to(home)
    match topic:
        case Topic.OURS:
            return None
        case Topic.GIT:
            return topic if _is_ref(inside) else None
        case Topic.SPECS if not folder and (path.name.endswith(_EDITOR) or path.name.startswith((".", "#"))):
            return None
        case Topic.SOURCES if SKIPPED.intersection(inside.parts) or path.suffix == ".pyc":
            return None
    return topic


def _is_ref(path: Path) -> bool:
    """HEAD, and the refs but for git's own lock files among them."""
    if path.suffix == ".lock" or not path.parts:
        return False
    return path.as_posix() in _GIT_FILES or path.parts[0] == "refs"
