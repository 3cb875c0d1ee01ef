"""Find runs that several records claim: every run writes its own detail log, so identical ones are of one run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from reconciler.desired.state import Desired
from reconciler.loadgen.log_files import DETAIL
from reconciler.resource.kinds import Address, Cell, Kind, strip_variant
from reconciler.resource.records import IMPORTED, Ended, Judgement, LogFinding, Recorded, Summary


def add_copies(judgements: Mapping[str, Judgement], desired: Desired, recorded: Recorded) -> Mapping[str, Judgement]:
    """Add a finding to each record whose run another record claims, too. Of two attempts the earlier is the original;
    of two imports either may be."""
    found = dict(judgements)
    for earlier, later in find_claimed_twice(desired, (s for group in recorded.by_key.values() for s in group)):
        for copy, original in ((later, earlier), (earlier, later)):
            if copy.started >= original.started:
                item = LogFinding("run.copied", describe_copy(original), DETAIL)
                known = found.get(copy.id, Judgement())
                found[copy.id] = replace(known, findings=(*known.findings, item))
    return found


def describe_copy(original: Summary) -> str:
    return f"it is identical to the log of {original.address} of {original.started} (state/records/{original.id}.json)"


def find_claimed_twice(desired: Desired, summaries: Iterable[Summary]) -> Iterator[tuple[Summary, Summary]]:
    """Yield each record with the first one that claims its run: one of another attempt at the same cell, or of a cell
    that may not share it. A run of this repository may be imported into it again."""
    groups: dict[str, dict[str, Summary]] = {}
    for summary in summaries:
        for artifact in summary.artifacts:
            if artifact.name == DETAIL and artifact.size and summary.address.kind in (Kind.RUN, Kind.COMPLIANCE_TEST):
                groups.setdefault(artifact.sha256, {})[summary.id] = summary
    for group in groups.values():
        if len(group) == 1:
            continue
        ordered = sorted(group.values(), key=lambda summary: (summary.started, summary.id))
        for number, later in enumerate(ordered):
            if first := next((s for s in ordered[:number] if _are_two_runs(desired, s, later)), None):
                yield first, later


def _are_two_runs(desired: Desired, one: Summary, other: Summary) -> bool:
    imported = any(IMPORTED in summary.marks for summary in (one, other))
    if imported and Ended.FAILED in (one.ended, other.ended):
        return False  # a run that did not fit its cell may be imported for the right one
    if one.address.cell != other.address.cell:
        return not may_share(desired, one.address.cell, other.address.cell)
    return one.started != other.started and not imported


def may_share(desired: Desired, one: Cell | None, other: Cell | None) -> bool:
    """Return True if one run may count for both cells: of one machine, and of variants of one benchmark."""
    if one is None or other is None or not _are_one_machine(desired, one.system, other.system):
        return one == other
    if strip_variant(one.benchmark) == strip_variant(other.benchmark):
        return True
    official, theirs = _find_official(desired, one), _find_official(desired, other)
    return official != theirs and strip_variant(official) == strip_variant(theirs)


def _are_one_machine(desired: Desired, one: str, other: str) -> bool:
    """Return True for one system, or one machine that is declared for each category."""
    if one == other:
        return True
    systems = desired.submission.systems
    if one not in systems or other not in systems:
        return False
    first, second = systems[one], systems[other]
    return bool(first.description) and (first.description == second.description) and first.category != second.category


def _find_official(desired: Desired, cell: Cell) -> str:
    """Return the official benchmark that a cell's spec declares."""
    result = desired.by_address.get(Address(Kind.RESULT, str(cell)))
    return desired.detail(result.address).settings.official or cell.benchmark if result else ""
