"""The loop of a watch, and the threads around it."""

from __future__ import annotations

import gc
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.errors import ReconcilerError, RepositoryError, SpecError, StalePlanError
from reconciler.execute.outcome import Event, Outcome
from reconciler.plan.plan import Step
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.planning import Options, PlanCache, PlanResult, compute_plan
from reconciler.reconcile.run import PassReport, run_pass
from reconciler.resource.embargo import explain_refusal, make_embargo
from reconciler.storage import git
from reconciler.storage.files import RepositoryPaths
from reconciler.watch.decider import Decider
from reconciler.watch.report import WatchReport
from reconciler.watch.settings import Backoff, WatchSettings
from reconciler.watch.source import ChangeSource, Homes, Topic

_PASSES = 20  # maximum per turn; each but the last left something new to do
_IDLE = 2.0  # seconds without a change after which caches are written


class Loop(Struct):
    """The loop: wait for a reason, plan, pass over the due steps.

    Level-based: whatever the trigger, a turn starts from the current state of the world. Failed work is retried later,
    at a reported time; until then the specs, records and tree of the last good turn remain unchanged. ``left``: an
    attempt of an unfinished pass may exist. ``topics``: changes since the last turn. ``head``: the last
    known commit of HEAD."""

    paths: RepositoryPaths
    settings: WatchSettings
    queue: Queue
    source: ChangeSource
    watch_paths: WatchPaths
    memory: PlanCache
    decider: Decider
    supersession: Supersession
    commits: Commits
    reporter: WatchReport
    left: bool = True
    passes: int = 0
    topics: tuple[str, ...] = ()
    unwatched: str = ""
    head: str = ""
    ended: list[Outcome] = field(default_factory=list)

    def run(self) -> None:
        """Run until an exception ends it, normally KeyboardInterrupt."""
        while True:
            self.take_turn()
            # Differences that no event reported existed before the watch began.
            topics = (Topic.SOURCES if topic == Topic.UNWATCHED else topic for topic in self.wait())
            self.topics = tuple(dict.fromkeys(topics))

    def wait(self) -> tuple[str, ...]:
        """Wait until something changed, or a retry is due."""
        until = self.decider.find_next_turn()
        if self.memory.unsaved:
            topics = self.queue.take(min(until, self.decider.clock() + _IDLE))
            if topics:
                return topics
            self.memory.save()
            gc.collect()
        return self.queue.take(until)

    def take_turn(self) -> None:
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
        except Exception as error:  # also after our own bugs: an unattended watch should go on
            wait = self.decider.note_trouble(error)
            self.reporter.report_trouble(error, wait, self.decider.find_next_time())
        finally:
            gc.unfreeze()  # planning freezes its objects, for processes that end soon; here they must be freed
            gc.collect()

    def reconcile(self) -> None:
        result = compute_plan(self.paths, self.settings.options, self.memory)
        self.learn(result)
        self.reporter.report_valid_spec(result)
        self.decider.forget_others(result.plan.steps)
        due = self.decider.select_due(result)
        self.reporter.report_plan(result, due, self.topics)
        for _ in range(_PASSES):
            # An earlier process may have left an attempt, which a pass adopts or removes.
            left = self.left and self.paths.attempts.is_dir() and any(self.paths.attempts.iterdir())
            if not (left or self.decider.needs_pass(result, due)):
                break
            report = self.run_pass(result, due)
            result, asked, due = report.after, due, self.decider.select_due(report.after)
            self.decider.note_pass(result, asked, due)
            self.reporter.report_pass(self.passes, report, due)
        self.reporter.report_state(result, self.decider.find_next_time())
        self.commits.publish(result)
        self.note_own_commits()

    def learn(self, result: PlanResult) -> None:
        """Watch the files that the specs refer to now."""
        self.watch_paths.learn(result)
        if self.source.follow(self.watch_paths.list_homes()):
            self.queue.add(Topic.UNWATCHED)
        problem, self.unwatched = self.unwatched, self.source.problem
        if self.unwatched not in ("", problem):
            self.reporter.report_unwatched(self.unwatched)

    def run_pass(self, result: PlanResult, due: tuple[Step, ...]) -> PassReport:
        """Run one pass over these steps only. Raises the same errors as a pass, and SupersededError."""
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
            for outcome in self.ended:
                if wait := self.decider.note_outcome(outcome):
                    self.reporter.report_next_try(outcome.step, wait)
            self.ended.clear()
            self.commits.due = True
        return report

    def note_event(self, event: Event) -> None:
        if isinstance(event, Outcome):
            self.ended.append(event)
        self.reporter.report_step(event)

    def note_head(self) -> None:
        """Report that the branch was rewritten; the world is read again in any case."""
        before, self.head = self.head, git.resolve_commit(self.paths.root, "HEAD")
        if before and self.head and before != self.head:
            follows = git.is_ancestor(self.paths.root, before, self.head)
            text = "" if follows else ", which is not a descendant: reading everything again"
            self.reporter.say("head", f"HEAD moved: {before[:7]} → {self.head[:7]}{text}", commit=self.head)

    def note_own_commits(self) -> None:
        """Ignore our own commits, unless HEAD was moved just before, which the next turn detects."""
        if self.commits.moved and self.commits.moved[0] == self.head:
            self.head = self.commits.moved[1]
        self.commits.moved = None


