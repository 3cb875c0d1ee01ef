"""Puts the parts together: the threads around one loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from reconciler.reconcile.planning import PlanCache
from reconciler.storage import git_remotes
from reconciler.storage.files import RepositoryPaths
from reconciler.watch.commits import Commits
from reconciler.watch.decider import Decider
from reconciler.watch.health import Health
from reconciler.watch.loop import Loop
from reconciler.watch.predicate import Topic
from reconciler.watch.queue import Queue
from reconciler.watch.remote_follower import Follower
from reconciler.watch.reporter import Reporter
from reconciler.watch.settings import WatchSettings
from reconciler.watch.source import ChangeSource
from reconciler.watch.supersession import Supersession
from reconciler.watch.watch_paths import WatchPaths


def watch(paths: RepositoryPaths, settings: WatchSettings, reporter: Reporter) -> None:
    """Until KeyboardInterrupt. Raises ReconcilerError for what was asked for and cannot be (a port, a remote)."""
    for remote in filter(None, (settings.remote, settings.push)):
        git_remotes.list_addresses(paths.root, remote)
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
