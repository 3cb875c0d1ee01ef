"""Consequences of merging: two commits of one repository compared, cell by cell. Pure; see ``snapshot`` for the
reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import BUILT
from reconciler.diff.change import Change, Difference, InputChange, Reason, Work
from reconciler.diff.explain import list_input_changes
from reconciler.diff.impact import CellEffect, Effect, Impact, Remark
from reconciler.history.snapshot import Snapshot
from reconciler.resource.decisions import AcceptanceStatus, Freeze, find_freeze
from reconciler.resource.kinds import Address, Cell, Kind, place_cell
from reconciler.resource.wording import show_acceptance

# Changes of a pull request to decisions, and to frozen cells: remarks for its reviewer.

_AGAIN = "restore it, or remove it and decide again"


def review_decisions(base: Snapshot, head: Snapshot, cells: Iterable[CellEffect]) -> tuple[Remark, ...]:
    """Both snapshots are of one repository; ``cells``: what merging does to each."""
    damaged = (
        Remark("error", path, 0, f"the decision is damaged: {why}", _AGAIN)
        for path, why in head.decisions.damaged.items()
    )
    return (*damaged, *_acceptances(base, head), *_freezes(base, head), *_frozen(base, head, cells))


def _acceptances(base: Snapshot, head: Snapshot) -> Iterator[Remark]:
    for path, item, status in head.difference.acceptances:
        text = f"{item.cell}: accepts {show_acceptance(item, status)}"
        if path not in base.decisions.acceptances:
            fix = "merge it only if the recorded results may count for these inputs"
            yield Remark("warning", path, 0, text, fix)
        elif status in (AcceptanceStatus.EXPIRED, AcceptanceStatus.CHANGED):
            yield Remark("notice", path, 0, text, "measure the cell, or accept again")
    for path, item in base.decisions.acceptances.items():
        if path not in head.decisions.acceptances and path not in head.decisions.damaged:
            yield Remark("notice", path, 0, f"{item.cell}: what was accepted is revoked")


def _freezes(base: Snapshot, head: Snapshot) -> Iterator[Remark]:
    for path, freeze in head.decisions.freezes.items():
        if path not in base.decisions.freezes:
            yield Remark("notice", path, 0, f"{_name(freeze)} is to be {freeze}")
    for path, freeze in base.decisions.freezes.items():
        if path not in head.decisions.freezes and freeze in base.decisions.frozen:
            fix = "merge it only if what was frozen may change again"
            yield Remark("warning", path, 0, f"{_name(freeze)} is to be unfrozen; it is {freeze}", fix)


def _name(freeze: Freeze) -> str:
    return str(freeze.cell or "the whole submission")


def _frozen(base: Snapshot, head: Snapshot, cells: Iterable[CellEffect]) -> Iterator[Remark]:
    """Cells that were frozen before merging, and that it changes: at the line that does."""
    for cell in cells:
        freeze = find_freeze(cell.cell, base.decisions.frozen)
        published = (at.difference.chosen.get(cell.cell) for at in (base, head))
        if freeze is None or cell.effect in (Effect.WAS_STALE, Effect.NEVER):
            continue
        if cell.effect is not Effect.UNAFFECTED:
            what = str(cell.effect)
        elif len(set(published)) > 1:
            what = "one with other published records"
        else:
            continue
        line = next((cause.origin for cause in cell.causes if cause.origin.line), None)
        fix = f"leave it as it is, or: reconcile unfreeze {freeze.cell or '--all'}"
        text = f"{cell.cell} is {freeze}; merging makes it {what}"
        yield Remark("warning", line.file if line else "", line.line if line else 0, text, fix)


Predict = Callable[[Address, Snapshot], float | None]


def compute_impact(
    base: Snapshot, head: Snapshot, predict: Predict, remarks: Iterable[Remark] = (), *, withheld: str = ""
) -> Impact:
    """Both snapshots are of one repository; ``predict`` gives seconds of a step, None when it is unknown.
    ``withheld``: why no measured figure may be in it, "" when all may."""
    before, after = _due(base.desired, base.difference), _due(head.desired, head.difference)
    head.records.fetch(change.previous for change in head.difference.changes)
    cells = [*after, *(cell for cell in before if cell not in after)]
    found = tuple(_cell(cell, before, after, head, base, predict) for cell in sorted(cells, key=place_cell))
    steps = {c.key: c for c in head.difference.changes if c.how is Work.MAKE}
    counts: dict[str, int] = {}
    times = []
    for change in steps.values():
        counts[change.address.label] = counts.get(change.address.label, 0) + 1
        times.append(predict(change.address, head))
    known = [t for t in times if t is not None]
    return Impact(
        base=base.commit,
        head=head.commit,
        cells=found,
        counts=counts,
        seconds=sum(known),
        unknown=len(times) - len(known),
        remarks=(*remarks, *review_decisions(base, head, found), *(() if withheld else _margins(head))),
        withheld=withheld,
    )


def _due(desired: Desired, difference: Difference) -> dict[Cell, list[Change]]:
    """Every declared cell, with the changes of its own and of what it is made from."""
    changes, accepted = {change.address: change for change in difference.changes}, difference.accepted
    order = {address: number for number, address in enumerate(changes)}
    found: dict[Cell, list[Change]] = {}
    for resource in desired.resources:
        if resource.cell is None or resource.kind is not Kind.RESULT:
            continue
        seen: set[Address] = set()
        ahead = [resource.address] if changes else []
        while ahead:
            address = ahead.pop()
            if address not in seen:
                seen.add(address)
                ahead += desired.by_address[address].upstream
        # Inputs of accepted results may be made again for others.
        spared = BUILT if resource.cell in accepted else ()
        due = sorted(seen & order.keys(), key=order.__getitem__)
        found[resource.cell] = [changes[address] for address in due if address.kind not in spared]
    return found


def _cell(
    cell: Cell,
    before: Mapping[Cell, list[Change]],
    after: Mapping[Cell, list[Change]],
    head: Snapshot,
    base: Snapshot,
    predict: Predict,
) -> CellEffect:
    if cell not in after:
        return CellEffect(cell, Effect.REMOVED)
    made = [change for change in after[cell] if change.how is Work.MAKE]
    due = tuple(dict.fromkeys(change.address.label for change in made))
    times = [predict(change.address, head) for change in made]
    seconds = None if any(t is None for t in times) else sum(t for t in times if t is not None)
    causes = tuple(cause for change in made for cause in _causes(change, head, base))
    effect = _effect(cell, before, made, head, base)
    return CellEffect(cell, effect, due, causes, seconds if made else 0.0)


def _effect(
    cell: Cell, before: Mapping[Cell, list[Change]], made: list[Change], head: Snapshot, base: Snapshot
) -> Effect:
    if cell not in before:
        return Effect.ADDED
    was = {change.key for change in before[cell] if change.how is Work.MAKE}
    accepted = head.difference.accepted.get(cell)
    if not made and accepted is not None and accepted != base.difference.accepted.get(cell):
        return Effect.ACCEPTED
    if made and {change.key for change in made} <= was:
        return Effect.NEVER if all(change.reason is Reason.NOT_RECORDED for change in made) else Effect.WAS_STALE
    if made:
        return Effect.STALE
    if was:
        return Effect.SETTLED
    result = Address(Kind.RESULT, str(cell))
    same = base.desired.by_address[result].key == head.desired.by_address[result].key
    return Effect.UNAFFECTED if same else Effect.RENDERED


def _causes(change: Change, head: Snapshot, base: Snapshot) -> list[InputChange]:
    """Own inputs that differ from the record, and from the base: what this pull request itself changed comes first."""
    record = head.records.get(change.previous)
    if record is None:
        return []
    own = list_input_changes(head.desired.detail(change.address).inputs, record.inputs)
    if change.address not in base.desired.by_address:
        return [item for item in own if item.upstream is None]
    then = {item.name: item.value for item in base.desired.detail(change.address).inputs}
    return sorted((i for i in own if i.upstream is None), key=lambda item: then.get(item.name) == item.after)


def _margins(head: Snapshot) -> list[Remark]:
    """Published runs that met a constraint only just: the next run may not."""
    fix = "lower the target a little, or expect a repeat"
    return [
        Remark("warning", "", 0, f"{cell}: {text}", fix)
        for cell, chosen in head.difference.chosen.items()
        for text in head.committed.thin.get(chosen.performance, ())
    ]
