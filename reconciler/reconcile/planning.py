"""One look: desired → observed → diff → plan, the read-only half of a pass.

With a warm cache it imports no YAML library, no pydantic and no git, and no module that only acting needs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.desired.state import Desired, Pins
from reconciler.diff.change import (
    DAMAGED_RECORD,
    Change,
    Difference,
    Finding,
    InputChange,
    Reason,
    Work,
    list_input_changes,
)
from reconciler.diff.compliance import explain_missing_answers, find_missing_answers
from reconciler.diff.copied_runs import add_copies
from reconciler.diff.difference import compare
from reconciler.errors import ReconcilerError, RecordError, StorageError
from reconciler.observed.digest_cache import DigestCache
from reconciler.observed.installed_backends import list_installed
from reconciler.observed.loadgen_library import read_conf_here
from reconciler.observed.observe import (
    can_build_anywhere,
    find_obstacle,
    find_wrong_loadgen,
    find_wrong_source,
    list_installed_for,
    observe,
)
from reconciler.observed.probed_nodes import read_probed_nodes
from reconciler.observed.state import Observed
from reconciler.plan.builder import PlanContext, Policy, make_plan
from reconciler.plan.expectation import Expectation
from reconciler.plan.plan import Plan
from reconciler.plan.select import parse, parse_repeated
from reconciler.reconcile.desired_cache import DesiredCache, load_desired
from reconciler.record.decisions import read
from reconciler.record.index import Damaged, Index, load, load_record
from reconciler.record.judgements import judge_records
from reconciler.record.store import find_readable
from reconciler.resource.decisions import NONE, Decisions, find_freeze
from reconciler.resource.inputs import CODE, MADE_OF_SOURCES, Pin, PinKind
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress
from reconciler.resource.programs import find_program_of_results
from reconciler.resource.quantities import join_listing
from reconciler.resource.records import CODE_ARCHIVE, Judgement, Recorded
from reconciler.resource.settings import CellSettings, Trial
from reconciler.rules.programs import load_program
from reconciler.spec.names import find_nearest
from reconciler.storage.collector import pause_collector
from reconciler.storage.files import RepositoryPaths, TrialPaths, hash_bytes, ignore_work

if TYPE_CHECKING:
    from reconciler.resource.conditions import CellStatus

WAIT_IDLE = 12 * 3600.0  # seconds; about a night
_BENCHMARK = "benchmark.code"  # input with the digest of a user's benchmark file
_FIELDS = ("division", "system", "benchmark", "scenario")
_MADE = (Kind.DATASET, Kind.MODEL, Kind.ENGINE, Kind.RUN, Kind.SCORE, Kind.COMPLIANCE_TEST, Kind.VERDICT)


class Options(Struct, frozen=True):
    """The subject of a pass or a look. ``specs`` empty: ``specs/``. ``only``: kinds; ``rerun``: selectors of resources
    to remake anyway, runs unless a kind is named.

    ``deep`` hashes every artifact and opens every record; ``busy`` times runs although others use the machine;
    ``wait``: seconds to wait for another pass to end; ``wait_idle``: seconds to wait for an idle machine before a timed
    run. ``sign`` False: no record is signed, whatever the spec says. ``jobs``: steps running at a time on all machines
    together, 0 for no limit; ``detach``: leave queue jobs running once no other step remains; ``attach``: start
    nothing, only follow an earlier pass's jobs. ``trial``: runs with other settings than the spec's, stored under
    ``TrialPaths``.
    """

    specs: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()
    deep: bool = False
    commit: bool = False
    busy: bool = False
    wait: float = 0.0
    wait_idle: float = WAIT_IDLE
    sign: bool = True
    jobs: int = 0
    detach: bool = False
    attach: bool = False
    trial: Trial | None = None


def choose_quick(paths: RepositoryPaths, options: Options, seconds: float) -> tuple[TrialPaths, Options]:
    """Choose the paths and options of a pass with runs of ``seconds``: without a tree or compliance tests."""
    only = options.only or (str(Kind.RUN), str(Kind.SCORE))
    trial = Trial(quick=round(seconds * 1000))
    return TrialPaths(paths.root, paths.apart), replace(options, only=only, sign=False, trial=trial)


class PlanResult(Struct, frozen=True):
    """One look at desired, recorded and observed state, and the resulting plan. ``sources``: locations of files and
    folders whose bytes count, relative to the repository. ``recorded_sources``: locations of models and datasets whose
    digests came from records alone when the spec was compiled."""

    paths: RepositoryPaths
    tree: Path
    desired: Desired
    recorded: Recorded
    observed: Observed
    difference: Difference
    plan: Plan
    spec: dict[str, str]
    damaged: tuple[Damaged, ...] = ()
    sources: tuple[str, ...] = ()
    recorded_sources: tuple[Pin, ...] = ()
    decisions: Decisions = NONE


class PlanCache(Struct):
    """The state of a process that plans repeatedly, so that each plan only costs the changes. Each part is used only
    while its sources are unchanged, so every look still starts from the present state."""

    paths: RepositoryPaths
    stamps: DigestCache
    index: Index = field(default_factory=Index)
    compilations: DesiredCache = field(default_factory=DesiredCache)

    @classmethod
    def of(cls, paths: RepositoryPaths) -> PlanCache:
        return cls(paths, DigestCache(paths))

    def load_desired(self, options: Options) -> Desired:
        """Load only the desired state. Raises SpecError."""
        self.stamps.refresh()
        recorded = load(self.paths, index=self.index).recorded
        return load_desired(self.paths, options.specs, recorded, self.stamps, self.compilations, options.trial).desired

    @property
    def unsaved(self) -> bool:
        return self.compilations.unsaved is not None

    def save(self) -> None:
        """Write the caches for other processes, once the plan has been shown."""
        self.compilations.save()


def compute_plan(paths: RepositoryPaths, options: Options, memory: PlanCache | None = None) -> PlanResult:
    """Compute desired → observed → diff → plan. It writes nothing but disposable caches, and leaves those that are slow
    to write to the owner of ``memory``. Raises SpecError."""
    with pause_collector():
        kept = memory or PlanCache.of(paths)
        seen = _look(paths, options, kept)
        if memory is None:
            with contextlib.suppress(OSError, StorageError):  # ignored, like a cache that cannot be written
                ignore_work(paths)
            kept.save()
        return seen


def _look(paths: RepositoryPaths, options: Options, memory: PlanCache) -> PlanResult:
    memory.stamps.refresh()
    stamps = DigestCache(paths, deep=True) if options.deep else memory.stamps
    loaded = load(paths, deep=options.deep, index=memory.index)
    state = load_desired(paths, options.specs, loaded.recorded, stamps, memory.compilations, options.trial)
    tree = find_tree(paths, state.desired)
    decisions = read(paths, datetime.now(UTC).date())
    accepted = frozenset(
        item.key.before for acceptance in decisions.acceptances.values() for item in acceptance.accepted
    )
    observed = observe(state.desired, loaded.recorded, paths, tree, stamps, accepted)
    judgements = _judge(paths, state.desired, loaded.recorded, accepted)
    observed = replace(observed, judgements=add_copies(judgements, state.desired, loaded.recorded))
    forced = _list_forced(state.desired, options)
    difference = compare(state.desired, loaded.recorded, observed, forced, decisions)
    difference = _add_damaged(difference, loaded.damaged)
    # A decision changes plans as a record does.
    known = replace(loaded.recorded, digest=" ".join(filter(None, [loaded.recorded.digest, decisions.digest])))
    plan = make_plan_of(paths, options, state.desired, known, observed, difference, stamps.hash_source)
    stamps.save()
    sources = tuple(dict.fromkeys(pin.location for pin in state.pins.values if pin.kind is PinKind.SOURCE))
    return PlanResult(
        paths=paths,
        tree=tree,
        desired=state.desired,
        recorded=loaded.recorded,
        observed=observed,
        difference=difference,
        plan=plan,
        spec=dict(state.spec),
        damaged=loaded.damaged,
        sources=sources,
        recorded_sources=tuple(_list_recorded_sources(state.pins)),
        decisions=decisions,
    )


def _judge(
    paths: RepositoryPaths, desired: Desired, recorded: Recorded, also: frozenset[str]
) -> Mapping[str, Judgement]:
    """Judge every record that a desired resource could use, or that has one of the keys in ``also``."""
    keys = {resource.key: resource.address for resource in desired.resources}
    keys |= {key: recorded.by_key[key][0].address for key in also if key in recorded.by_key}
    of = hash_bytes(" ".join([desired.digest, recorded.digest, *sorted(also)]).encode())

    def find_metrics(address: Address) -> tuple[str, ...]:
        return tuple(bar.metric for bar in desired.detail(address).ruling.bars)

    return judge_records(paths, recorded, keys, of, find_metrics)


def _list_recorded_sources(pins: Pins) -> Iterator[Pin]:
    for pin, value in pins.values.items():
        if pin.name in MADE_OF_SOURCES and value is not None and pins.origins.get(pin) == "record":
            yield pin


def find_tree(paths: RepositoryPaths, desired: Desired) -> Path:
    declared = "" if isinstance(paths, TrialPaths) else desired.submission.tree
    return (paths.root / declared).resolve() if declared else paths.tree


def _list_forced(desired: Desired, options: Options) -> frozenset[Address]:
    if not options.rerun:
        return frozenset()
    found: set[Address] = set()
    for word, selector in zip(options.rerun, parse_repeated(options.rerun).selectors, strict=True):
        # A compliance test is repeated only if it is named, since a new run needs new verdicts, not new tests.
        named = selector.names_kind
        known = (r.address for r in desired.resources if r.kind in (_MADE if named else (Kind.RUN,)))
        matched = [address for address in known if selector.matches(address)]
        if not matched:
            raise explain_unfit([word], desired, f"kinds that can be repeated: {', '.join(_MADE)}" if named else "")
        found.update(matched)
    return frozenset(found)


def explain_unfit(words: Sequence[str], desired: Desired, more: str = "") -> ReconcilerError:
    """Explain that a selection matches nothing, and list the possible values."""
    cells = [r.cell for r in desired.resources if r.kind is Kind.RESULT and r.cell is not None]
    known = [f"{field}: {join_listing(dict.fromkeys(getattr(cell, field) for cell in cells))}" for field in _FIELDS]
    fix = "; ".join([*known, *filter(None, [more])])
    near = [found for word in words if (found := _find_nearest_term(word, cells))]
    meant = f"did you mean {' '.join(near)}? " if near else ""
    return ReconcilerError(f"no declared cell matches {' '.join(words)}", fix=f"{meant}declared are {fix}")


def check_values(words: Sequence[str], desired: Desired) -> None:
    """Raise ReconcilerError if a selection matches cells, but one of the values in a term matches none."""
    results = [resource.address for resource in desired.resources if resource.kind is Kind.RESULT]
    for word in words:
        field, _, values = word.partition("=")
        terms = [f"{field}={value}" for value in values.split(",")] if field in (*_FIELDS, "cell") else []
        for term in terms if len(terms) > 1 else ():
            if not any(parse([term]).matches(address) for address in results):
                raise explain_unfit([term], desired)


def _find_nearest_term(word: str, cells: Sequence[Cell]) -> str:
    """Return "scenario=Server" for "scenario=Servr"; "" if the term matches, or if nothing is similar."""
    name, _, value = word.partition("=")
    if name not in _FIELDS or any(parse([word]).matches(Address(Kind.RESULT, str(cell))) for cell in cells):
        return ""
    near = find_nearest(value, {getattr(cell, name) for cell in cells})
    return f"{name}={near}" if near else ""


def _add_damaged(difference: Difference, damaged: tuple[Damaged, ...]) -> Difference:
    fix = "the next pass restores it from git, or moves it aside"
    found = tuple(Finding(DAMAGED_RECORD, item.path, item.why, fix) for item in damaged)
    return replace(difference, findings=difference.findings + found)


def make_plan_of(
    paths: RepositoryPaths,
    options: Options,
    desired: Desired,
    recorded: Recorded,
    observed: Observed,
    difference: Difference,
    source_digest: Callable[[Path], str | None],
) -> Plan:
    """Make the plan for a difference. ``source_digest``: returns the digest of a file or folder on this disk."""
    there = list_installed_for(desired.submission.systems, read_probed_nodes(paths), list_installed())
    carried = cache(read_conf_here)

    due = {change.address: change for change in difference.changes}

    def explain_block(address: Address) -> tuple[str, str] | None:
        if repeats := find_self_changed(paths, desired, recorded, due[address]):
            return repeats
        cell = address.cell
        locations = desired.detail(address).locations
        elsewhere = address.kind is not Kind.VERDICT and not can_build_anywhere(address, locations)
        if cell is not None and cell.system in observed.systems and elsewhere:
            obstacle = observed.systems[cell.system]
            return obstacle.message, obstacle.fix
        if address.kind is Kind.VERDICT and (
            run := find_missing_answers(desired, recorded, observed, difference, address)
        ):
            return explain_missing_answers(run)
        installed = there.get(locations.get("system", ""), {})
        found = find_obstacle(address, locations, paths.root, installed, desired.submission.round)
        if found is None and address.kind in (Kind.MODEL, Kind.DATASET):
            location = locations.get(f"{str(address.kind).lower()}.path", "")
            declared = desired.detail(address).collect_values().get("source")
            found = find_wrong_source(address.kind, location, declared, paths.root, source_digest)
        if found is None:
            found = find_wrong_loadgen(desired, address, carried, installed)
        return (found.message, found.fix) if found else None

    def explain_freeze(address: Address) -> tuple[str, str] | None:
        freeze = find_freeze(address.cell, difference.frozen)
        fix = f"reconcile unfreeze {freeze.cell or '--all'}" if freeze else ""
        return (str(freeze), fix) if freeze else None

    name_files = cache(partial(find_changed_files, paths, recorded))

    def explain(change: Change) -> tuple[InputChange, ...]:
        found = explain_change(paths, desired, change)
        at = desired.detail(change.address).settings.harness_code if found else ""
        return tuple(
            replace(item, files=name_files(change.address.cell, at, item.before))
            if item.name == CODE and isinstance(item.before, str) and at
            else item
            for item in found
        )

    expectation = make_expectation(desired, recorded)
    policy = Policy(
        select=parse(options.select),
        exclude=parse_repeated(options.exclude),
        only=frozenset(options.only),
    )
    context = PlanContext(desired.by_address, explain_block, expectation.predict, explain, explain_freeze)
    return make_plan(desired.name, desired.digest, recorded.digest, difference, policy, context)


def find_self_changed(
    paths: RepositoryPaths, desired: Desired, recorded: Recorded, change: Change
) -> tuple[str, str] | None:
    """Return why a step is not repeated, and the fix, if only runs that changed their own code have made it due."""
    detail = desired.detail(change.address)
    last = recorded.find_self_changed(change.address, str(detail.collect_values().get(CODE)))
    if last is None or change.reason is Reason.FORCED:
        return None
    try:
        record = load_record(paths, last.id)
    except RecordError:
        return None
    differing = [item.name for item in list_input_changes(detail.inputs, record.inputs)]
    return (record.problem, record.fix) if differing == [CODE] else None


def find_changed_files(
    paths: RepositoryPaths, recorded: Recorded, cell: Cell | None, location: str, before: str
) -> tuple[str, ...]:
    """List the differences between a command's code folder and the version with the digest ``before``, as a performance
    run of the cell kept it; empty if no run kept it, or if only hidden files differ."""
    from reconciler.storage.code_archive import list_changed_files, read_code, unpack_code

    runs = recorded.by_address.get(RunAddress(cell, PERFORMANCE).address, ()) if cell is not None else ()
    runs = tuple(run for run in runs if dict(run.pins).get(CODE) == before)
    archives = [(a, dict(run.pins).get(_BENCHMARK)) for run in runs for a in run.artifacts if a.name == CODE_ARCHIVE]
    if not archives:
        return ()
    archive, benchmark = archives[-1]
    try:
        kept = unpack_code(find_readable(paths, archive).read_bytes())
        now, large = read_code(paths.root / location, "", recorded.find_written().get(location, ()))
    except (OSError, ValueError):
        return ()
    others = ("service/", "build/", "configs/")
    other_code = {name for name, data in kept.items() if name.startswith(others) or hash_bytes(data) == benchmark}
    own = {name: data for name, data in kept.items() if name in now or name not in other_code}
    return tuple(list_changed_files(own, now, large))


def explain_change(paths: RepositoryPaths, desired: Desired, change: Change) -> tuple[InputChange, ...]:
    """Return the inputs that differ from the last record of the changed resource; empty if it cannot be read."""
    if not change.previous or change.how is Work.RESTORE:
        return ()
    try:
        before = load_record(paths, change.previous).inputs
    except RecordError:
        return ()
    return list_input_changes(desired.detail(change.address).inputs, before)


def make_expectation(desired: Desired, recorded: Recorded) -> Expectation:
    """Return an estimator of the steps' durations, from the records and the harness of each run."""
    return Expectation(desired, recorded, predict_run)


def predict_run(settings: CellSettings, inputs: Mapping[str, object]) -> float | None:
    """Predict from what the run's harness does; None if only an earlier run can give an estimate."""
    from reconciler.loadgen.duration import predict_run_seconds

    program = find_program_of_results(settings.results)
    return load_program(program).predict_seconds(settings.results, inputs) if program else predict_run_seconds(inputs)


def list_cells(look: PlanResult, options: Options | None = None) -> tuple[CellStatus, ...]:
    """Return every declared cell that the options select, in the spec's order."""
    from reconciler.diff.conditions import summarise_cells

    blocked = {step.change.address: step.blocked for step in look.plan.steps if step.blocked}
    found = summarise_cells(look.desired, look.recorded, look.observed, look.difference, blocked)
    if options is None or not (options.select or options.exclude):
        return found
    return tuple(status for status in found if _is_selected(status.cell, options))


def _is_selected(cell: Cell, options: Options) -> bool:
    at = Address(Kind.RESULT, str(cell))
    excluded = parse_repeated(options.exclude).drop_resource_terms().matches(at)
    return parse(options.select).drop_resource_terms().matches(at) and not excluded
