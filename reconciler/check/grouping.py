"""Findings grouped by what most likely happened: a cause, a submitter, and the cells that share it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reconciler.check.causes import Cause, find_cause, rank_cause
from reconciler.resource.rules import Severity
from reconciler.rules.benchmark_facts import strip_variant
from reconciler.tree.findings import Facts, TreeFinding

_SEVERITIES = tuple(Severity)


class FoldedCell(Struct, frozen=True):
    """Cells whose findings are one and the same: accuracy variants of a benchmark, and one set of logs that is
    published under several systems' names. ``shown``: llama2-70b-{99,99.9} for the former, = for the latter."""

    shown: str
    cells: tuple[str, ...]


class CauseGroup(Struct, frozen=True):
    """``findings`` in their order; ``severity`` is the worst among them."""

    cause: Cause
    submitter: str
    findings: tuple[TreeFinding, ...]
    cells: tuple[FoldedCell, ...]

    @property
    def title(self) -> str:
        """Title of the cause; for findings that are no accusation, a question."""
        asked = self.severity is not Severity.NOTE or self.cause.title.endswith("?")
        return self.cause.title if asked else f"is it so that {self.cause.title}?"

    @property
    def severity(self) -> Severity:
        return min((finding.severity for finding in self.findings), key=_SEVERITIES.index)


def group_by_cause(findings: Iterable[TreeFinding], facts: Sequence[Facts]) -> tuple[CauseGroup, ...]:
    """By severity, then the cause's consequence, then how many cells share it. Errors and questions stay apart."""
    grouped: dict[tuple[str, bool, str], list[TreeFinding]] = {}
    for finding in findings:
        note = finding.severity is Severity.NOTE
        grouped.setdefault((find_cause(finding).id, note, finding.submitter), []).append(finding)
    logs = _read_log_digests(facts)
    groups = [
        CauseGroup(find_cause(members[0]), submitter, tuple(members), _fold(submitter, members, logs))
        for (_, _, submitter), members in grouped.items()
    ]
    return tuple(sorted(groups, key=_order))


def _fold(
    submitter: str, findings: Sequence[TreeFinding], logs: Mapping[tuple[str, str], str]
) -> tuple[FoldedCell, ...]:
    return fold_cells(submitter, (finding.cell for finding in findings), logs)


def _order(group: CauseGroup) -> tuple[int, int, str, int, str]:
    note = group.severity is Severity.NOTE
    return int(note), rank_cause(group.cause), group.cause.id, -len(group.cells), group.submitter.lower()


def fold_cells(submitter: str, cells: Iterable[str], logs: Mapping[tuple[str, str], str]) -> tuple[FoldedCell, ...]:
    """``logs``: (submitter, cell) → digest of its performance log. Sorted by what is shown."""
    twins: dict[tuple[str, ...], list[str]] = {}
    for cell in sorted(set(cells)):
        parts = cell.split("/")
        family = strip_variant(parts[2]) if len(parts) > 2 else ""
        twins.setdefault((*parts[:2], family, *parts[3:]), []).append(cell)
    renamed: dict[str, list[list[str]]] = {}
    for members in twins.values():
        digest = logs.get((submitter, members[0]), "")
        renamed.setdefault(digest or f"cell {members[0]}", []).append(members)
    folded = [
        FoldedCell(" = ".join(map(_show_twins, groups)), tuple(cell for members in groups for cell in members))
        for groups in renamed.values()
    ]
    return tuple(sorted(folded, key=lambda item: item.shown))


def _show_twins(cells: Sequence[str]) -> str:
    """closed/sys/bert-{99,99.9}/Offline of two cells that differ in their accuracy variant alone."""
    if len(cells) == 1:
        return cells[0]
    parts = cells[0].split("/")
    family = strip_variant(parts[2])
    variants = [cell.split("/")[2].removeprefix(family).removeprefix("-") for cell in cells]
    return "/".join([*parts[:2], f"{family}-{{{','.join(sorted(variants))}}}", *parts[3:]])


def _read_log_digests(facts: Sequence[Facts]) -> dict[tuple[str, str], str]:
    return {(item.submitter, item.cell): dict(item.digests).get("performance", "") for item in facts}
