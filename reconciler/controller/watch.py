"""Puts the parts together: the threads around one loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from reconciler import git_remotes
from reconciler.controller.commits import Commits
from reconciler.controller.health import Health
from reconciler.controller.loop import Loop
from reconciler.controller.predicate import Topic
from reconciler.controller.queue import Queue
from reconciler.controller.remote_follower import Follower
from reconciler.controller.reporter import Reporter
from reconciler.controller.settings import WatchSettings
from reconciler.controller.source import ChangeSource
from reconciler.controller.watch_paths import WatchPaths
from reconciler.files import RepositoryPaths
from reconciler.planning import PlanCache


def watch(places: RepositoryPaths, settings: WatchSettings, teller: Reporter) -> None:
    """Until KeyboardInterrupt. Raises ReconcilerError for what was asked for and cannot be (a port, a remote)."""
    for remote in filter(None, (settings.remote, settings.push)):
        git_remotes.list_addresses(places.root, remote)
    queue = Queue(settings.debounce)
    with ExitStack() as stack:
        if settings.health:
            stack.enter_context(Health(settings.health, teller.state))
        source = stack.enter_context(ChangeSource(queue.add))
        stack.enter_context(Follower(places.root, settings.remote, settings.poll, _say(teller, queue)))
        teller.say("started", f"watching {places.root}")
        commits, finder = Commits(places, settings, teller), WatchPaths(places, settings.options)
        Loop(places, settings, queue, source, teller, commits, finder, PlanCache.of(places)).run()


def _say(teller: Reporter, queue: Queue) -> Callable[[str, str], None]:
    def say(event: str, text: str) -> None:
        teller.say(event, text)
        if event == "fetched":
            queue.add(Topic.GIT)

    return say