_JITTER = 0.2  # fraction of the interval, so that many clones do not poll at once


class Follower:
    """Follow a remote's branch by fast-forward only, and push the current one without force. Polls in a separate
    thread. The source notices when the work tree is fast-forwarded."""

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
                self._say_once(f"{error}; next try in {wait:.0f} s")

    def poll(self) -> None:
        """Fetch, and fast-forward. Raises RepositoryError if the remote or git refuses."""
        name = git.find_branch(self._root)
        if not name:
            self._say_once("no branch is checked out: not following the remote")
            return
        before = self._tips.get(name) or git.resolve_commit(self._root, f"refs/remotes/{self._remote}/{name}")
        tip = self._tips[name] = git.fetch(self._root, self._remote, name)
        here = git.resolve_commit(self._root, "HEAD")
        if before and not git.is_ancestor(self._root, before, tip):
            self._say("rewritten", f"{self._remote}/{name} was force-pushed: {before[:7]} → {tip[:7]}")
        if git.is_ancestor(self._root, tip, here):
            return
        if not git.is_ancestor(self._root, here, tip):
            self._say_once(
                f"{self._remote}/{name} is at {tip[:7]}, which is not a descendant of {here[:7]}: merge or reset it"
            )
            return
        git.fast_forward(self._root, tip)
        self._say("fetched", f"{name}: {here[:7]} → {tip[:7]} from {self._remote}")

    def _say_once(self, text: str) -> None:
        head = text.partition("; next try")[0]
        if head != self._last:
            self._last = head
            self._say("remote", text)


