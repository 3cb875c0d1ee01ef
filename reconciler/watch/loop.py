"""The loop: wait for a reason to look, look, pass over what is due.

Level-based: whatever woke it, a turn starts from the world as it is. Work that cannot be done now is tried again later,
at a time that is said; the specs, the records and the tree of the last good turn stay as they are until then.
"""

from __future__ import annotations

import gc

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import SpecError, StalePlanError
from reconciler.execute.outcome import Event, Outcome
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanCache, PlanResult, compute_plan
from reconciler.reconcile.run import PassReport, run_pass
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.watch.commits import Commits
from reconciler.watch.decider import Decider
from reconciler.watch.predicate import Topic
from reconciler.watch.queue import Queue
from reconciler.watch.reporter import Reporter
from reconciler.watch.settings import WatchSettings
from reconciler.watch.source import ChangeSource
from reconciler.watch.supersession import SupersededError, Supersession
from reconciler.watch.watch_paths import WatchPaths

_PASSES = 20  # of one turn; each but the last left something new to do
_IDLE = 2.0  # seconds without a change after which there is time to write caches


class Loop(Struct):
    """``left``: an attempt may be around whose pass did not come to its end. ``topics``: what changed since the last
    turn. ``head``: the commit that HEAD was at."""

    paths: RepositoryPaths
    settings: WatchSettings
    queue: Queue
    source: ChangeSource
    watch_paths: WatchPaths
    memory: PlanCache
    decider: Decider
    supersession: Supersession
    commits: Commits
    reporter: Reporter
    left: bool = True
    passes: int = 0
    topics: tuple[str, ...] = ()
    unwatched: str = ""
    head: str = ""
    ended: list[Outcome] = field(default_factory=list)

    def run(self) -> None:
        """Until an exception ends it; KeyboardInterrupt is how it is meant to end."""
        while True:
            self.turn()
            # Differences that were not seen to arise were there before it was watched.
            topics = (Topic.SOURCES if topic == Topic.UNWATCHED else topic for topic in self.wait())
            self.topics = tuple(dict.fromkeys(topics))

    def wait(self) -> tuple[str, ...]:
        """Until something changed, or it is time to try again."""
        until = self.decider.find_next_turn()
        if self.memory.unsaved:
            topics = self.queue.take(min(until, self.decider.clock() + _IDLE))
            if topics:
                return topics
            self.memory.save()
            gc.collect()
        return self.queue.take(until)

    def turn(self) -> None:
        try:
            self.source.follow(self.watch_paths.list_homes())
            self.note_head()
            self.reconcile()
            self.reporter.report_recovery()
            self.decider.note_turn()
        except SpecError as error:
            self.reporter.report_broken_spec(error)
        except StalePlanError:
            self.queue.add(Topic.SPECS)
        except SupersededError as error:
            self.reporter.report_superseded(error.stopped)
            self.queue.add(Topic.SPECS)
        except Exception as error:  # a bug of ours, too: an unattended watch is served best by going on
            wait = self.decider.note_trouble(error)
            self.reporter.report_trouble(error, wait, self.decider.find_next_time())
        finally:
            gc.unfreeze()  # a look freezes what it made, for processes that end soon; here it must go
            gc.collect()

    def reconcile(self) -> None:
        result = compute_plan(self.paths, self.settings.options, self.memory)
        self.learn(result)
        self.reporter.report_valid_spec(result)
        self.decider.forget_others(result.plan.steps)
        due = self.decider.select_due(result)
        self.reporter.report_plan(result, due, self.topics)
        for _ in range(_PASSES):
            if not (self.has_leftovers() or self.decider.needs_pass(result, due)):
                break
            report = self.run_pass(result, due)
            result, asked, due = report.after, due, self.decider.select_due(report.after)
            self.decider.note_pass(result, asked, due)
            self.reporter.report_pass(self.passes, report, due)
        self.reporter.report_state(result, self.decider.find_next_time())
        self.commits.publish(result)
        self.note_own_commits()

    def learn(self, result: PlanResult) -> None:
        """The specs may name other files now."""
        self.watch_paths.learn(result)
        if self.source.follow(self.watch_paths.list_homes()):
            self.queue.add(Topic.UNWATCHED)
        problem, self.unwatched = self.unwatched, self.source.problem
        if self.unwatched not in ("", problem):
            self.reporter.report_unwatched(self.unwatched)

    def has_leftovers(self) -> bool:
        """An attempt that an earlier process began: its result is taken over, or its folder removed, by a pass."""
        folder = self.paths.attempts
        return self.left and folder.is_dir() and any(folder.iterdir())

    def run_pass(self, result: PlanResult, due: tuple[Step, ...]) -> PassReport:
        """One pass over these steps alone. Raises what a pass raises, and SupersededError."""
        self.passes += 1
        self.left = True
        self.supersession.begin(result.plan.desired)
        self.ended.clear()
        self.reporter.report_pass_begun(self.passes)
        try:
            report = run_pass(
                self.paths,
                self.settings.options,
                report=self.note_event,
                saved=replace(result.plan, steps=due),
                memory=self.memory,
                check=self.supersession.check,
            )
            self.left = False
        finally:
            self.note_outcomes()
            self.commits.due = True
        return report

    def note_event(self, event: Event) -> None:
        if isinstance(event, Outcome):
            self.ended.append(event)
        self.reporter.report_step(event)

    def note_outcomes(self) -> None:
        for outcome in self.ended:
            if wait := self.decider.note_outcome(outcome):
                self.reporter.report_next_try(outcome.step, wait)
        self.ended.clear()

    def note_head(self) -> None:
        """Say when the branch was rewritten; the world is read again in any case."""
        before, self.head = self.head, git.resolve_commit(self.paths.root, "HEAD")
        if before and self.head and before != self.head:
            follows = git.is_ancestor(self.paths.root, before, self.head)
            text = "" if follows else ", which does not follow it: everything is read again"
            self.reporter.say("head", f"HEAD moved: {before[:7]} → {self.head[:7]}{text}", commit=self.head)

    def note_own_commits(self) -> None:
        """Our own commits are not news; unless HEAD was moved just before, which the next turn shows."""
        if self.commits.moved and self.commits.moved[0] == self.head:
            self.head = self.commits.moved[1]
        self.commits.moved = None
