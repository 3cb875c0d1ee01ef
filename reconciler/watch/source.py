"""Source of changes: inotify, through watchdog. A folder that is not there yet is watched from above."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
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
from reconciler.watch.predicate import Homes, Topic, classify_change

# The kernel is asked for these alone: a look opens and lists thousands of files, and must not flood its own queue.
_EVENTS: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent),
    *(DirCreatedEvent, DirMovedEvent, DirDeletedEvent),
]


class ChangeSource(FileSystemEventHandler):
    """Reports topics from a thread of its own. ``problem``: why some place cannot be watched, "" when all are."""

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
        """Watch these, and again what was removed, replaced or made since. True when a place is watched that was not:
        what changed there before is nobody's event."""
        self._homes = homes
        wanted = dict.fromkeys(watch_places(homes))
        for place in [place for place in self._watched if place not in wanted]:
            self._forget(place)
        self.problem = ""
        return bool([place for place in wanted if self._watch(place)])

    def _watch(self, place: tuple[Path, bool]) -> bool:
        inode = _inode(place[0])
        known = self._watched.get(place)
        if known is not None and known[1] == inode:
            return False
        self._forget(place)
        try:
            if inode:
                watch = self._observer.schedule(self, str(place[0]), recursive=place[1], event_filter=_EVENTS)
                self._watched[place] = (watch, inode)
        except (FileNotFoundError, NotADirectoryError):
            pass  # gone again: the folder above reports it
        except OSError as error:
            self.problem = f"{place[0]} cannot be watched: {error.strerror or error}"
        return place in self._watched

    def _forget(self, place: tuple[Path, bool]) -> None:
        known = self._watched.pop(place, None)
        if known is not None:
            with contextlib.suppress(KeyError, OSError):
                self._observer.unschedule(known[0])


def watch_places(homes: Homes) -> Iterator[tuple[Path, bool]]:
    """The folders to watch, each with whether all below it counts."""
    ours = [home for home, topic in homes.items() if topic is Topic.OURS]
    for home, topic in homes.items():
        match topic:
            case Topic.OURS:
                continue
            case Topic.GIT:
                yield from ((home, False), (home / "refs", True))
                continue
            case Topic.SOURCES if home.is_dir():
                yield from _around(home, ours)
            case _ if home.is_dir():
                yield home, True
        # The folder above reports when this one comes, goes or is replaced.
        yield next((above for above in home.parents if above.is_dir()), home.parent), False


def _around(home: Path, ours: list[Path]) -> Iterator[tuple[Path, bool]]:
    """A folder of sources but for our own working files in it, which change all the time."""
    if home.name in SKIPPED or home in ours:
        return
    if not any(path.is_relative_to(home) for path in ours):
        yield home, True
        return
    yield home, False
    for child in home.iterdir():
        if child.is_dir() and not child.is_symlink():
            yield from _around(child, ours)


def _inode(folder: Path) -> int:
    try:
        return folder.stat().st_ino
    except OSError:
        return 0
