"""Resources that are no longer declared and may be deleted. Pure.

Built files are deleted first, since they can be built again. Records of measurements are deleted only on request, and
logs never. Everything upstream of a kept record is kept as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from reconciler.desired.state import Desired
from reconciler.diff.acceptance import BUILT
from reconciler.resource.decisions import Decisions, find_freeze
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.records import CHILD_LOG, Artifact, Recorded, Summary


class Prunable(Struct, frozen=True):
    """``files``: built artifacts in the object store that no declared resource could use, each with its record.
    ``cells``: rendered but not declared. ``all_…``: the totals."""

    records: tuple[Summary, ...]
    files: tuple[tuple[Summary, Artifact], ...]
    cells: tuple[str, ...]
    all_records: int
    all_files: int
    all_cells: int

    @property
    def empty(self) -> bool:
        return not (self.records or self.files or self.cells)

    def list_shares(self) -> tuple[tuple[str, int, int], ...]:
        """Return (noun, number to delete, total) for records, stored files and rendered cells."""
        return (
            ("record", len(self.records), self.all_records),
            ("stored file", len(self.files), self.all_files),
            ("rendered cell", len(self.cells), self.all_cells),
        )


def list_prunable(
    declared: Sequence[Desired],
    recorded: Recorded,
    decisions: Decisions,
    rendered: frozenset[str],
    stored: frozenset[str],
    *,
    measured: bool,
) -> Prunable:
    """``declared``: what all specs together declare, then what each spec declares that applies only when it is named.
    ``rendered``: cells in the tree; ``stored``: digests in the object store. ``measured``: also delete records of runs,
    scores and tests."""
    every = {s.id: s for group in recorded.by_key.values() for s in group}
    resources = [resource for desired in declared for resource in desired.resources]
    keys = {resource.key for resource in resources}
    keys |= {item.key.before for acceptance in decisions.acceptances.values() for item in acceptance.accepted}
    wanted = {s.id for s in every.values() if s.key in keys or _is_wanted(s, declared, decisions)}
    used = {a.sha256 for identity in _add_upstream(wanted, every) for a in every[identity].artifacts}
    files = {
        a.sha256: (s, a)
        for s in every.values()
        for a in s.artifacts
        if s.address.kind in BUILT and a.sha256 in stored and a.name != CHILD_LOG
    }
    gone = {sha256: item for sha256, item in files.items() if sha256 not in used}
    kept = {s.id for s in every.values() if s.id in wanted or not (measured or s.address.kind in BUILT)}
    kept = _add_upstream(kept, every)
    names = {str(r.cell) for r in resources if r.kind is Kind.RESULT}
    return Prunable(
        records=tuple(s for s in every.values() if s.id not in kept),
        files=tuple(sorted(gone.values(), key=lambda item: (item[0].address, item[1].name))),
        cells=tuple(sorted(c for c in rendered if c not in names and not find_freeze(Cell.parse(c), decisions.frozen))),
        all_records=len(every),
        all_files=len(files),
        all_cells=len(rendered),
    )


def _is_wanted(summary: Summary, declared: Sequence[Desired], decisions: Decisions) -> bool:
    """Return True if a declared resource has its address, or a freeze covers it."""
    addresses = (summary.address, *summary.shared)
    if any(address in desired.by_address for desired in declared for address in addresses):
        return True
    return any(address.cell and find_freeze(address.cell, decisions.frozen) for address in addresses)


def _add_upstream(identities: set[str], every: dict[str, Summary]) -> set[str]:
    """Return these records and everything upstream of them."""
    found, queue = set(identities), list(identities)
    while queue:
        for _, up in every[queue.pop()].upstream:
            if up in every and up not in found:
                found.add(up)
                queue.append(up)
    return found
