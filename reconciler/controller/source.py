"""Where changes come from: inotify, through watchdog. A folder that is not there yet is watched from above."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
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

from reconciler.controller.predicate import Topic, topic_of

# The kernel is asked for these alone: a look opens and lists thousands of files, and must not flood its own queue.
_EVENTS: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent),
    *(DirCreatedEvent, DirMovedEvent, DirDeletedEvent),
]


class Source(FileSystemEventHandler):
    """Tells topics from a thread of its own. ``refresh`` watches anew what was removed, replaced or made since."""

    def __init__(self, folders: Mapping[Path, Topic], tell: Callable[[Topic], None]) -> None:
        self._folders, self._tell = dict(folders), tell
        self._observer: BaseObserver = Observer()
        self._watched: dict[tuple[Path, bool], tuple[ObservedWatch, int]] = {}

    def __enter__(self) -> Self:
        self.refresh()
        self._observer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._observer.stop()
        self._observer.join(5.0)

    def on_any_event(self, event: FileSystemEvent) -> None:
        names = [os.fsdecode(event.src_path), *([os.fsdecode(event.dest_path)] if event.dest_path else [])]
        for name in names:
            topic = topic_of(Path(name), event.event_type, folder=event.is_directory, folders=self._folders)
            if topic is not None:
                self._tell(topic)

    def refresh(self) -> None:
        wanted = {(folder, topic is not Topic.GIT): folder for folder, topic in self._folders.items()}
        wanted |= {(folder / "refs", True): folder for folder, topic in self._folders.items() if topic is Topic.GIT}
        # The folder above tells when one of these comes, goes or is replaced.
        wanted |= {(folder.parent, False): folder for folder, topic in self._folders.items() if topic is not Topic.GIT}
        for folder, deep in wanted:
            self._watch(folder, deep)

    def _watch(self, folder: Path, deep: bool) -> None:
        inode = _inode(folder)
        known = self._watched.get((folder, deep))
        if known is not None and known[1] == inode:
            return
        if known is not None:
            del self._watched[folder, deep]
            with contextlib.suppress(KeyError, OSError):
                self._observer.unschedule(known[0])
        if inode:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                watch = self._observer.schedule(self, str(folder), recursive=deep, event_filter=_EVENTS)
                self._watched[folder, deep] = (watch, inode)


def _inode(folder: Path) -> int:
    try:
        return folder.stat().st_ino
    except OSError:
        return 0