@contextmanager
def serve_state(port: int, state: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Serve ``state()`` as JSON at any path on the loopback interface, for supervisors and dashboards, with status 503
    while the watch has a problem."""

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

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ReconcilerError(f"--health {port}: {error.strerror}", fix="choose another port") from error
    with server:
        threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def watch(paths: RepositoryPaths, settings: WatchSettings, reporter: WatchReport) -> None:
    """Watch until KeyboardInterrupt. Raises ReconcilerError if a requested port or remote is not usable."""
    for remote in filter(None, (settings.remote, settings.push)):
        git.list_addresses(paths.root, remote)
    queue, memory = Queue(settings.debounce), PlanCache.of(paths)

    def say(event: str, text: str) -> None:
        reporter.say(event, text)
        if event == "fetched":
            queue.add(Topic.GIT)

    with ExitStack() as stack:
        if settings.health:
            stack.enter_context(serve_state(settings.health, reporter.read_state))
        source = stack.enter_context(ChangeSource(queue.add))
        stack.enter_context(Follower(paths.root, settings.remote, settings.poll, say))
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


class WatchPaths:
    """Places to watch for changes: specs, records, the rendered tree, git's refs, and the files that the specs refer
    to. ``homes`` are updated after each plan, since a changed spec may refer to other files; if it is broken, those of
    the last good one remain."""

    def __init__(self, paths: RepositoryPaths, options: Options) -> None:
        self._paths, self._options = paths, options
        self._tree, self._sources = paths.tree, dict[Path, Topic]()
        self._git: tuple[Path, ...] = ()

    def learn(self, seen: PlanResult) -> None:
        root = self._paths.root
        self._tree = seen.tree
        named = (root / location for location in seen.sources)
        # Watch both a link and its target: either may change.
        self._sources = {path: Topic.SOURCES for name in named for path in (name, name.resolve())}

    def list_homes(self) -> Homes:
        """List the homes. If a path has two, the later one counts: records are not sources, even if they are in a
        folder of declared code."""
        paths = self._paths
        self._git = self._git or git.list_control_folders(paths.root)
        found = {**self._sources, paths.work: Topic.OURS, paths.root / "state": Topic.RECORDS}
        found[self._tree] = Topic.TREE
        for path in list_spec_paths(paths, self._options.specs):
            whole = path.is_dir() or path == paths.specs
            found[path.resolve() if whole else path.resolve().parent] = Topic.SPECS
        return found | dict.fromkeys(self._git, Topic.GIT)


_SPECS = (Topic.SPECS, Topic.GIT)


class SupersededError(Exception):
    """The spec no longer matches the one that the current pass began with. ``stopped``: the step in progress, or
    None."""

    def __init__(self, stopped: Step | None) -> None:
        super().__init__(stopped)
        self.stopped = stopped


class Supersession(Struct):
    """Supersession of the current pass by a change of the specs. ``generation``: digest of the steps of the current
    pass; ``asked``: the steps of the specs, if they changed since; ``checked``: number of events per topic when they
    were last read."""

    settings: WatchSettings
    queue: Queue
    memory: PlanCache
    reporter: WatchReport
    generation: str = ""
    asked: Desired | None = None
    checked: dict[str, int] = field(default_factory=dict)

    def begin(self, generation: str) -> None:
        """Note that a pass begins."""
        self.generation, self.asked, self.checked = generation, None, self.queue.count_added()

    def check(self, step: Step, begun: bool) -> None:
        """Called by the pass; a step that has not begun is a safe point. One in progress is stopped only if the policy
        says so and it is no longer needed. Raises SupersededError. A broken spec is reported at once."""
        self.ask(wait=not begun)
        if (begun and not self.settings.stop) or self.asked is None or self.asked.digest == self.generation:
            return
        wanted = self.asked.by_address.get(step.change.address)
        if not begun or wanted is None or wanted.key != step.change.key:
            raise SupersededError(step if begun else None)

    def ask(self, *, wait: bool) -> None:
        """Read the specs if they changed. ``wait``: until no more changes arrive."""
        topics = (*_SPECS, Topic.SOURCES) if wait else _SPECS  # code may write to its own folder throughout a run
        added = self.queue.count_added()
        if all(added.get(topic) == self.checked.get(topic) for topic in topics):
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
        self.reporter.report_repaired_spec()
        if self.asked.digest == self.generation:
            self.reporter.report_unchanged_spec()


class Commits(Struct):
    """Commit records after a pass, and push them: never with force, and not before an embargo allows it.

    ``due``: a pass may have recorded something since the last commit. ``unpushed``: there may be commits to push.
    ``moved``: the commits from which and to which our own commits moved HEAD."""

    paths: RepositoryPaths
    settings: WatchSettings
    reporter: WatchReport
    due: bool = True
    unpushed: bool = True
    moved: tuple[str, str] | None = None
    refused: str = ""

    def publish(self, seen: PlanResult) -> None:
        """Commit and push. Raises RepositoryError; the records stay safe in state/, and it is retried."""
        if self.settings.commit and self.due:
            self.commit()
        if self.settings.push and self.unpushed:
            self.push(seen)

    def commit(self) -> None:
        folders = [path for path in (self.paths.records, self.paths.logs) if path.exists()]
        paths = [str(path.relative_to(self.paths.root)) for path in folders]
        commit = git.commit(self.paths.root, paths, "Record outcomes")
        self.due = False
        if commit:
            self.unpushed = True
            self.moved = git.resolve_commit(self.paths.root, f"{commit}^"), commit
            self.reporter.say("committed", f"committed the records as {commit[:7]}", commit=commit)

    def push(self, seen: PlanResult) -> None:
        root, remote, name = self.paths.root, self.settings.push, git.find_branch(self.paths.root)
        embargo, today = make_embargo(seen.desired.submission), datetime.now(UTC).date()
        refused = (explain_refusal(embargo, address, today) for address in git.list_addresses(root, remote))
        why = next(filter(None, refused), "")
        if not why and not name:
            why = "no branch is checked out"
        if why:
            if why != self.refused:
                self.refused = why
                self.reporter.say("refused", f"not pushed to {remote}: {why}")
            return
        self.refused = ""
        before = git.resolve_commit(root, "HEAD")
        git.push(root, remote, name)
        self.unpushed = False
        self.moved = (self.moved[0] if self.moved else before), git.resolve_commit(root, "HEAD")
        self.reporter.say("pushed", f"pushed {name} to {remote}")


_PATIENCE = 10  # times the quiet time, so that changes that never cease are still handled


class Queue:
    """A queue of topics rather than events: a thousand changes of one kind trigger one plan once they cease. Filled by
    any thread, emptied by one."""

    def __init__(self, quiet: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet, self._clock = quiet, clock
        self._condition = threading.Condition()
        self._topics: dict[str, None] = {}
        self._first = self._last = 0.0
        self._added = Counter[str]()

    def add(self, topic: str) -> None:
        with self._condition:
            self._last = self._clock()
            if not self._topics:
                self._first = self._last
            self._topics[topic] = None
            self._added[topic] += 1
            self._condition.notify_all()

    def take(self, until: float) -> tuple[str, ...]:
        """Wait until something was added and no more changes arrive; return () if nothing was added before
        ``until``."""
        with self._condition:
            while True:
                now, at = self._clock(), self._compute_ready_time()
                if self._topics and now >= at:
                    topics = tuple(self._topics)
                    self._topics.clear()
                    return topics
                if not self._topics and now >= until:
                    return ()
                self._condition.wait((at if self._topics else until) - now)

    def count_added(self) -> dict[str, int]:
        """Count how often each topic was ever added, taken or not."""
        with self._condition:
            return dict(self._added)

    def compute_wait(self) -> float:
        """Return the seconds until the queued topics may be taken; 0 if they may be now, or nothing is queued."""
        with self._condition:
            return max(0.0, self._compute_ready_time() - self._clock()) if self._topics else 0.0

    def _compute_ready_time(self) -> float:
        return min(self._last + self._quiet, self._first + _PATIENCE * self._quiet)
