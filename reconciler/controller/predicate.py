"""Which changes on disk are worth a look, and what they are about. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from reconciler.files import is_leftover


class Topic(StrEnum):
    SPECS = "specs"
    RECORDS = "records"
    TREE = "rendered tree"
    GIT = "git"


WRITES = frozenset({"created", "modified", "moved", "deleted"})  # reading a file is no event
_GIT_FILES = frozenset({"HEAD", "packed-refs"})
_EDITOR = (".swp", ".swx", ".swpx", "~", ".tmp", ".lock")


def topic_of(path: Path, kind: str, *, folder: bool, folders: Mapping[Path, Topic]) -> Topic | None:
    """What a change is about; None when no look can come out differently for it. The deepest folder decides."""
    if kind not in WRITES or (folder and kind == "modified") or is_leftover(path):
        return None
    homes = [home for home in folders if path == home or path.is_relative_to(home)]
    if not homes:
        return None
    home = max(homes, key=lambda item: len(item.parts))
    topic = folders[home]
    if topic is Topic.GIT:
        return topic if _is_ref(path.relative_to(home)) else None
    if topic is Topic.SPECS and not folder and (path.name.endswith(_EDITOR) or path.name.startswith((".", "#"))):
        return None
    return topic


def _is_ref(path: Path) -> bool:
    """HEAD, and the refs but for git's own lock files beside them."""
    if path.suffix == ".lock" or not path.parts:
        return False
    return path.as_posix() in _GIT_FILES or path.parts[0] == "refs"
