"""Find runs that several records claim. Every run writes its own detail log, so identical logs are of one run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

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
                where = f"{original.address} of {original.started} (state/records/{original.id}.json)"
                item = LogFinding("run.copied", f"it is identical to the log of {where}", DETAIL)
                known = found.get(copy.id, Judgement())
                found[copy.id] = replace(known, findings=(*known.findings, item))
    return found


def find_claimed_twice(desired: Desired, summaries: Iterable[Summary]) -> Iterator[tuple[Summary, Summary]]:
    """Yield each record whose run an earlier record claims, together with the first such record. The earlier record is
    of another attempt, or of an import that is for another cell or ended before this one began. Importing a run into
    the repository that made it is allowed."""
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
    """``one``: the earlier record."""
    same_cell = one.address.cell == other.address.cell
    if IMPORTED not in other.marks and (IMPORTED not in one.marks or same_cell):
        return not same_cell or _ended_before(one, other)
    # A run that did not fit its cell may be imported for the right one.
    failed = Ended.FAILED in (one.ended, other.ended)
    return not failed and not may_share(desired, one.address.cell, other.address.cell)


def _ended_before(one: Summary, other: Summary) -> bool:
    """An attempt that was judged again keeps its start, and the log of an imported run has its own."""
    if IMPORTED not in one.marks:
        return one.started != other.started
    try:
        ended = datetime.fromisoformat(one.started) + timedelta(seconds=one.seconds)
        return ended < datetime.fromisoformat(other.started)
    except (ValueError, TypeError, OverflowError):  # a log without a date, or an edited record
        return False


def may_share(desired: Desired, one: Cell | None, other: Cell | None) -> bool:
    """Return True if one run may count for both cells: they must be on one machine and be variants of one benchmark."""
    if one is None or other is None or not _are_one_machine(desired, one.system, other.system):
        return one == other
    if strip_variant(one.benchmark) == strip_variant(other.benchmark):
        return True
    official, theirs = _find_official(desired, one), _find_official(desired, other)
    return official != theirs and strip_variant(official) == strip_variant(theirs)


def _are_one_machine(desired: Desired, one: str, other: str) -> bool:
    """Return True for one system, or for one machine that is declared as several systems, one per category."""
    if one == other:
        return True
    systems = desired.submission.systems
    if one not in systems or other not in systems:
        return False
    first, second = systems[one], systems[other]
    return bool(first.description) and first.description == second.description and first.category != second.category


def _find_official(desired: Desired, cell: Cell) -> str:
    """Return the official benchmark that a cell's spec declares."""
    result = desired.by_address.get(Address(Kind.RESULT, str(cell)))
    return desired.detail(result.address).settings.official or cell.benchmark if result else ""
