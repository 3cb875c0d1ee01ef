"""Puts the parts together: the threads around one loop."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from reconciler.errors import ReconcilerError, RepositoryError
from reconciler.reconcile.planning import PlanCache
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.watch.backoff import Backoff
from reconciler.watch.commits import Commits
from reconciler.watch.decider import Decider
from reconciler.watch.loop import Loop
from reconciler.watch.predicate import Topic
from reconciler.watch.queue import Queue
from reconciler.watch.reporter import Reporter
from reconciler.watch.settings import WatchSettings
from reconciler.watch.source import ChangeSource
from reconciler.watch.supersession import Supersession
from reconciler.watch.watch_paths import WatchPaths

# The present branch and a remote's: followed by fast-forward alone, pushed to without force.

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


# A page on the loopback interface with the status of the watch: for supervisors and dashboards.

HOST = "127.0.0.1"


class Health:
    """Serves ``state()`` as JSON at any path, while entered. 503 while the watch is in trouble."""

    def __init__(self, port: int, state: Callable[[], dict[str, Any]]) -> None:
        try:
            self._server = ThreadingHTTPServer((HOST, port), _handler(state))
        except OSError as error:
            raise ReconcilerError(f"--health {port}: {error.strerror}", fix="choose another port") from error
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(state: Callable[[], dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            document = state()
            body = json.dumps(document, indent=2).encode() + b"\n"
            self.send_response(503 if document.get("state") == "in trouble" else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    return Handler


def watch(paths: RepositoryPaths, settings: WatchSettings, reporter: Reporter) -> None:
    """Until KeyboardInterrupt. Raises ReconcilerError for what was asked for and cannot be (a port, a remote)."""
    for remote in filter(None, (settings.remote, settings.push)):
        git.list_addresses(paths.root, remote)
    queue, memory = Queue(settings.debounce), PlanCache.of(paths)
    with ExitStack() as stack:
        if settings.health:
            stack.enter_context(Health(settings.health, reporter.read_state))
        source = stack.enter_context(ChangeSource(queue.add))
        stack.enter_context(Follower(paths.root, settings.remote, settings.poll, _say(reporter, queue)))
        reporter.say("started", f"watching {paths.root}")
        loop = Loop(
            paths,
            settings,
            queue,
            source,
            WatchPaths(paths, settings.options),
            memory,
            Decider(settings),
            Supersession(settings, queue, memory, reporter),
            Commits(paths, settings, reporter),
            reporter,
        )
        loop.run()


def _say(reporter: Reporter, queue: Queue) -> Callable[[str, str], None]:
    def say(event: str, text: str) -> None:
        reporter.say(event, text)
        if event == "fetched":
            queue.add(Topic.GIT)

    return say
