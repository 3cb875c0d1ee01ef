"""The present branch and a remote's: followed by fast-forward alone, pushed to without force."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from reconciler.errors import RepositoryError
from reconciler.storage import git_remotes as git
from reconciler.watch.backoff import Backoff

_JITTER = 0.2  # of the time between two polls: many clones must not ask at once


class Follower:
    """Polls in a thread of its own. The work tree moves forward by itself, which the source then notices."""

    def __init__(self, root: Path, remote: str, every: float, say: Callable[[str, str], None]) -> None:
        self._root, self._remote, self._every, self._say = root, remote, every, say
        self._ended = threading.Event()
        self._tips: dict[str, str] = {}
        self._backoff = Backoff()
        self._last = ""

    def __enter__(self) -> Self:
        if self._remote:
            git.list_addresses(self._root, self._remote)
            threading.Thread(target=self._run, name="remote", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _run(self) -> None:
        wait = 0.0
        while not self._ended.wait(wait):
            wait = self._every * (1 + _JITTER * secrets.randbelow(1000) / 1000)
            try:
                self.poll()
                self._backoff.record_success(self._remote)
            except RepositoryError as error:
                wait = max(wait, self._backoff.record_failure(self._remote, "remote", 0.0).seconds)
                self._once(f"{error}; next try in {wait:.0f} s")

    def poll(self) -> None:
        """Raises RepositoryError when the remote or git refuses."""
        name = git.find_branch(self._root)
        if not name:
            self._once("no branch is checked out: nothing is taken from the remote")
            return
        before = self._tips.get(name) or git.resolve_commit(self._root, f"refs/remotes/{self._remote}/{name}")
        tip = self._tips[name] = git.fetch(self._root, self._remote, name)
        here = git.resolve_commit(self._root, "HEAD")
        if before and not git.is_ancestor(self._root, before, tip):
            self._say("rewritten", f"{self._remote}/{name} was force-pushed: {before[:7]} → {tip[:7]}")
        if git.is_ancestor(self._root, tip, here):
            return
        if not git.is_ancestor(self._root, here, tip):
            self._once(f"{self._remote}/{name} is at {tip[:7]}, which does not follow {here[:7]}: merge or reset it")
            return
        git.fast_forward(self._root, tip)
        self._say("fetched", f"{name}: {here[:7]} → {tip[:7]} from {self._remote}")

    def _once(self, text: str) -> None:
        head = text.partition("; next try")[0]
        if head != self._last:
            self._last = head
            self._say("remote", text)
