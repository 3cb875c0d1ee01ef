"""Checks the dates of records and decisions against other clocks: those of their logs, and those of their commits.

Two machines' clocks may differ, so a mismatch leaves a date unproven. A date is contradicted if the true order is known
from elsewhere and the clocks would have to differ by more than a time zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from reconciler.diff.claims import Claim, Proof
from reconciler.history.logs import Good, read_record_files
from reconciler.history.records import CLOCKS, TIME_ZONES, WHY, read_clock, read_time
from reconciler.history.snapshot import Snapshot
from reconciler.loadgen import keys
from reconciler.loadgen.log_files import DETAIL
from reconciler.resource.kinds import Cell
from reconciler.resource.records import IMPORTED, Record
from reconciler.storage.files import RECORDS
from reconciler.storage.git import Appearances, find_commit_times, find_early_commits

_LOGGED = rb'^:::MLLOG \{"key": "%b", "value": "(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d\.\d{3})"'
_SHORT = 60.0  # seconds: correcting a clock during a run does not make it another run
_TIME = "%m-%d-%Y %H:%M:%S.%f"
_WAITING = ("machine.job", "machine.nodes")  # facts of a run that a queue or a launcher made


def verify_start(cell: Cell, name: str, record: Record, logs: Good) -> Iterator[Claim]:
    """Verify that a run begins after its attempt and takes no longer than the attempt. The newest run counts, so
    someone might give an old one a new date. The time that a run waits in a queue is unknown."""
    began, ended = _read_span(record, logs) if IMPORTED not in record.marks else (None, None)
    clock, started = read_clock(record), read_time(record.started)
    if clock is not None and began is not None and not set(_WAITING) & set(record.facts) and began + TIME_ZONES < clock:
        detail = f"its log began at {began:%Y-%m-%d %H:%M:%S} UTC, before its attempt, {record.attempt}, on one machine"
        yield Claim(str(cell), f"{name}: when it began", Proof.CONTRADICTED, f"{detail}: {WHY}")
    if began is not None and started is not None and began + CLOCKS < started:
        detail = f"it is dated {record.started}, and its log began at {began:%Y-%m-%d %H:%M:%S} UTC: {WHY}"
        yield Claim(str(cell), f"{name}: when it was made", Proof.MISSING, detail)
    lasted = (ended - began).total_seconds() if began is not None and ended is not None else 0.0
    if lasted > record.seconds + _SHORT:
        detail = f"it took {record.seconds:g} s, but its log shows {lasted:.6g} s"
        yield Claim(str(cell), f"{name}: how long it took", Proof.MISSING, detail)


def verify_order(cell: Cell, name: str, passed_over: Record, published: Record, logs: Good) -> Iterator[Claim]:
    """Verify the order of two runs. The newest run counts, so someone might give a worse one an earlier date. Unless a
    queue or a launcher delays it, a run begins with its attempt, and its log ends within the attempt's duration."""
    if passed_over.started >= published.started or {IMPORTED, *_WAITING} & {*passed_over.marks, *passed_over.facts}:
        return
    (began, ended), (_, published_ended) = (_read_span(record, logs) for record in (passed_over, published))
    before = read_time(passed_over.started)
    if began is None or ended is None or before is None or published_ended is None or began < published_ended:
        return
    if (ended - before).total_seconds() > passed_over.seconds + _SHORT:
        detail = (
            f"it is dated {passed_over.started}, before the published run, and its log began at "
            f"{began:%Y-%m-%d %H:%M:%S} UTC, after that one had ended: {WHY}"
        )
        yield Claim(str(cell), f"{name}: when it was made", Proof.MISSING, detail)


def find_wrong_commits(root: Path, commits: str, appeared: Appearances) -> Iterator[Claim]:
    """Find commits dated before their parents. A commit contains its parents' digests, so it was made after them. The
    clocks of two labs may differ by a time zone. ``commits``: a range or a tip; only commits that added a record or a
    decision are judged."""
    brought = {commit.id for commit in appeared.values()}
    for commit, made, before in find_early_commits(root, commits):
        if commit in brought and made + CLOCKS < before:
            proof = Proof.CONTRADICTED if made + TIME_ZONES < before else Proof.MISSING
            detail = f"it is dated {made:%Y-%m-%dT%H:%M:%SZ}, and its parent {before:%Y-%m-%dT%H:%M:%SZ}: {WHY}"
            yield Claim("submission", f"commit {commit[:12]}: when it was made", proof, detail)


def find_wrong_dates(root: Path, at: Snapshot, appeared: Appearances) -> Iterator[Claim]:
    """Find records made after the commit that added them, and decisions made before the commit that they are about."""
    committed: dict[str, datetime] = {}
    for (path, _), commit in appeared.items():
        committed.setdefault(path, commit.committed)
    for cell in sorted(at.difference.chosen, key=str):
        counting = {i: at.committed.summaries[i] for i in at.difference.chosen[cell].all if i in at.committed.summaries}
        for identity, summary in sorted(counting.items()):
            path = f"{RECORDS}/{identity}.json"
            if summary.address.cell == cell and (detail := _explain_date(path, summary.started, committed)):
                yield Claim(str(cell), f"{summary.address.label}: when it was made", Proof.MISSING, detail)
    yield from _find_wrong_decisions(root, at, committed)


def _find_wrong_decisions(root: Path, at: Snapshot, committed: dict[str, datetime]) -> Iterator[Claim]:
    known = at.decisions.all
    # What each is based on; for an amendment, the submitted commit.
    bases = find_commit_times(root, [decision.commit for decision in known.values() if decision.commit])
    for path, decision in sorted(known.items()):
        made, base = read_time(decision.made), bases.get(decision.commit)
        detail = _explain_date(path, decision.made, committed)
        if not detail and made is not None and base is not None and made + CLOCKS < base:
            detail = (
                f"{path} is dated {decision.made}, before the commit it was made on ({decision.commit[:12]}): {WHY}"
            )
        if detail:
            where = str(decision.cell or "submission")
            yield Claim(where, f"{type(decision).__name__.lower()}: when it was decided", Proof.MISSING, detail)


def _explain_date(path: str, stated: str, committed: dict[str, datetime]) -> str:
    made, brought = read_time(stated), committed.get(path)
    if made is None or brought is None or made <= brought + CLOCKS:
        return ""
    return f"{path} is dated {stated}, but a commit of {brought:%Y-%m-%dT%H:%M:%SZ} added it: {WHY}"


def _read_span(record: Record, logs: Good) -> tuple[datetime | None, datetime | None]:
    """Read the begin and the end of a record's run from its log."""
    log = read_record_files(record, logs).get(DETAIL, b"")
    return _read_logged(keys.POWER_BEGIN, log), _read_logged(keys.POWER_END, log)


def _read_logged(key: str, log: bytes) -> datetime | None:
    """Return the first entry with that key, in UTC."""
    found = re.search(_LOGGED % key.encode(), log, re.MULTILINE)
    try:
        return datetime.strptime(found[1].decode(), _TIME).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None
