"""What records and decisions say of when they were made, against their logs and the commits that brought them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.history.dates import find_wrong_dates, verify_order, verify_start
from reconciler.loadgen.log_files import DETAIL
from reconciler.record.codec import summarize
from reconciler.resource.decisions import Decisions, Freeze
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import IMPORTED, Artifact, Ended, Record, RecordedFact
from reconciler.storage.git import Commit
from tests.unit.cli.conftest import git

CELL = Cell("open", "box", "net", "Offline")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR, SECOND, MOMENT = timedelta(hours=1), timedelta(seconds=1), timedelta(milliseconds=1)
WHEN, LONG = "performance: when it was made", "performance: how long it took"


def log(began: datetime | None, ended: datetime | None) -> bytes:
    """As LoadGen logs its begin and its end, by the clock of its machine."""
    keys = {"power_begin": began, "power_end": ended}
    lines = (f':::MLLOG {{"key": "{k}", "value": "{t:%m-%d-%Y %H:%M:%S}.{t:%f}' for k, t in keys.items() if t)
    return "".join(f'{line[:-3]}", "time_ms": 1.0}}\n' for line in lines).encode()


def run(started: datetime, seconds: float = 100.0, digest: str = "a", **more: Any) -> Record:
    artifacts = (Artifact(DETAIL, digest * 64, 1, "logs"),)
    address = Address(Kind.RUN, f"{CELL}/performance")
    return Record(address, "k" * 64, 1, Ended.DONE, started.isoformat(), seconds, "a", {}, artifacts=artifacts, **more)


def reported(claims: Iterator[Claim]) -> list[str]:
    """What each is about."""
    found = list(claims)
    assert {(claim.where, claim.proof) for claim in found} <= {(str(CELL), Proof.MISSING)}
    return [claim.what for claim in found]


@pytest.mark.parametrize(
    ("by", "lasted", "said"),
    [
        (-10 * HOUR, 100.0, []),  # a queue may keep it waiting
        (timedelta(), 160.0, []),
        (HOUR, 100.0, []),  # clocks may differ
        (HOUR + SECOND, 100.0, [WHEN]),
        (timedelta(), 160.001, [LONG]),
        (HOUR + SECOND, 5000.0, [WHEN, LONG]),
    ],
)
def test_a_run_begins_after_its_attempt_and_takes_no_longer(by: timedelta, lasted: float, said: list[str]) -> None:
    logs = {"a" * 64: log(NOON, NOON + timedelta(seconds=lasted))}
    assert reported(verify_start(CELL, "performance", run(NOON + by), logs)) == said
    assert reported(verify_start(CELL, "performance", run(NOON + by, marks=(IMPORTED,)), logs)) == []


def test_a_log_with_a_day_that_there_is_not_has_no_time() -> None:
    data = log(NOON - 9 * HOUR, NOON).replace(b"01-02-2026", b"02-31-2026")
    assert reported(verify_start(CELL, "performance", run(NOON), {"a" * 64: data})) == []


def order(
    stated: timedelta = -HOUR,
    began: timedelta = 2 * HOUR,
    seconds: float = 100.0,
    published: timedelta = timedelta(),
    facts: Mapping[str, RecordedFact] | None = None,
    marks: tuple[str, ...] = (),
) -> list[str]:
    """Of a run that was passed over, from when it states, of which the log says another begin, and 50 s; the published
    run is from noon, and its log ends an hour later."""
    one = run(NOON + stated, seconds, "b", facts=facts or {}, marks=marks)
    logs = {
        "a" * 64: log(NOON + published, NOON + published + HOUR),
        "b" * 64: log(NOON + began, NOON + began + timedelta(seconds=50)),
    }
    return reported(verify_order(CELL, "other run", one, run(NOON), logs))


def test_a_run_that_is_dated_before_the_published_one_did_not_begin_after_its_end() -> None:
    assert order() == ["other run: when it was made"]
    assert order(began=HOUR)  # it begins as the other ends
    assert order(began=HOUR - MOMENT) == []  # before the published one had ended
    assert order(stated=timedelta()) == []  # it does not say that it is older
    assert order(seconds=3 * 3600 + 50 - 60 - 1)
    assert order(seconds=3 * 3600 + 50 - 60) == []  # it took as long as that


@pytest.mark.parametrize("fact", ["machine.job", "machine.nodes"])
def test_a_run_that_had_to_wait_may_begin_late(fact: str) -> None:
    assert order(facts={fact: RecordedFact("7", Role.NOTE)}) == []
    assert order(facts={"machine.host": RecordedFact("7", Role.NOTE)})
    assert order(marks=(IMPORTED,)) == []
    assert order(marks=("trial",))


def commit(at: datetime) -> Commit:
    return Commit("c" * 40, "Ada", at - 9 * HOUR, at, "subject")


def snapshot(records: Mapping[str, Record], freezes: Mapping[str, Freeze] | None = None) -> Any:
    """A commit in which these records count, each for its cell, in this order."""
    summaries = {identity: summarize(record, identity) for identity, record in records.items()}
    chosen = {cast(Cell, record.address.cell): Chosen(performance=i) for i, record in records.items()}
    decisions = Decisions({}, freezes or {}, {}, date.min)
    difference = SimpleNamespace(chosen=chosen)
    return SimpleNamespace(difference=difference, committed=SimpleNamespace(summaries=summaries), decisions=decisions)


@pytest.mark.parametrize(("later", "odd"), [(HOUR, False), (HOUR + SECOND, True), (-9 * HOUR, False)])
def test_a_record_was_made_before_the_commit_that_brought_it(tmp_path: Path, later: timedelta, odd: bool) -> None:
    """``later``: so long after that commit it says that it was made."""
    at = snapshot({"Run/1": run(NOON + later)})
    first = {("state/records/Run/1.json", "b1"): commit(NOON)}
    since = {("state/records/Run/1.json", "b2"): commit(NOON + 99 * HOUR)}  # the file came again
    found = reported(find_wrong_dates(tmp_path, at, {**first, **since}))
    assert found == (["Run performance: when it was made"] if odd else [])
    assert reported(find_wrong_dates(tmp_path, at, {})) == []


def test_a_decision_was_made_after_the_commit_that_it_names_and_before_the_one_that_brought_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "base")
    base = git(tmp_path, "rev-parse", "HEAD")
    made_at = datetime.fromtimestamp(int(git(tmp_path, "show", "--no-patch", "--format=%ct")), UTC)

    def find(made: datetime, brought: datetime, of: str = base, cell: Cell | None = CELL) -> list[tuple[str, str, str]]:
        freeze = Freeze(cell, "the end", "Ada", made.isoformat(), date(2027, 1, 1), of)
        at = snapshot({}, {"state/freezes/1.json": freeze})
        found = find_wrong_dates(tmp_path, at, {("state/freezes/1.json", "b"): commit(brought)})
        return [(claim.where, claim.what, claim.detail.partition(": a clock")[0]) for claim in found]

    what = "freeze: when it was decided"
    assert find(made_at, made_at) == []
    assert find(made_at - HOUR, made_at) == []
    early = made_at - HOUR - SECOND
    said = f"state/freezes/1.json is dated {early.isoformat()}, before the commit it was made on ({base[:12]})"
    assert find(early, made_at) == [(str(CELL), what, said)]
    assert find(early, made_at, cell=None) == [("submission", what, said)]
    assert find(early, made_at, of="") == []  # it names none
    assert find(early, made_at, of="0" * 40) == []  # that commit is not here
    brought = f"commit of {made_at - 9 * HOUR:%Y-%m-%dT%H:%M:%SZ}"
    for made in (made_at, early):  # the second is before both
        ((_, _, detail),) = find(made, made_at - 9 * HOUR)
        assert brought in detail
