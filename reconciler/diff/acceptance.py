"""Recorded results that remain valid although their inputs differ, because a user accepted exactly that difference.
Pure.

Differences that the round's rules forbid are refused: other evidence within a cell, another machine, and values set by
the round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.diff.change import Change, Difference, InputChange, Reason, Work
from reconciler.diff.comparison import ComparisonState
from reconciler.resource.decisions import (
    Acceptance,
    AcceptanceStatus,
    AcceptedInput,
    AcceptedKey,
    Decisions,
    Freeze,
    KeyChange,
    find_freeze,
)
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Recorded
from reconciler.resource.resources import Resource

BUILT = (Kind.DATASET, Kind.MODEL, Kind.ENGINE)
# Reasons unrelated to inputs: missing or corrupt artifacts are restored, and forced runs are repeated.
_NO_DIFFERENCE = (Reason.ARTIFACT_MISSING, Reason.ARTIFACT_CORRUPT, Reason.FORCED)


class Refused(Struct, frozen=True):
    """Why a difference cannot be accepted, and what to do instead."""

    why: str
    fix: str = "run `reconcile` to create it again"


def drop_unneeded_builds(walk: ComparisonState) -> None:
    """Skip builds needed only by accepted results."""
    users: dict[Address, list[Address]] = {}
    for resource in walk.desired.resources:
        for up in resource.upstream:
            users.setdefault(up, []).append(resource.address)
    for resource in reversed(walk.desired.resources):
        address, instead = resource.address, walk.accepted.get(resource.address)
        if instead is None or resource.kind not in BUILT or address in walk.forced:
            continue
        due = (walk.changes[user].how is Work.MAKE for user in users.get(address, ()) if user in walk.changes)
        if address in walk.changes and not any(due):
            del walk.changes[address]
            if before := walk.recorded.list_done(instead.key.before):
                walk.used[address] = before[-1]


def judge_acceptance(acceptance: Acceptance, desired: Desired, recorded: Recorded, today: date) -> AcceptanceStatus:
    """Return the status of an acceptance. Any further change makes everything that it accepted stale again."""
    if today >= acceptance.until:
        return AcceptanceStatus.EXPIRED
    in_force = {item.address: item.key for item in acceptance.accepted}
    now = {address: desired.by_address[address].key for address in in_force if address in desired.by_address}
    if any(now.get(address) not in (key.before, key.after) for address, key in in_force.items()):
        return AcceptanceStatus.CHANGED
    measured = {address: key for address, key in in_force.items() if address.kind not in BUILT}
    if all(recorded.list_done(now[address]) for address in measured):
        return AcceptanceStatus.MEASURED  # also if the change was reverted
    if not all(recorded.list_done(key.after) or recorded.list_done(key.before) for key in measured.values()):
        return AcceptanceStatus.CHANGED
    return AcceptanceStatus.IN_FORCE


def judge_acceptances(
    decisions: Decisions, desired: Desired, recorded: Recorded
) -> tuple[tuple[str, Acceptance, AcceptanceStatus], ...]:
    """Return (path, acceptance, status) of each acceptance, sorted by path."""
    found = sorted(decisions.acceptances.items())
    return tuple((path, item, judge_acceptance(item, desired, recorded, decisions.today)) for path, item in found)


def list_accepted_keys(found: Iterable[tuple[str, Acceptance, AcceptanceStatus]]) -> dict[Address, AcceptedKey]:
    in_force = sorted((a for _, a, status in found if status is AcceptanceStatus.IN_FORCE), key=lambda item: item.made)
    return {key.address: key for acceptance in in_force for key in acceptance.accepted}


def spread(freezes: tuple[Freeze, ...], resources: Iterable[Resource]) -> tuple[Freeze, ...]:
    """Return the freezes, extended to each cell that publishes the runs of a frozen one."""
    own = tuple(freeze for freeze in freezes if freeze.cell is not None)
    also = []
    for resource in resources if own else ():
        if resource.kind is Kind.RESULT and find_freeze(resource.cell, freezes) is None:
            found = (find_freeze(up.cell, own) for up in resource.upstream)
            source = next((freeze for freeze in found if freeze is not None), None)
            also += [replace(source, cell=resource.cell)] if source else []
    return (*freezes, *also)


def propose_acceptance(
    cell: Cell,
    lineage: Iterable[Resource],
    difference: Difference,
    recorded: Recorded,
    explain: Callable[[Change], tuple[InputChange, ...]],
) -> tuple[tuple[AcceptedKey, ...], tuple[Refused, ...]]:
    """Return the keys that must be accepted for the cell to match its declaration, and the differences that cannot be
    accepted."""
    changes = {change.address: change for change in difference.changes if change.how is Work.MAKE}
    keys, refused = [], []
    for resource in lineage:
        change = changes.get(resource.address)
        if change is None or resource.kind in (Kind.RESULT, Kind.SUBMISSION) or change.reason in _NO_DIFFERENCE:
            continue
        if change.reason is Reason.EVIDENCE_DIFFERS:
            refused.append(Refused(f"{resource.address.label}: {change.note}; {_TOGETHER}"))
            continue
        key = _make_key(resource, change, recorded, explain)
        if key is not None:
            keys.append(key)
            refused += _find_forbidden(key)
        elif resource.kind not in BUILT:
            refused.append(Refused(f"{resource.address.label}: {_explain_no_record(change)}"))
    if not keys and not refused:
        refused += _refuse_unchanged(cell, difference)
    return tuple(keys), tuple(dict.fromkeys(refused))


_TOGETHER = "runs of one cell are published together only with the same engine, code and software"


def _make_key(
    resource: Resource, change: Change, recorded: Recorded, explain: Callable[[Change], tuple[InputChange, ...]]
) -> AcceptedKey | None:
    """Return the accepted key of a resource; None if no earlier record could replace it."""
    done = [s for s in recorded.by_address.get(resource.address, ()) if s.id == change.previous]
    if not done or done[-1].key == resource.key or not recorded.list_done(done[-1].key):
        return None
    own = (item for item in explain(change) if item.upstream is None)
    inputs = {i.name: AcceptedInput(i.before, i.after, str(i.origin)) for i in own}
    return AcceptedKey(resource.address, KeyChange(done[-1].key, resource.key), inputs)


def _explain_no_record(change: Change) -> str:
    if change.reason is Reason.PREVIOUS_ATTEMPT_FAILED:
        return f"its last attempt failed or is INVALID, which cannot be accepted ({change.note})"
    return "it has no record to accept"


def _find_forbidden(key: AcceptedKey) -> Iterator[Refused]:
    for name, item in key.inputs.items():
        what = f"{name} {item.before} → {item.after}"
        if name.startswith("hardware.") or name == "system.name":
            yield Refused(f"{what}: a result is valid only for the machine that it was measured on")
        elif item.origin.startswith("round "):
            yield Refused(f"{what}: {item.origin} sets it for every result")
        elif name == "rehearsal":
            yield Refused(f"{what}: a rehearsal's results always remain a rehearsal")


def _refuse_unchanged(cell: Cell, difference: Difference) -> Iterator[Refused]:
    findings = [f for f in difference.findings if f.where == str(cell)]
    if findings:
        yield Refused(f"{findings[0].message}: only changed inputs can be accepted, not findings", findings[0].fix)
    else:
        yield Refused("it matches the spec; nothing to accept", f"run: reconcile why {cell}")
