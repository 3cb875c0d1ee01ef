"""One pass: look, plan, execute, record, render, and look again until nothing differs.

A pass is level-based: it starts from the world as it is, whatever an earlier pass left behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from reconciler import __version__
from reconciler.diff.change import Difference, Work
from reconciler.errors import ReconcilerError, RepositoryError
from reconciler.execute.attempt import Attempt, MachineFacts
from reconciler.execute.executors.table import Executors
from reconciler.execute.harvest import find_under_way, harvest
from reconciler.execute.outcome import Event, Message, Outcome, Status
from reconciler.execute.perform import AttemptContext, Check, Finished, skip_check
from reconciler.execute.plan_executor import PlanExecutor
from reconciler.execute.record_clock import RecordClock
from reconciler.execute.service import Services
from reconciler.files import Lock, RepositoryPaths, convert_storage_errors, ignore_work, remove, sweep
from reconciler.launch.nodes import sweep_probes
from reconciler.observed.node_probe import probe_machines
from reconciler.observed.probed_nodes import ProbedNodes, name_nodes, note_facts, read_probed_nodes
from reconciler.observed.rendered import read_rendered
from reconciler.plan.plan import Plan, Step
from reconciler.plan.saved import refuse_stale
from reconciler.planning import Options, PlanCache, PlanResult, compute_plan
from reconciler.quantities import show_count
from reconciler.record.codec import summarize
from reconciler.record.index import load_record
from reconciler.record.repair import repair_artifact, repair_record
from reconciler.record.store import find_artifact, keep, write_record
from reconciler.resource.kinds import Address
from reconciler.resource.records import Artifact, Summary
from reconciler.resource.settings import SystemSettings

TOOL = f"mlperf-reconciler {__version__}"
_LOOKS = 20  # of one pass; each but the last has done something, so the bound only guards against a bug of ours


@dataclass(frozen=True, slots=True)
class PassReport:
    """``look`` after the pass. ``own_seconds`` is the pass's own time, ``child_seconds`` that of its child
    processes. ``rendered``: files of the tree, 0 when it was not rendered. ``not_committed``: why git took nothing."""

    look: PlanResult
    outcomes: tuple[Outcome, ...]
    tree: Path
    own_seconds: float
    child_seconds: float
    harvested: int
    commit: str = ""
    rendered: int = 0
    not_committed: RepositoryError | None = None


def run_pass(
    places: RepositoryPaths,
    options: Options,
    *,
    report: Callable[[Event], None],
    saved: Plan | None = None,
    memory: PlanCache | None = None,
    check: Check = skip_check,
) -> PassReport:
    """Make recorded and observed state match the desired one, as far as selected. ``memory``: of earlier looks of this
    process. Raises LockedError, StalePlanError, SpecError; RepositoryError before anything is done; and what ``check``
    raises.

    KeyboardInterrupt passes through: every finished attempt is recorded by then, and the child has ended.
    """
    lock = Lock(places.pass_lock, purpose="pass over this repository")
    with convert_storage_errors(places.work), lock.acquire(wait=options.wait):
        kept = memory or PlanCache.of(places)
        return Pass(places, options, report, lock, kept, check, Executors.of(places)).run(saved)


@dataclass(slots=True)
class Pass:
    """The state of one pass: what it did, and what it gave up on."""

    places: RepositoryPaths
    options: Options
    report: Callable[[Event], None]
    lock: Lock
    memory: PlanCache
    check: Check
    executors: Executors
    under_way: dict[str, Attempt] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    lost: set[Address] = field(default_factory=set)
    child_seconds: float = 0.0
    waited: float = 0.0
    rendered: int = 0
    unsigned: list[str] = field(default_factory=list)
    signer: Any = None
    not_committed: RepositoryError | None = None
    services: Services = field(default_factory=Services)
    began: float = field(default_factory=time.monotonic)
    order: RecordClock = field(default_factory=RecordClock)
    wall: datetime = field(default_factory=lambda: datetime.now(UTC))

    def run(self, saved: Plan | None) -> PassReport:
        if self.options.commit:
            self.require_git()
        ignore_work(self.places)
        for folder in (self.places.records, self.places.logs, self.places.objects, self.places.index):
            sweep(folder)
        sweep_probes(self.places.work)
        harvested = self.harvest()
        seen = self.reached(self.look(self.options))
        if saved is not None:
            refuse_stale(saved, seen.plan)
        self.prepare_signing(seen)
        self.end_unasked(seen)
        sweep(seen.tree)
        if seen.damaged:
            self.repair_records(seen)
            seen = self.look(self.options)  # what a restored record says need not be done again
        with self.services:
            for _ in range(_LOOKS):
                if not self.execute(seen, saved):
                    break
                seen = self.look_again()
        self.waited += self.services.seconds
        seen = self.render(seen)
        commit = self.commit() if self.options.commit else ""
        own = time.monotonic() - self.began - self.child_seconds - self.waited
        return PassReport(
            seen,
            tuple(self.outcomes),
            seen.tree,
            own,
            self.child_seconds,
            harvested,
            commit,
            self.rendered,
            self.not_committed,
        )

    def reached(self, seen: PlanResult) -> PlanResult:
        """After a look at the machines where something is to be done, if only a probe can tell what they are."""
        due = {cell.system for s in seen.plan.steps if s.change.how is Work.MAKE and (cell := s.change.address.cell)}
        began = time.monotonic()
        looked = probe_machines(
            self.places, seen.desired.submission.systems, due, lambda text: self.report(Message(text))
        )
        self.waited += time.monotonic() - began
        if not looked:
            return seen
        return self.look(self.options)

    def require_git(self) -> None:
        """What is to be committed at the end needs a repository: better known before hours of runs than after."""
        from reconciler import git

        if git.find_root(self.places.root) is None:
            raise RepositoryError(
                f"--commit: {self.places.root} is not in a git repository", fix="run `git init`, or leave --commit out"
            )

    def prepare_signing(self, seen: PlanResult) -> None:
        """A key that cannot sign is better known before hours of runs than after."""
        due = self.unsigned or any(step.change.how is Work.MAKE for step in seen.plan.steps)
        if due and self.options.sign and seen.desired.submission.get("signing.sign"):
            from reconciler.record.signing import find_signer

            self.signer = find_signer(self.places.root)
            for identity in self.unsigned:
                self.sign(identity)

    def sign(self, identity: str) -> None:
        from reconciler.record.signing import sign_record

        try:
            sign_record(self.places, identity, self.signer)
        except ReconcilerError as error:
            self.report(Message(f"{identity} is not signed: {error}; `reconcile sign` signs it later"))

    def look(self, options: Options) -> PlanResult:
        seen = compute_plan(self.places, options, self.memory)
        self.memory.save()  # a pass may last for days, and others plan meanwhile
        return seen

    def look_again(self) -> PlanResult:
        """Without the deep tier (this pass has hashed everything once) and without what was asked to be repeated
        (it was)."""
        return self.look(replace(self.options, deep=False, rerun=()))

    def harvest(self) -> int:
        taken = 0
        self.under_way = find_under_way(self.places.attempts, self.executors)
        spared = {attempt.folder for attempt in self.under_way.values()}
        for finished in harvest(self.places.attempts, lambda text: self.report(Message(text)), spared):
            self.store(finished)
            self.report(Message(f"{finished.record.address}: took over the result that an earlier pass left"))
            taken += 1
        return taken

    def end_unasked(self, seen: PlanResult) -> None:
        """What an earlier pass started, and that still runs, for what no spec asks for any more."""
        asked = {step.change.key for step in seen.plan.steps}
        for key in self.under_way.keys() - asked:
            attempt = self.under_way.pop(key)
            self.executors.end(attempt.folder)
            remove(attempt.folder)

    def store(self, finished: Finished) -> Summary:
        """Files first, then the record that names them, then the attempt's folder goes: a kill in between repeats
        nothing."""
        for item in finished.kept:
            keep(self.places, item.path, item.name, in_git=item.in_git)
        identity = write_record(self.places, finished.record)
        if self.signer is None:
            self.unsigned.append(identity)
        else:
            self.sign(identity)
        if finished.lives:
            finished.attempt.settle()
        else:
            remove(finished.attempt.folder)
        return summarize(finished.record, identity)

    def repair_records(self, seen: PlanResult) -> None:
        for item in seen.damaged:
            self.report(Message(f"{item.path}: {item.why}: {repair_record(self.places, item.path, self.head_file)}"))

    def head_file(self, path: str) -> bytes | None:
        from reconciler import git

        return git.read_head_file(self.places.root, path)

    def execute(self, seen: PlanResult, saved: Plan | None) -> bool:
        """Whether anything was done, so that another look is worth it."""
        plan = seen.plan
        if saved is not None:
            keys = {step.change.key for step in saved.steps}
            plan = replace(plan, steps=tuple(step for step in plan.steps if step.change.key in keys))
        did = False
        for step in plan.steps:
            if step.change.how is Work.RESTORE:
                did |= self.restore(step, seen.tree)
        walk = self.walk(seen)
        for outcome in walk.steps(plan):
            self.outcomes.append(outcome)
            self.child_seconds += outcome.seconds
            did |= outcome.record is not None
        self.waited += walk.waited
        return did

    def walk(self, seen: PlanResult) -> PlanExecutor:
        from reconciler import git

        self.order.know(seen.recorded)
        setting = AttemptContext(
            places=self.places,
            executors=self.executors,
            under_way=self.under_way,
            tool=TOOL,
            spec=seen.spec,
            dirty=git.is_dirty(self.places.root, list(seen.spec)),
            clock=lambda: self.wall + timedelta(seconds=time.monotonic() - self.began),
            keep_open=(self.lock.descriptor,),
            check=self.check,
            path=lambda artifact: find_readable(self.places, artifact),
            load=lambda identity: load_record(self.places, identity),
            nodes=collect_node_facts(seen.desired.submission.systems, read_probed_nodes(self.places)),
            order=self.order,
        )
        by_id = {s.id: s for summaries in seen.recorded.by_key.values() for s in summaries}
        used = {address: by_id[identity] for address, identity in seen.difference.recorded_as.items()}
        return PlanExecutor(
            seen.desired,
            setting,
            self.report,
            self.store,
            used,
            self.failures,
            self.made,
            busy=self.options.busy,
            services=self.services,
        )

    def restore(self, step: Step, tree: Path) -> bool:
        """Bring logs back; where no copy is left, people decide whether to repeat the attempt that wrote them."""
        address = step.change.address
        if address in self.lost:
            return False
        rendered = [item for files in read_rendered(self.places).files.values() for item in files.items()]

        def copies(sha256: str) -> list[Path]:
            return [tree / path for path, digest in rendered if digest == sha256]

        good = [
            repair_artifact(self.places, place, sha256, self.head_file, copies) for place, sha256 in step.change.restore
        ]
        if all(good):
            outcome = Outcome(step, Status.DONE, "restored: " + step.change.note)
        else:
            self.lost.add(address)
            outcome = Outcome(
                step,
                Status.BLOCKED,
                f"{step.change.note}, and no copy is left",
                f"repeat it: reconcile apply --rerun cell={address.cell}",
            )
        self.outcomes.append(outcome)
        self.report(outcome)
        return all(good)

    def render(self, seen: PlanResult) -> PlanResult:
        """The tree is rendered again when anything in it would differ, or when it is not there at all."""
        due = [step for step in seen.plan.steps if step.change.how is Work.RENDER and not seen.plan.withholds(step)]
        waiting = {s.change.address for s in seen.plan.steps if s.change.how is Work.MAKE} | self.lost
        from reconciler.publishing.rendered_tree import is_publishable, publish

        if self.options.only and not due:
            return seen
        if not due and (seen.observed.tree_present or not is_publishable(self.without_lost(seen.difference))):
            return seen
        written = publish(
            self.places,
            seen.tree,
            seen.desired,
            self.without_lost(seen.difference),
            lambda identity: load_record(self.places, identity),
            lambda ref: find_readable(self.places, Artifact("", ref.sha256, ref.size, "logs")),
        )
        self.rendered = len(written)
        for step in due:
            if not waiting.intersection(seen.desired.by_address[step.change.address].upstream):
                self.outcomes.append(Outcome(step, Status.DONE, "rendered"))
        return self.look_again()

    def without_lost(self, difference: Difference) -> Difference:
        """A cell whose logs are gone cannot be rendered."""
        lost = {address.cell for address in self.lost}
        kept = {cell: records for cell, records in difference.chosen.items() if cell not in lost}
        return replace(difference, chosen=kept)

    def commit(self) -> str:
        from reconciler import git

        done = sum(1 for outcome in self.outcomes if outcome.record is not None)
        paths = [str(p.relative_to(self.places.root)) for p in (self.places.records, self.places.logs) if p.exists()]
        message = f"Record {show_count(done, 'outcome')}"
        try:
            identity = git.commit(self.places.root, paths, message)
        except RepositoryError as error:
            self.not_committed = error  # told after what the pass did, which is recorded all the same
            return ""
        return identity


def collect_node_facts(systems: Mapping[str, SystemSettings], reached: ProbedNodes) -> dict[str, MachineFacts]:
    """System → what the record of its runs says of the nodes that its launcher reached."""
    told = {}
    for name, system in systems.items():
        found = reached.get(name_nodes(system)) if system.launcher is not None else None
        if found is not None:
            drivers = {str(gpu["driver"]) for node in found.nodes for gpu in node["gpus"] if "driver" in gpu}
            told[name] = MachineFacts(tuple(map(note_facts, found.nodes)), tuple(sorted(drivers)))
    return told


def find_readable(places: RepositoryPaths, artifact: Artifact) -> Path:
    """Where an artifact's bytes lie: a log has two places."""
    first = find_artifact(places, artifact.place, artifact.sha256)
    return first if first.exists() else find_artifact(places, "objects", artifact.sha256)
