"""The loop: wait for a reason to look, look, pass over what is due, say what came of it.

Level-based: whatever woke it, a turn starts from the world as it is. What cannot be done now is tried again later, at
a time that is said; the specs, the records and the tree of the last good turn stay as they are meanwhile.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from reconciler import git_remotes
from reconciler.controller.backoff import Backoff
from reconciler.controller.commits import Commits
from reconciler.controller.due_steps import Holds, select_due_steps
from reconciler.controller.predicate import Topic
from reconciler.controller.queue import Queue
from reconciler.controller.reporter import Reporter
from reconciler.controller.settings import WatchSettings
from reconciler.controller.source import ChangeSource
from reconciler.controller.watch_paths import WatchPaths
from reconciler.controller.windows import find_freeze_end
from reconciler.desired.state import Desired, get_submission_settings
from reconciler.errors import LockedError, ReconcilerError, RepositoryError, SpecError, StalePlanError, StorageError
from reconciler.execute.outcome import Event, Outcome, Status
from reconciler.files import RepositoryPaths
from reconciler.plan.plan import Step
from reconciler.planning import PlanCache, PlanResult, compute_plan
from reconciler.quantities import show_duration
from reconciler.reconcile import PassReport, run_pass
from reconciler.render.plan import LIMIT, render_plan_text, summarise_plan
from reconciler.render.progress import count_outcomes, name_step
from reconciler.resource.embargo import explain_refusal, make_embargo

SPEC, LOOP = "the spec", "the loop"
_PASSES = 20  # of one turn; each but the last left something new to do
_IDLE = 2.0  # seconds without a change after which there is time to write caches
_SPECS = (Topic.SPECS, Topic.GIT)


class _SupersededError(Exception):
    """The spec now asks for something else than the pass under way was begun for. ``stopped``: the step that was under
    way, "" when none was."""

    def __init__(self, stopped: str) -> None:
        super().__init__(stopped)
        self.stopped = stopped


@dataclass(slots=True)
class Loop:
    """``settled``: the state that the last pass left, ``tried``: what it was for and could not do; that, in that very
    state, is no reason for another. ``left``: an attempt may lie around whose pass did not come to its end.
    ``generation``: what the pass under way is for, ``asked``: what the specs ask for now, where they changed since."""

    places: RepositoryPaths
    settings: WatchSettings
    queue: Queue
    source: ChangeSource
    teller: Reporter
    commits: Commits
    finder: WatchPaths
    memory: PlanCache
    clock: Callable[[], float] = time.monotonic
    backoff: Backoff = field(default_factory=Backoff)
    settled: object = None
    tried: frozenset[object] = frozenset()
    told: str = ""
    wrong: str = ""
    why: str = ""
    generation: str = ""
    asked: Desired | None = None
    checked: dict[str, int] = field(default_factory=dict)
    left: bool = True
    unwatched: str = ""
    passes: int = 0
    ended: list[Outcome] = field(default_factory=list)
    head: str = ""
    thaw: float = 0.0

    def run(self) -> None:
        """Until an exception ends it; KeyboardInterrupt is how it is meant to end."""
        while True:
            self.turn()
            # What differs although nobody saw it change did so before it was watched.
            topics = dict.fromkeys(Topic.SOURCES if topic == Topic.UNWATCHED else topic for topic in self.wait())
            self.why = f"changed: {', '.join(topics)}\n" if topics else ""

    def wait(self) -> tuple[str, ...]:
        """Until something changed, or it is time to try again."""
        until = self.wakes()
        if self.memory.unsaved:
            topics = self.queue.take(min(until, self.clock() + _IDLE))
            if topics:
                return topics
            self.memory.save()
            gc.collect()
        return self.queue.take(until)

    def wakes(self) -> float:
        now = self.clock()
        times = [now + self.settings.resync, *self.backoff.ends(now), *([self.thaw] if self.thaw > now else [])]
        return min(times)

    def turn(self) -> None:
        try:
            self.source.follow(self.finder.homes())
            self.note_head()
            self.reconcile()
            self.well()
        except SpecError as error:
            self.broken(error)
        except StalePlanError:
            self.queue.add(Topic.SPECS)
        except _SupersededError as error:
            stopped = f"{error.stopped} is stopped, and " if error.stopped else ""
            text = f"the spec asks for something else now: {stopped}what was queued is given up"
            self.teller.say("superseded", text, stopped=error.stopped)
            self.queue.add(Topic.SPECS)
        except (ReconcilerError, OSError) as error:
            self.trouble(error)
        except Exception as error:  # a bug of ours: whoever watches unattended is served best by going on
            self.trouble(error, "".join(traceback.format_exception(error)))
        finally:
            gc.unfreeze()  # a look freezes what it made, for processes that end soon; here it must go
            gc.collect()

    def note_head(self) -> None:
        """Say when the branch was rewritten; the world is read anew in any case."""
        before, self.head = self.head, git_remotes.resolve_commit(self.places.root, "HEAD")
        if before and self.head and before != self.head:
            follows = git_remotes.is_ancestor(self.places.root, before, self.head)
            text = "" if follows else ", which does not follow it: everything is read again"
            self.teller.say("head", f"HEAD moved: {before[:7]} → {self.head[:7]}{text}", commit=self.head)

    def note_own_commits(self) -> None:
        """What we committed is no news; unless somebody moved HEAD just before, which the next turn tells."""
        if self.commits.moved and self.commits.moved[0] == self.head:
            self.head = self.commits.moved[1]
        self.commits.moved = None

    def reconcile(self) -> None:
        seen = compute_plan(self.places, self.settings.options, self.memory)
        self.learn(seen)
        embargo = make_embargo(get_submission_settings(seen.desired))
        self.teller.hook_refused = explain_refusal(embargo, self.teller.hook_address, datetime.now(UTC).date())
        if self.wrong.startswith(SPEC):
            self.teller.say("valid", "the spec is valid again")
        self.wrong = "" if self.wrong.startswith(SPEC) else self.wrong
        self.backoff.keep({step.change.key for step in seen.plan.steps} | {LOOP})
        wanted = self.due(seen)
        self.tell_plan(seen, wanted)
        for _ in range(_PASSES):
            if not self.fresh(seen, wanted):
                break
            seen = self.do(seen, wanted).look
            asked, wanted = wanted, self.due(seen)
            self.settled, self.tried = self.mark(seen), _keys(asked) & _keys(wanted)
            self.told = self.story(seen, wanted)
        self.say_state(seen)
        self.commits.publish(seen)
        self.note_own_commits()

    def learn(self, seen: PlanResult) -> None:
        """The specs may name other files now."""
        self.finder.learn(seen)
        if self.source.follow(self.finder.homes()):
            self.queue.add(Topic.UNWATCHED)
        problem, self.unwatched = self.unwatched, self.source.problem
        if self.unwatched not in ("", problem):
            every = show_duration(self.settings.resync)
            self.teller.say("unwatched", f"{self.unwatched}; changes there are seen at a look each {every}")

    def due(self, seen: PlanResult) -> tuple[Step, ...]:
        end = find_freeze_end(self.settings.windows, datetime.now())
        self.thaw = self.clock() + (end - datetime.now()).total_seconds() if end else 0.0
        holds = Holds(self.settings.observed, self.backoff.held(self.clock()), end is not None)
        return select_due_steps(seen.plan, seen.desired, holds)

    def leftovers(self) -> bool:
        """An attempt that an earlier process began: its result is taken over, or its folder removed, by a pass."""
        folder = self.places.attempts
        return folder.is_dir() and any(folder.iterdir())

    def fresh(self, seen: PlanResult, wanted: tuple[Step, ...]) -> bool:
        """Whether a pass can do anything that the last one could not."""
        if self.left and self.leftovers():
            return True
        changed = self.settled != self.mark(seen)
        return (changed and not seen.observed.tree_present) or (
            bool(wanted) and (changed or not _keys(wanted) <= self.tried)
        )

    def mark(self, seen: PlanResult) -> object:
        return seen.plan.desired, seen.plan.recorded, seen.observed.tree_present

    def story(self, seen: PlanResult, wanted: tuple[Step, ...]) -> str:
        return f"{render_plan_text(seen.plan, limit=LIMIT)} {len(wanted)}"

    def tell_plan(self, seen: PlanResult, wanted: tuple[Step, ...]) -> None:
        """The plan, when it is not the one last told."""
        story = self.story(seen, wanted)
        if story == self.told:
            return
        self.told = story
        held = len(seen.plan.steps) - len(wanted)
        text = self.why + render_plan_text(seen.plan, limit=LIMIT) + (f"\nHeld back now: {held}." if held else "")
        self.teller.say("plan", text, due=len(wanted), held=held, in_sync=seen.plan.in_sync)

    def do(self, seen: PlanResult, wanted: tuple[Step, ...]) -> PassReport:
        """One pass over these steps alone. Raises what a pass raises, and _SupersededError."""
        self.passes += 1
        self.generation, self.asked, self.checked, self.left = seen.plan.desired, None, self.queue.added(), True
        self.ended.clear()
        self.teller.now(state="reconciling", passes=self.passes)
        try:
            saved = replace(seen.plan, steps=wanted)
            pass_report = run_pass(
                self.places,
                self.settings.options,
                report=self.report,
                saved=saved,
                memory=self.memory,
                check=self.check,
            )
            self.left = False
        finally:
            self.note_outcomes()
            self.commits.due = True
        took = show_duration(pass_report.own_seconds + pass_report.child_seconds)
        done, left = count_outcomes(pass_report.outcomes), summarise_plan(pass_report.look.plan)
        text = f"pass {self.passes}: {done}, in {took}. {left}"
        self.teller.say("pass", text, number=self.passes, in_sync=pass_report.look.plan.in_sync)
        self.teller.now(last_pass=datetime.now().astimezone().isoformat(timespec="seconds"))
        return pass_report

    def note_outcomes(self) -> None:
        for outcome in self.ended:
            key = outcome.step.change.key
            if outcome.status is Status.DONE:
                self.backoff.went_well(key)
            else:
                kind = outcome.record.problem_class if outcome.record else "failed"
                wait = self.backoff.failed(key, kind, self.clock())
                self.teller.line(f"{outcome.step.change.address}: next try in {show_duration(wait.seconds)}")
        self.ended.clear()

    def report(self, event: Event) -> None:
        if isinstance(event, Outcome):
            self.ended.append(event)
        self.teller.step(event)

    def check(self, step: Step, begun: bool) -> None:
        """Called by the pass, in which a step that has not begun is a safe point. One that has is given up only when it
        is the policy, and nobody asks for it any more. Raises _SupersededError."""
        if begun and not self.settings.stop:
            return
        self.ask(wait=not begun)
        if self.asked is None or self.asked.digest == self.generation:
            return
        wanted = self.asked.by_address.get(step.change.address)
        if not begun or wanted is None or wanted.key != step.change.key:
            raise _SupersededError(name_step(step) if begun else "")

    def ask(self, *, wait: bool) -> None:
        """What the specs ask for, when they changed. ``wait``: until it is quiet."""
        topics = (*_SPECS, Topic.SOURCES) if wait else _SPECS  # code may write beside itself all through a run
        if not self.news(topics):
            return
        if wait:
            time.sleep(self.queue.settles_in())
        if self.queue.settles_in():
            return
        self.checked |= {topic: count for topic, count in self.queue.added().items() if topic in topics}
        try:
            self.asked = self.memory.desired(self.settings.options)
        except (ReconcilerError, OSError):
            return  # a broken spec supersedes nothing: the next turn reports it
        if self.asked.digest == self.generation:
            self.teller.line("specs or sources changed, but no resolved value: the pass goes on")

    def news(self, topics: tuple[str, ...]) -> bool:
        added = self.queue.added()
        return any(added.get(topic) != self.checked.get(topic) for topic in topics)

    def say_state(self, seen: PlanResult) -> None:
        state = "in sync" if seen.plan.in_sync else "not in sync"
        self.teller.now(state=state, summary=summarise_plan(seen.plan), next_try=self.next_try(), problem=None)

    def next_try(self) -> str:
        seconds = self.wakes() - self.clock()
        return datetime.fromtimestamp(time.time() + seconds).astimezone().isoformat(timespec="seconds")

    def well(self) -> None:
        if self.wrong:
            self.wrong = ""
            self.teller.say("recovered", "that is over: reconciling again")
        self.backoff.went_well(LOOP)

    def broken(self, error: SpecError) -> None:
        """Once for each way in which it is broken."""
        text = f"{SPEC} is broken: the last good result stays, and nothing is made until it is valid\n{error}"
        if text != self.wrong:
            self.wrong = text
            self.told = ""
            self.teller.say("broken", text)
        self.teller.now(state="broken spec", problem=str(error), next_try=None)

    def trouble(self, error: Exception, bug: str = "") -> None:
        wait = self.backoff.failed(LOOP, _kind(error), self.clock())
        fix = (
            error.fix
            if isinstance(error, ReconcilerError)
            else bug and f"this is a bug in reconcile: pass_report it\n{bug}"
        )
        said = str(error) or type(error).__name__
        if said != self.wrong:
            self.wrong = said
            self.teller.say("trouble", said + (f"\nfix: {fix}" if fix else ""), kind=wait.kind)
        self.teller.line(f"next try in {show_duration(wait.seconds)}")
        self.teller.now(state="in trouble", problem=said, next_try=self.next_try())


def _keys(steps: tuple[Step, ...]) -> frozenset[object]:
    return frozenset((step.change.key, step.change.how) for step in steps)


def _kind(error: Exception) -> str:
    kinds = ((LockedError, "locked"), (StorageError, "storage"), (RepositoryError, "repository"), (OSError, "storage"))
    return next((name for kind, name in kinds if isinstance(error, kind)), "failed")
