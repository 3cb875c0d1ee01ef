"""The work of a pass: takes over the remains of earlier passes, restores, builds, runs and renders."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from harness.contract import Fact, Result
from reconciler import __version__
from reconciler.desired.detail import Detail
from reconciler.diff.change import Difference, Reason, Work
from reconciler.errors import ReconcilerError, RecordError, RepositoryError
from reconciler.execute.attempt import Attempt, MachineFacts, create, read, repeat_intent
from reconciler.execute.attempt_record import build_record
from reconciler.execute.child import Detached
from reconciler.execute.executors.executor import AttemptTransport, read_handle
from reconciler.execute.executors.table import Executors
from reconciler.execute.outcome import Event, Message, Outcome, Status, StepsDue
from reconciler.execute.parallel_executor import ParallelExecutor, has_remote_steps
from reconciler.execute.perform import AttemptContext, Check, Finished, keep_code
from reconciler.execute.plan_executor import PlanExecutor
from reconciler.execute.record_clock import RecordClock
from reconciler.execute.requests import write_confs
from reconciler.execute.service import Services
from reconciler.loadgen.log_files import DETAIL
from reconciler.observed.digest_cache import DigestCache
from reconciler.observed.installed_backends import list_installed
from reconciler.observed.observe import list_installed_for
from reconciler.observed.pins import hash_code, hash_code_files
from reconciler.observed.probed_nodes import ProbedNodes, name_nodes, note_facts, read_probed_nodes
from reconciler.observed.rendered import read_rendered
from reconciler.plan.plan import Plan, Step
from reconciler.reconcile.planning import Options, PlanResult
from reconciler.record.codec import summarize
from reconciler.record.index import load_record
from reconciler.record.store import find_readable, keep, repair_artifact, repair_record, write_record
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import PERFORMANCE, Address
from reconciler.resource.quantities import show_count
from reconciler.resource.records import CHILD_LOG, POWER_CHECK, SESSION, Ended, Record, Summary
from reconciler.resource.settings import DIRECTOR, SystemSettings
from reconciler.storage.files import RepositoryPaths, hash_file, is_leftover, offer, remove
from reconciler.storage.launch.audit_config_files import find_placed_below, find_placed_by
from reconciler.storage.storage_errors import convert_storage_errors, refuse_storage_error

# Harvest of earlier passes: a complete attempt becomes its record now; one without a result was lost with its pass.


def find_under_way(folder: Path, executors: Executors) -> dict[str, Attempt]:
    """Return key → an earlier pass's attempt that an executor is still running or has queued."""
    going = (entry for entry in sorted(folder.glob("*")) if executors.is_still_running(read_handle(entry)))
    return {attempt.intent.key: attempt for attempt in map(read, going) if attempt is not None}


