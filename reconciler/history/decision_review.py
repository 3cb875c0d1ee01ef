"""Changes of a pull request to decisions, and to frozen cells: remarks for its reviewer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.diff.impact import CellEffect, Effect, Remark
from reconciler.history.snapshot import Snapshot
from reconciler.resource.decisions import AcceptanceStatus, Freeze, find_freeze
from reconciler.resource.wording import show_acceptance

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
