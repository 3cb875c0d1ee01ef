"""One look: desired → observed → diff → plan, the read-only half of a pass.

On a warm cache it imports no YAML library, no pydantic and no git, and nothing that only acting needs.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from reconciler.compiled import Compilations, compiled
from reconciler.desired.state import Desired
from reconciler.diff.auditing import lacking, missing_answers
from reconciler.diff.change import Change, Difference, Finding, How, InputChange
from reconciler.diff.difference import compare
from reconciler.diff.explain import input_changes
from reconciler.errors import ReconcilerError, RecordError
from reconciler.files import Places
from reconciler.mlperf.compliance.settings import audit_settings
from reconciler.mlperf.duration import predict
from reconciler.mlperf.modes import conf_settings
from reconciler.observed.installed import installed
from reconciler.observed.observe import builds_anywhere, installed_for, observe, obstacles_of, systems_of
from reconciler.observed.reached import read_reached
from reconciler.observed.stamps import Stamps
from reconciler.observed.state import Observed
from reconciler.plan.make import Context, Policy, make_plan
from reconciler.plan.plan import Plan
from reconciler.plan.select import parse
from reconciler.record.decisions import read
from reconciler.record.index import Damaged, Index, load, load_record
from reconciler.render.quantities import listing
from reconciler.resource.decisions import NONE, Decisions, frozen_by
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Recorded

_FIELDS = ("division", "system", "benchmark", "scenario")
_MADE = (Kind.DATASET, Kind.MODEL, Kind.ENGINE, Kind.RUN, Kind.SCORE, Kind.COMPLIANCE_TEST, Kind.VERDICT)


@dataclass(frozen=True, slots=True)
class Options:
    """What a pass or a look is about. ``specs`` empty: ``specs/``. ``only``: kinds; ``rerun``: selectors of what to
    make again anyway, runs unless a kind is named.

    ``deep`` hashes every artifact and opens every record; ``busy`` times runs although others use the machine;
    ``wait``: seconds to wait for another pass to end. ``sign`` False: no record is signed, whatever the spec says.
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
    sign: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """One look at desired, recorded and observed state, and the plan that follows from it. ``sources``: locations of
    files and folders whose bytes count, relative to the repository."""

    places: Places
    tree: Path
    desired: Desired
    recorded: Recorded
    observed: Observed
    difference: Difference
    plan: Plan
    spec: dict[str, str]
    damaged: tuple[Damaged, ...] = ()
    sources: tuple[str, ...] = ()
    decisions: Decisions = NONE


@dataclass(slots=True)
class Memory:
    """What a process that looks again and again keeps from one look to the next, so that a look costs what changed.
    Each part is believed only while what it was made from is as it was: a look starts from the world all the same."""

    places: Places
    stamps: Stamps
    index: Index = field(default_factory=Index)
    compilations: Compilations = field(default_factory=Compilations)

    @classmethod
    def of(cls, places: Places) -> Memory:
        return cls(places, Stamps(places))

    def desired(self, options: Options) -> Desired:
        """The desired state alone. Raises SpecError."""
        self.stamps.refresh()
        recorded = load(self.places, index=self.index).recorded
        return compiled(self.places, options.specs, recorded, self.stamps, self.compilations).desired

    @property
    def unsaved(self) -> bool:
        return self.compilations.unsaved is not None

    def save(self) -> None:
        """Write what may be written later than the plan is told: caches, for other processes."""
        self.compilations.save()


def look(places: Places, options: Options, memory: Memory | None = None) -> Look:
    """desired → observed → diff → plan; writes nothing but disposable caches, and leaves those that are slow to write
    to who keeps the ``memory``. Raises SpecError."""
    with collector_paused():
        kept = memory or Memory.of(places)
        seen = _look(places, options, kept)
        if memory is None:
            kept.save()
        return seen


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Nearly everything a look makes lives on, so that the garbage collector would only search it again and again: a
    fifth of the time of a large plan."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()


def _look(places: Places, options: Options, memory: Memory) -> Look:
    memory.stamps.refresh()
    stamps = Stamps(places, deep=True) if options.deep else memory.stamps
    loaded = load(places, deep=options.deep, index=memory.index)
    state = compiled(places, options.specs, loaded.recorded, stamps, memory.compilations)
    tree = tree_of(places, state.desired)
    decisions = read(places, datetime.now(UTC).date())
    accepted = frozenset(key.before for item in decisions.acceptances.values() for key in item.keys)
    observed = observe(state.desired, loaded.recorded, places, tree, stamps, accepted)
    forced = _forced(state.desired, options)
    difference = compare(state.desired, loaded.recorded, observed, forced, decisions)
    difference = _with_damaged(difference, loaded.damaged)
    # A decision changes plans as a record does.
    known = replace(loaded.recorded, digest=" ".join(filter(None, [loaded.recorded.digest, decisions.digest])))
    plan = plan_of(places, options, state.desired, known, observed, difference)
    sources = tuple(dict.fromkeys(pin.partition("|")[2] for pin in state.pins.values if pin.startswith("source:")))
    return Look(
        places=places,
        tree=tree,
        desired=state.desired,
        recorded=loaded.recorded,
        observed=observed,
        difference=difference,
        plan=plan,
        spec=dict(state.spec),
        damaged=loaded.damaged,
        sources=sources,
        decisions=decisions,
    )