def harvest(folder: Path, note: Callable[[str], None], spared: Collection[Path] = ()) -> Iterator[Finished]:
    """Yield finished attempts, oldest first, except those in the ``spared`` folders. Requires the pass lock, so that no
    attempt here is still running in another pass."""
    for entry in sorted(folder.glob("*")):
        if entry in spared:
            continue
        if is_leftover(entry.name) or not (entry / "result.json").exists():
            if (placed := find_placed_by(entry)) is not None:
                placed.unlink(missing_ok=True)
            remove(entry)
            continue
        attempt = read(entry)
        try:
            if attempt is None:
                raise ValueError("attempt.json is not one of this version")
            with convert_storage_errors(entry):
                record, kept = build_record(attempt)
        except (ReconcilerError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            refuse_storage_error(error, entry)  # a full disk says nothing about the result
            aside = folder.parent / "quarantine" / entry.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            entry.replace(aside)
            whose = attempt.intent.address if attempt else entry.name
            note(f"{whose}: the result of an earlier pass is unreadable ({error}); moved to {aside}")
            continue
        yield Finished(attempt, record, kept)


# Takes up runs that an older version refused because their logs contradicted themselves. The logs were kept, and
# today's rules record them. Each becomes an attempt again, as if it had just ended, so that nothing is rerun.

_REFUSED = frozenset({"contradiction", "clock"})  # problem classes
_LOGS = "mlperf_log_"  # prefix of the names of LoadGen's files


def take_up_refused(paths: RepositoryPaths, seen: PlanResult, store: Callable[[Finished], object]) -> Iterator[str]:
    """Record due steps that such a run satisfies; yield the addresses."""
    written = seen.recorded.find_written()
    for step in seen.plan.steps:
        for record, identity in _find_refused(paths, seen, step):
            detail = seen.desired.detail(step.change.address)
            finished = _judge_again(paths, record, identity, detail, written)
            if finished is not None:
                store(finished)
                yield str(step.change.address)
                break


def _find_refused(paths: RepositoryPaths, seen: PlanResult, step: Step) -> Iterator[tuple[Record, str]]:
    """Yield refused runs with their ids, newest first, without those already taken up."""
    change = step.change
    runs = change.address.is_run and change.how is Work.MAKE
    if not runs or change.reason is Reason.FORCED or seen.plan.withholds(step):
        return
    known = seen.recorded.by_key.get(change.key, ())
    done = {summary.started for summary in known if summary.ended is Ended.DONE}
    for summary in reversed(known):
        if summary.ended is Ended.FAILED and summary.started not in done:
            try:
                record = load_record(paths, summary.id)
            except RecordError:
                continue
            if record.problem_class in _REFUSED and "contradictions" in record.values:
                yield record, summary.id


def _judge_again(
    paths: RepositoryPaths, record: Record, identity: str, detail: Detail, written: Mapping[str, Collection[str]]
) -> Finished | None:
    """Judge a refused run again. Return None if its logs are not here as recorded, or do not form a complete run of the
    requested kind. If its power was measured, the meters' session is needed too, which older versions did not keep."""
    files = {
        item.name: (item, find_readable(paths, item))
        for item in record.artifacts
        if "/" not in item.name or item.name.startswith(SESSION)
    }
    whole = all(path.is_file() and hash_file(path) == item.sha256 for item, path in files.values())
    measured = record.address.mode == PERFORMANCE and DIRECTOR in detail.settings
    session = "power" in record.values and any(name.startswith(SESSION) for name in files)
    if DETAIL not in files or not whole or (measured and not session):
        return None
    attempt = create(paths.attempts, replace(repeat_intent(record.attempt, record, detail), supersedes=identity))
    write_confs(attempt)
    for name, (_, path) in files.items():
        if name == attempt.user_conf.name:
            attempt.user_conf.unlink(missing_ok=True)
            offer(path, attempt.user_conf)
        elif name == CHILD_LOG:
            offer(path, attempt.log)
        elif name == POWER_CHECK:
            offer(path, attempt.power_check)
        elif name.startswith(SESSION):
            offer(path, attempt.session / name.removeprefix(SESSION))
        elif name.startswith(_LOGS):
            offer(path, attempt.output / name)
    if record.address.mode == PERFORMANCE:
        keep_code(attempt, paths.root, written)
    noted = {name: fact.role is Role.NOTE for name, fact in record.facts.items()}
    facts = {n: Fact(value=f.value, role="note" if noted[n] else "evidence") for n, f in record.facts.items()}
    power = {"power": record.values["power"]} if "power" in record.values else {}
    Result(done=True, seconds=record.seconds, values=power, facts=facts).write(attempt.result)
    again, artifacts = build_record(attempt)
    if again.problem:
        remove(attempt.folder)
        return None
    return Finished(attempt, again, artifacts)


TOOL = f"mlperf-reconciler {__version__}"


class Tries(Struct):
    """Counts of one pass. ``failures`` and ``made``: key → failed and successful attempts, ``interrupted``: attempts
    that a queue ended; ``lost``: addresses whose logs are gone; seconds spent in child processes (``child_seconds``),
    waiting for others (``waited``) and examining machines (``probed``); ``patience``: remaining time for waiting."""

    outcomes: list[Outcome] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    interrupted: dict[str, int] = field(default_factory=dict)
    lost: set[Address] = field(default_factory=set)
    child_seconds: float = 0.0
    waited: float = 0.0
    probed: float = 0.0
    patience: float = math.inf


class Worker(Struct, dict=True):
    """Carries out the steps of a pass. ``under_way``: key → an earlier pass's attempt that is still running. ``began``
    is monotonic, ``wall`` the time of day then; ``keep_open``: this pass's lock, which children keep open too.
    ``left``: running jobs were left to their queue."""

    paths: RepositoryPaths
    options: Options
    report: Callable[[Event], None]
    check: Check
    keep_open: tuple[int, ...]
    recorder: Recorder
    transport: AttemptTransport | None
    tries: Tries = field(default_factory=Tries)
    under_way: dict[str, Attempt] = field(default_factory=dict)
    left: bool = False
    services: Services = field(default_factory=Services)
    order: RecordClock = field(default_factory=RecordClock)
    began: float = field(default_factory=time.monotonic)
    wall: datetime = field(default_factory=lambda: datetime.now(UTC))

    @cached_property
    def executors(self) -> Executors:
        return Executors.make(self.paths, self.transport)

    @cached_property
    def stamps(self) -> DigestCache:
        return DigestCache(self.paths)

    def harvest(self) -> int:
        taken = 0
        self.under_way = find_under_way(self.paths.attempts, self.executors)
        spared = {attempt.folder for attempt in self.under_way.values()}
        for finished in harvest(self.paths.attempts, lambda text: self.report(Message(text)), spared):
            self.recorder.store(finished)
            self.report(Message(f"{finished.record.address}: recorded the result of an earlier pass"))
            taken += 1
        return taken

    def take_up_refused(self, result: PlanResult) -> int:
        """Judge runs that an older version refused by today's rules; return their number."""
        taken = 0
        for address in take_up_refused(self.paths, result, self.recorder.store):
            self.report(Message(f"{address}: recorded a run that an older version rejected, from its stored logs"))
            taken += 1
        return taken

    def list_left(self) -> list[Attempt]:
        """List the attempts that continue in a queue without this pass."""
        going = find_under_way(self.paths.attempts, self.executors) if self.left or self.under_way else {}
        return list(going.values())

    def end_unasked(self, result: PlanResult) -> None:
        """End running attempts of earlier passes that no spec needs any more."""
        asked = {step.change.key for step in result.plan.steps}
        for key in self.under_way.keys() - asked:
            attempt = self.under_way.pop(key)
            self.executors.end(attempt.folder)
            remove(attempt.folder)

    def execute(self, result: PlanResult, saved: Plan | None) -> bool:
        """Execute a plan; return True if any step ran, so that the caller plans again."""
        plan = result.plan
        if saved is not None:
            keys = {step.change.key for step in saved.steps}
            plan = replace(plan, steps=tuple(step for step in plan.steps if step.change.key in keys))
        if self.options.attach:
            plan = replace(plan, steps=tuple(step for step in plan.steps if step.change.key in self.under_way))
        did = False
        for step in plan.steps:
            if step.change.how is Work.RESTORE:
                did |= self.restore(step, result.tree)
        executor = self.make_executor(result)
        side_by_side = None
        if has_remote_steps(executor, plan):
            options = self.options
            side_by_side = ParallelExecutor(executor, options.jobs, options.detach, options.detach or options.attach)
        if due := executor.list_due(plan):
            self.report(StepsDue(due))
        began = time.monotonic()
        try:
            for outcome in (side_by_side or executor).execute_steps(plan):
                self.tries.outcomes.append(outcome)
                self.tries.child_seconds += outcome.seconds if side_by_side is None else 0.0
                did |= outcome.record is not None
        except Detached:
            self.left = True
        if side_by_side is not None:  # some child runs at any moment, usually several
            self.tries.child_seconds += time.monotonic() - began
        self.tries.waited += executor.turns.waited
        self.tries.probed += executor.turns.probed
        self.tries.patience = min(executor.turns.patience, executor.wait_idle)
        return did

    def make_executor(self, result: PlanResult) -> PlanExecutor:
        from reconciler.storage import git

        self.order.learn(result.recorded)
        if self.transport is not None:
            self.transport.declare(result.desired.submission, self.wall.date())
        systems, reached = result.desired.submission.systems, read_probed_nodes(self.paths)
        context = AttemptContext(
            paths=self.paths,
            executors=self.executors,
            under_way=self.under_way,
            tool=TOOL,
            spec=result.spec,
            dirty=bool(git.list_dirty(self.paths.root, result.spec)),
            clock=lambda: self.wall + timedelta(seconds=time.monotonic() - self.began),
            keep_open=self.keep_open,
            check=self.check,
            path=lambda artifact: find_readable(self.paths, artifact),
            load=lambda identity: load_record(self.paths, identity),
            nodes=collect_node_facts(systems, reached),
            order=self.order,
            installed=list_installed_for(systems, reached, list_installed()),
            written=result.recorded.find_written(),
        )
        context = replace(context, hash_code=partial(self.hash_code, context.written))
        by_id = {s.id: s for summaries in result.recorded.by_key.values() for s in summaries}
        used = {address: by_id[identity] for address, identity in result.difference.recorded_as.items()}
        return PlanExecutor(
            result.desired,
            context,
            self.report,
            self.recorder.store,
            used,
            self.tries.failures,
            self.tries.made,
            self.tries.interrupted,
            busy=self.options.busy,
            wait_idle=min(self.options.wait_idle, self.tries.patience),
            services=self.services,
        )

    def hash_code(self, written: Mapping[str, Collection[str]], location: str) -> tuple[str, Mapping[str, str]]:
        """Return the digest of a command's code, as plans compute it, and of each of its files."""
        path, names = self.paths.root / location, written.get(location, ())
        placed = find_placed_below(self.paths.attempts)
        digest = hash_code(path, self.stamps, placed, names) or ""
        return digest, hash_code_files(path, self.stamps, placed, names)

    def restore(self, step: Step, tree: Path) -> bool:
        """Restore logs. If no copy is left, the user decides whether to repeat the attempt that wrote them."""
        address = step.change.address
        if address in self.tries.lost:
            return False
        rendered = [item for files in read_rendered(self.paths).files.values() for item in files.items()]

        def list_copies(sha256: str) -> list[Path]:
            return [tree / path for path, digest in rendered if digest == sha256]

        head = self.recorder.read_head_file
        good = [repair_artifact(self.paths, place, sha256, head, list_copies) for place, sha256 in step.change.restore]
        if all(good):
            outcome = Outcome(step, Status.DONE, "restored: " + step.change.note)
        else:
            self.tries.lost.add(address)
            outcome = Outcome(
                step,
                Status.BLOCKED,
                f"{step.change.note}, and no copy exists",
                f"repeat it: reconcile apply --rerun cell={address.cell}",
            )
        self.tries.outcomes.append(outcome)
        self.report(outcome)
        return all(good)

    def render(self, result: PlanResult) -> int | None:
        """Render the tree if any of its files would differ or if it does not exist. Return the number of files written,
        None if it was up to date."""
        due = [step for step in result.plan.steps if step.change.how is Work.RENDER and not result.plan.withholds(step)]
        waiting = {c.address for c in result.difference.changes if c.how is Work.MAKE} | self.tries.lost
        from reconciler.publish.rendered_tree import publish, select_publishable

        if self.options.only and not due:
            return None
        if not due and (result.observed.tree_present or not select_publishable(self.drop_lost(result.difference))):
            return None
        written = publish(self.paths, result.tree, result.desired, self.drop_lost(result.difference))
        for step in due:
            if not waiting.intersection(result.desired.by_address[step.change.address].upstream):
                self.tries.outcomes.append(Outcome(step, Status.DONE, "rendered"))
        return len(written)

    def drop_lost(self, difference: Difference) -> Difference:
        """Drop cells whose logs are gone, which cannot be rendered."""
        lost = {address.cell for address in self.tries.lost}
        kept = {cell: records for cell, records in difference.chosen.items() if cell not in lost}
        return replace(difference, chosen=kept)


def collect_node_facts(systems: Mapping[str, SystemSettings], reached: ProbedNodes) -> dict[str, MachineFacts]:
    """Return system → the facts for records of its runs about the nodes that its launcher reached."""
    facts_of_machines = {}
    for name, system in systems.items():
        found = reached.get(name_nodes(system)) if not (system.runs_here or system.is_queued) else None
        if found is not None:
            drivers = {str(gpu["driver"]) for node in found.nodes for gpu in node["gpus"] if "driver" in gpu}
            facts_of_machines[name] = MachineFacts(tuple(map(note_facts, found.nodes)), tuple(sorted(drivers)))
    return facts_of_machines


# Records of a pass: stored with the files that they name, signed and committed; damaged ones are repaired.

Sign = Callable[[str], None]


class Recorder(Struct):
    """Stores the records of a pass. ``sign`` signs a record, once a signer is known; until then, records wait in
    ``unsigned``."""

    paths: RepositoryPaths
    report: Callable[[Event], None]
    sign: Sign | None = None
    unsigned: list[str] = field(default_factory=list)
    not_committed: RepositoryError | None = None

    def require_git(self) -> None:
        """Require a repository for the final commit, before hours of runs rather than after."""
        from reconciler.storage import git

        if git.find_root(self.paths.root) is None:
            raise RepositoryError(
                f"--commit: {self.paths.root} is not in a git repository", fix="run `git init`, or omit --commit"
            )

    def end_killed_commits(self) -> None:
        """Clean up after killed commits in .git, if that is a folder here. Otherwise git is not loaded."""
        if any((self.paths.root / ".git").glob("reconcile-commit-*")):
            from reconciler.storage.git_index import end_killed_commits

            end_killed_commits(self.paths.root)

    def prepare_signing(self, result: PlanResult) -> None:
        """Test the signing key before hours of runs rather than after."""
        due = self.unsigned or any(step.change.how is Work.MAKE for step in result.plan.steps)
        if due and result.desired.submission.get("signing.sign"):
            from reconciler.record.signing import find_signer, sign_record

            signer = find_signer(self.paths.root)

            def sign(identity: str) -> None:
                try:
                    sign_record(self.paths, identity, signer)
                except ReconcilerError as error:
                    self.report(Message(f"{identity} is not signed: {error}; `reconcile sign` signs it later"))

            self.sign = sign
            for identity in self.unsigned:
                sign(identity)

    def store(self, finished: Finished) -> Summary:
        """Store the files first, then the record that names them, then remove the attempt's folder, so that nothing is
        repeated after a kill in between."""
        for item in finished.kept:
            keep(self.paths, item.path, item.name, in_git=item.in_git)
        identity = write_record(self.paths, finished.record)
        if self.sign is None:
            self.unsigned.append(identity)
        else:
            self.sign(identity)
        if finished.lives:
            finished.attempt.settle()
        else:
            remove(finished.attempt.folder)
        return summarize(finished.record, identity)

    def repair_records(self, result: PlanResult) -> None:
        for item in result.damaged:
            self.report(
                Message(f"{item.path}: {item.why}: {repair_record(self.paths, item.path, self.read_head_file)}")
            )

    def read_head_file(self, path: str) -> bytes | None:
        from reconciler.storage import git

        return git.read_file_at(self.paths.root, path)

    def commit(self, outcomes: Iterable[Outcome]) -> str:
        from reconciler.storage import git

        paths = [str(p.relative_to(self.paths.root)) for p in (self.paths.records, self.paths.logs) if p.exists()]
        # The commit includes uncommitted records of earlier passes.
        done = sum(1 for outcome in outcomes if outcome.record is not None)
        new = git.count_new_files(self.paths.root, [path for path in paths if path.endswith("records")])
        message = f"Record {show_count(max(done, new), 'outcome')}"
        try:
            identity = git.commit(self.paths.root, paths, message)
        except RepositoryError as error:
            self.not_committed = error  # reported after the pass's work, which is recorded anyway
            return ""
        return identity
