"""Supersession of the pass under way by a change of the specs."""

from __future__ import annotations

import time

from msgspec import Struct, field

from reconciler.desired.state import Desired
from reconciler.errors import ReconcilerError, SpecError
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanCache
from reconciler.watch.predicate import Topic
from reconciler.watch.queue import Queue
from reconciler.watch.reporter import Reporter
from reconciler.watch.settings import WatchSettings

_SPECS = (Topic.SPECS, Topic.GIT)


class SupersededError(Exception):
    """The spec now asks for something else than the pass under way was begun for. ``stopped``: the step that was under
    way, None when none was."""

    def __init__(self, stopped: Step | None) -> None:
        super().__init__(stopped)
        self.stopped = stopped


class Supersession(Struct):
    """``generation``: digest of what the pass under way is for; ``asked``: what the specs ask for now, where they
    changed since; ``checked``: how often each topic was in the queue when they were read last."""

    settings: WatchSettings
    queue: Queue
    memory: PlanCache
    reporter: Reporter
    generation: str = ""
    asked: Desired | None = None
    checked: dict[str, int] = field(default_factory=dict)

    def begin(self, generation: str) -> None:
        """A pass begins."""
        self.generation, self.asked, self.checked = generation, None, self.queue.count_added()

    def check(self, step: Step, begun: bool) -> None:
        """Called by the pass, in which a step that has not begun is a safe point. One that has is given up only when it
        is the policy, and it is not asked for any more. Raises SupersededError. A broken spec is reported at once."""
        self.ask(wait=not begun)
        if (begun and not self.settings.stop) or self.asked is None or self.asked.digest == self.generation:
            return
        wanted = self.asked.by_address.get(step.change.address)
        if not begun or wanted is None or wanted.key != step.change.key:
            raise SupersededError(step if begun else None)

    def ask(self, *, wait: bool) -> None:
        """Read the specs, when they changed. ``wait``: until it is quiet."""
        topics = (*_SPECS, Topic.SOURCES) if wait else _SPECS  # code may write to its own folder all through a run
        if not self.has_news(topics):
            return
        if wait:
            time.sleep(self.queue.compute_wait())
        if self.queue.compute_wait():
            return
        self.checked |= {topic: count for topic, count in self.queue.count_added().items() if topic in topics}
        try:
            self.asked = self.memory.load_desired(self.settings.options)
        except SpecError as error:
            self.reporter.report_broken_spec(error)  # it supersedes nothing
            return
        except (ReconcilerError, OSError):
            return  # the next turn reports it
        if self.asked.digest == self.generation:
            self.reporter.report_unchanged_spec()

    def has_news(self, topics: tuple[str, ...]) -> bool:
        added = self.queue.count_added()
        return any(added.get(topic) != self.checked.get(topic) for topic in topics)
