"""Puts the parts together: the threads around one loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from reconciler import git_remotes
from reconciler.controller.commits import Commits
from reconciler.controller.decider import Decider
from reconciler.controller.health import Health
from reconciler.controller.loop import Loop
from reconciler.controller.predicate import Topic
from reconciler.controller.queue import Queue
from reconciler.controller.remote_follower import Follower
from reconciler.controller.reporter import Reporter
from reconciler.controller.settings import WatchSettings
from reconciler.controller.source import ChangeSource
from reconciler.controller.supersession import Supersession
from reconciler.controller.watch_paths import WatchPaths
from reconciler.files import RepositoryPaths
from reconciler.planning import PlanCache


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
