"""Source of changes: inotify, through watchdog. A folder that does not exist yet is watched through its parent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Self

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from harness.contract import SKIPPED
from reconciler.storage.files import is_leftover

# Request only these events, because planning opens and lists thousands of files and must not flood the queue.
_EVENTS: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent),
    *(DirCreatedEvent, DirMovedEvent, DirDeletedEvent),
]


class ChangeSource(FileSystemEventHandler):
    """Report topics from a separate thread. ``problem``: why some place cannot be watched, or ""."""

    def __init__(self, report: Callable[[Topic], None]) -> None:
        self._report = report
        self._homes: Homes = {}
        self._observer: BaseObserver = Observer()
        self._watched: dict[tuple[Path, bool], tuple[ObservedWatch, int]] = {}
        self.problem = ""

    def __enter__(self) -> Self:
        self._observer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._observer.stop()
        self._observer.join(5.0)

    def on_any_event(self, event: FileSystemEvent) -> None:
        names = [os.fsdecode(event.src_path), *([os.fsdecode(event.dest_path)] if event.dest_path else [])]
        for name in names:
            topic = classify_change(Path(name), event.event_type, folder=event.is_directory, homes=self._homes)
            if topic is not None:
                self._report(topic)

    def follow(self, homes: Homes) -> bool:
        """Watch these places, and watch those again that were since removed, replaced or created. Return True if a
        place is newly watched, since no event reports its earlier changes."""
        self._homes = homes
        wanted = dict.fromkeys(watch_places(homes))
        for place in [place for place in self._watched if place not in wanted]:
            self._forget(place)
        self.problem = ""
        return bool([place for place in wanted if self._watch(place)])

    def _watch(self, place: tuple[Path, bool]) -> bool:
        inode = _read_inode(place[0])
        known = self._watched.get(place)
        if known is not None and known[1] == inode:
            return False
        self._forget(place)
        try:
            if inode:
                watch = self._observer.schedule(self, str(place[0]), recursive=place[1], event_filter=_EVENTS)
                self._watched[place] = (watch, inode)
        except (FileNotFoundError, NotADirectoryError):
            pass  # removed again, which the parent folder reports
        except OSError as error:
            self.problem = f"{place[0]} cannot be watched: {error.strerror or error}"
        return place in self._watched

    def _forget(self, place: tuple[Path, bool]) -> None:
        known = self._watched.pop(place, None)
        if known is not None:
            with contextlib.suppress(KeyError, OSError):
                self._observer.unschedule(known[0])


def watch_places(homes: Homes) -> Iterator[tuple[Path, bool]]:
    """List the folders to watch, each with whether to watch it recursively."""
    ours = [home for home, topic in homes.items() if topic is Topic.OURS]
    for home, topic in homes.items():
        match topic:
            case Topic.OURS:
                continue
            case Topic.GIT:
                yield from ((home, False), (home / "refs", True))
                continue
            case Topic.SOURCES if home.is_dir():
                yield from _list_around(home, ours)
            case _ if home.is_dir():
                yield home, True
        # The parent folder reports when this one is created, removed or replaced.
        yield next((above for above in home.parents if above.is_dir()), home.parent), False


def _list_around(home: Path, ours: list[Path]) -> Iterator[tuple[Path, bool]]:
    """List the folders of a source folder, except our own working files in it, which change constantly."""
    if home.name in SKIPPED or home in ours:
        return
    if not any(path.is_relative_to(home) for path in ours):
        yield home, True
        return
    yield home, False
    for child in home.iterdir():
        if child.is_dir() and not child.is_symlink():
            yield from _list_around(child, ours)


def _read_inode(folder: Path) -> int:
    try:
        return folder.stat().st_ino
    except OSError:
        return 0


# Decide which changes on disk require a new plan, and what they concern. Pure.


class Topic(StrEnum):
    SPECS = "specs"
    SOURCES = "models, data or code"
    RECORDS = "records"
    TREE = "rendered tree"
    GIT = "git"
    OURS = "our own working files"
    UNWATCHED = "files not watched until now"  # may have changed before the watch; no event reports this topic


# Files and folders that are watched, and the topic of a change there.
Homes = Mapping[Path, Topic]

WRITES = frozenset({"created", "modified", "moved", "deleted"})  # reading a file is not a change
_GIT_FILES = frozenset({"HEAD", "packed-refs"})
_EDITOR = (".swp", ".swx", ".swpx", "~", ".tmp", ".lock")


def classify_change(path: Path, kind: str, *, folder: bool, homes: Homes) -> Topic | None:
    """Classify a change; None if it cannot affect the plan. The deepest home decides."""
    if kind not in WRITES or (folder and kind == "modified") or is_leftover(path.name):
        return None
    found = [home for home in homes if path.is_relative_to(home)]
    if not found:
        # A folder that is created or removed takes its contents with it.
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
    """Return True for HEAD and the refs, except git's lock files."""
    if path.suffix == ".lock" or not path.parts:
        return False
    return path.as_posix() in _GIT_FILES or path.parts[0] == "refs"