def tree_of(places: Places, desired: Desired) -> Path:
    submission = next(r for r in desired.resources if r.kind is Kind.SUBMISSION)
    declared = desired.detail(submission.address).settings.get("tree")
    return (places.root / str(declared)).resolve() if declared else places.tree


def _forced(desired: Desired, options: Options) -> frozenset[Address]:
    if not options.rerun:
        return frozenset()
    selector = parse(options.rerun)
    # A compliance test is repeated only when it is named: a new run takes new verdicts, no new tests.
    named = any(field == "kind" for field, _ in selector.terms)
    known = (r.address for r in desired.resources if r.kind in (_MADE if named else (Kind.RUN,)))
    found = frozenset(address for address in known if selector.matches(address))
    if not found:
        raise unfit(options.rerun, desired, f"kinds that can be made again: {', '.join(_MADE)}" if named else "")
    return found


def unfit(words: Sequence[str], desired: Desired, more: str = "") -> ReconcilerError:
    """That a selection chooses nothing, with what there is to choose."""
    cells = [r.cell for r in desired.resources if r.kind is Kind.RESULT and r.cell is not None]
    known = [f"{field}: {listing(dict.fromkeys(getattr(cell, field) for cell in cells))}" for field in _FIELDS]
    fix = "; ".join([*known, *filter(None, [more])])
    return ReconcilerError(f"no declared cell fits {' '.join(words)}", fix=f"declared are {fix}")


def _with_damaged(difference: Difference, damaged: tuple[Damaged, ...]) -> Difference:
    fix = "a pass restores it from git, or moves it aside"
    found = tuple(Finding("DamagedRecord", item.path, item.why, fix) for item in damaged)
    return replace(difference, findings=difference.findings + found)


def plan_of(
    places: Places, options: Options, desired: Desired, recorded: Recorded, observed: Observed, difference: Difference
) -> Plan:
    there = installed_for(systems_of(desired), read_reached(places), installed())

    def blocked(address: Address) -> tuple[str, str] | None:
        cell = address.cell
        locations = desired.detail(address).locations
        elsewhere = address.kind is not Kind.VERDICT and not builds_anywhere(address, locations)
        if cell is not None and cell.system in observed.systems and elsewhere:
            obstacle = observed.systems[cell.system]
            return obstacle.message, obstacle.fix
        if address.kind is Kind.VERDICT and (run := lacking(desired, recorded, observed, difference, address)):
            return missing_answers(run)
        found = obstacles_of(address, locations, places.root, there.get(locations.get("system", ""), {}))
        return (found.message, found.fix) if found else None

    def frozen(address: Address) -> tuple[str, str] | None:
        freeze = frozen_by(address.cell, difference.frozen)
        fix = f"reconcile unfreeze {freeze.cell or '--all'}" if freeze else ""
        return (str(freeze), fix) if freeze else None

    def explain(change: Change) -> tuple[InputChange, ...]:
        return explained(places, desired, change)

    def seconds(address: Address) -> tuple[float | None, str]:
        return predicted(address, desired, recorded)

    policy = Policy(
        select=parse(options.select),
        exclude=parse(options.exclude) if options.exclude else None,
        only=frozenset(options.only),
    )
    context = Context(desired.by_address, blocked, seconds, explain, frozen)
    return make_plan(desired.name, desired.digest, recorded.digest, difference, policy, context)


def explained(places: Places, desired: Desired, change: Change) -> tuple[InputChange, ...]:
    """The inputs that differ from the last record of what is to change; none where it cannot be read."""
    if not change.previous or change.how is How.RESTORE:
        return ()
    try:
        before = load_record(places, change.previous).inputs
    except RecordError:
        return ()
    return input_changes(desired.detail(change.address).inputs, before)


def predicted(address: Address, desired: Desired, recorded: Recorded) -> tuple[float | None, str]:
    """How long a step will take: as long as last time, else LoadGen's own formulas; None when neither can say."""
    known = [s for s in recorded.by_address.get(address, ()) if s.seconds > 0]
    values = desired.detail(address).values() if address.kind in (Kind.RUN, Kind.COMPLIANCE_TEST) else {}
    values = audit_settings(values) | values
    performance = values.get("mode") == "performance"
    if performance:
        formula = predict(
            str(values["scenario"]), "performance", conf_settings(values, "performance", str(values["scenario"]))
        )
        if not known or formula.seconds >= 60:
            return formula.seconds, "formula"
    return (known[-1].seconds, "history") if known else (None, "")
