"""A plan as a value, and its schedule up to a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from reconciler.diff.change import Change, Drift, Finding, InputChange
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, Freeze, find_freeze
from reconciler.resource.kinds import Address, Cell


class Step(Struct, frozen=True):
    """A step of a plan. ``shared``: further addresses with the same key, satisfied by the same outcome. ``seconds``:
    predicted, None if unknown; ``basis``: "history", "formula" or "alike". ``blocked``: why it cannot run here now, and
    ``fix``."""

    change: Change
    shared: tuple[Address, ...] = ()
    explained: tuple[InputChange, ...] = ()
    because: tuple[Address, ...] = ()
    seconds: float | None = None
    basis: str = ""
    blocked: str = ""
    fix: str = ""


class Plan(Struct, frozen=True):
    """Bound to its sources by the digests of the desired state and of the set of records. ``excluded``: steps that
    selectors left out. ``acceptances``: path, acceptance and its status; ``frozen``: the freezes in force."""

    name: str
    desired: str
    recorded: str
    steps: tuple[Step, ...]
    unchanged: int = 0
    excluded: int = 0
    drifts: tuple[Drift, ...] = ()
    findings: tuple[Finding, ...] = ()
    undeclared: tuple[Address, ...] = ()
    acceptances: tuple[tuple[str, Acceptance, AcceptanceStatus], ...] = ()
    frozen: tuple[Freeze, ...] = ()

    def withholds(self, step: Step) -> bool:
        """Return True if the step serves only frozen cells."""
        return all(find_freeze(address.cell, self.frozen) for address in (step.change.address, *step.shared))

    @property
    def in_sync(self) -> bool:
        return not self.steps and not self.findings


class DeadlineEntry(Struct, frozen=True):
    """Cells that are submitted together. ``seconds``: predicted for their own steps; ``unknown``: the number of steps
    without a prediction; ``ends``: seconds from now if run in this order."""

    name: str
    cells: tuple[Cell, ...]
    seconds: float
    unknown: int
    ends: float


class MachineSchedule(Struct, frozen=True):
    """``fits``: entries in the order to run them; ``drops``: entries to leave out, the longest first. ``blocked``: why
    steps of an entry cannot run from here."""

    machine: str
    fits: tuple[DeadlineEntry, ...]
    drops: tuple[DeadlineEntry, ...]
    blocked: str = ""


# The schedule up to a deadline: which results fit the time left on each machine, and what to drop first.
#
# A machine executes one timed run at a time, so its results queue for it. The shortest come first, which completes the
# most results; of those that do not fit, the longest should be dropped first. In the closed division a benchmark counts
# only with all its scenarios, so its cells stay or go together.

_WHOLE = "closed"  # the division in which a benchmark needs all its scenarios


def schedule(plan: Plan, place: Callable[[Step], str], seconds: float) -> tuple[MachineSchedule, ...]:
    """Return the schedule of each machine. ``place``: returns the machine of a cell's step. ``seconds``: the time
    left."""
    steps = [step for step in plan.steps if step.change.how in ("make", "start", "restore")]
    machines = dict.fromkeys(place(step) for step in steps if step.change.address.cell is not None)
    return tuple(_schedule(steps, machine, place, seconds) for machine in machines)


def _schedule(steps: list[Step], machine: str, place: Callable[[Step], str], seconds: float) -> MachineSchedule:
    own = [step for step in steps if step.change.address.cell is not None and place(step) == machine]
    entries: dict[str, list[Cell]] = {}
    for step in own:
        for cell in _list_cells(step):
            cells = entries.setdefault(_name_entry(cell), [])
            if cell not in cells:
                cells.append(cell)
    needs = {
        name: [s for s in (*_list_shared(steps, cells), *own) if _serves(s, name)] for name, cells in entries.items()
    }
    fits, drops, at, done = [], [], 0.0, set[str]()
    for name in sorted(needs, key=lambda name: (_sum_seconds(needs[name]), name)):
        due = [step for step in needs[name] if step.change.key not in done]
        cost, unknown = _sum_seconds(due), sum(step.seconds is None for step in due)
        entry = DeadlineEntry(name, tuple(entries[name]), cost, unknown, at + cost)
        if entry.ends <= seconds:
            at = entry.ends
            done.update(step.change.key for step in due)
            fits.append(entry)
        else:
            drops.append(entry)
    blocked = next((step.blocked for step in own if step.blocked), "")
    return MachineSchedule(machine, tuple(fits), tuple(sorted(drops, key=lambda e: -e.seconds)), blocked)


def _name_entry(cell: Cell) -> str:
    whole = cell.division == _WHOLE
    return f"{cell.division}/{cell.system}/{cell.benchmark}" if whole else str(cell)


def _list_cells(step: Step) -> list[Cell]:
    return [cell for address in (step.change.address, *step.shared) if (cell := address.cell) is not None]


def _list_shared(steps: Iterable[Step], cells: Iterable[Cell]) -> list[Step]:
    """List the steps for datasets and models of these cells' benchmarks."""
    names = {cell.benchmark for cell in cells}
    return [step for step in steps if step.change.address.cell is None and step.change.address.name in names]


def _serves(step: Step, name: str) -> bool:
    return step.change.address.cell is None or any(_name_entry(cell) == name for cell in _list_cells(step))


def _sum_seconds(steps: Iterable[Step]) -> float:
    return sum(step.seconds or 0.0 for step in steps)
