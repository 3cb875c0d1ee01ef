"""Puts the parts together: the threads around one loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from reconciler import git_remotes
from reconciler.compiled import spec_paths
from reconciler.controller.commits import Commits
from reconciler.controller.health import Health
from reconciler.controller.loop import Loop
from reconciler.controller.predicate import Topic
from reconciler.controller.queue import Queue
from reconciler.controller.remote import Follower
from reconciler.controller.settings import Settings
from reconciler.controller.source import Source
from reconciler.controller.teller import Teller
from reconciler.errors import ReconcilerError
from reconciler.files import Places
from reconciler.look import look, tree_of


def watch(places: Places, settings: Settings, teller: Teller) -> None:
    """Until KeyboardInterrupt. Raises ReconcilerError for what was asked for and cannot be (a port, a remote)."""
    for remote in filter(None, (settings.remote, settings.push)):
        git_remotes.addresses(places.root, remote)
    queue = Queue(settings.debounce)
    with ExitStack() as stack:
        if settings.health:
            stack.enter_context(Health(settings.health, teller.state))
        source = stack.enter_context(Source(folders(places, settings), queue.add))
        stack.enter_context(Follower(places.root, settings.remote, settings.poll, _say(teller, queue)))
        teller.say("started", f"watching {places.root}")
        commits = Commits(places, settings, teller)
        Loop(places, settings, queue, source, teller, commits).run()


def folders(places: Places, settings: Settings) -> dict[Path, Topic]:
    """What is watched, and what a change there is about."""
    found = {places.root / "state": Topic.RECORDS, _tree(places, settings): Topic.TREE}
    for path in spec_paths(places, settings.options.specs):
        found[path.resolve() if path.is_dir() or path == places.specs else path.resolve().parent] = Topic.SPECS
    return found | dict.fromkeys(git_remotes.control_folders(places.root), Topic.GIT)


def _tree(places: Places, settings: Settings) -> Path:
    """Where the spec has it; the usual place while the spec cannot be read."""
    try:
        return tree_of(places, look(places, settings.options).desired)
    except (ReconcilerError, OSError):
        return places.tree


def _say(teller: Teller, queue: Queue) -> Callable[[str, str], None]:
    def say(event: str, text: str) -> None:
        teller.say(event, text)
        if event == "fetched":
            queue.add(Topic.GIT)

    return say
