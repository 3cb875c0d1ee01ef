"""What records and decisions say of when they were made, against their logs and the commits that brought them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.history.dates import find_wrong_dates, verify_order, verify_start
from reconciler.loadgen.log_files import DETAIL
from reconciler.record.codec import summarize
from reconciler.resource.decisions import Freeze
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import IMPORTED, Artifact, Ended, Record, RecordedFact
from reconciler.storage.git_history import Commit
from tests.unit.cli.conftest import git

CELL = Cell("open", "box", "net", "Offline")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR, SECOND, MOMENT = timedelta(hours=1), timedelta(seconds=1), timedelta(milliseconds=1)
SHOWN = "2026-01-02 12:00:00"


def log(began: datetime | None, ended: datetime | None) -> bytes:
    """As LoadGen logs its begin and its end, by the clock of its machine."""
    keys = {"power_begin": began, "power_end": ended}
    lines = (f':::MLLOG {{"key": "{k}", "value": "{t:%m-%d-%Y %H:%M:%S}.{t:%f}' for k, t in keys.items() if t)
    return "".join(f'{line[:-3]}", "time_ms": 1.0}}\n' for line in lines).encode()


def run(started: datetime, seconds: float = 100.0, digest: str = "a", **more: Any) -> Record:
    artifacts = (Artifact(DETAIL, digest * 64, 1, "logs"),)
    address = Address(Kind.RUN, f"{CELL}/performance")
    return Record(address, "k" * 64, 1, Ended.DONE, started.isoformat(), seconds, "a", {}, artifacts=artifacts, **more)


def told(claims: Iterator[Claim]) -> list[tuple[str, str]]:
    """What each is about, and what is said of it."""
    found = list(claims)
    assert {(claim.where, claim.proof) for claim in found} <= {(str(CELL), Proof.MISSING)}
    return [(claim.what, claim.detail.partition(": a clock was wrong")[0]) for claim in found]


def started_later(by: timedelta) -> tuple[str, str]:
    return (
        "performance: when it was made",
        f"it is dated {(NOON + by).isoformat()}, and its log began at {SHOWN} UTC",
    )


@pytest.mark.parametrize(
    ("by", "lasted", "said"),
    [
        (-10 * HOUR, 100.0, []),  # a queue may keep it waiting
        (timedelta(), 160.0, []),
        (HOUR, 100.0, []),  # clocks may differ
        (HOUR + SECOND, 100.0, [started_later(HOUR + SECOND)]),
        (
            timedelta(),
            160.001,
            [("performance: how long it took", "it took 100 s, and its log says that it lasted 160.001 s")],
        ),
        (
            HOUR + SECOND,
            5000.0,
            [
                started_later(HOUR + SECOND),
                ("performance: how long it took", "it took 100 s, and its log says that it lasted 5000 s"),
            ],
        ),
    ],
)
def test_a_run_begins_after_its_attempt_and_takes_no_longer(
    by: timedelta, lasted: float, said: list[tuple[str, str]]
) -> None:
    logs = {"a" * 64: log(NOON, NOON + timedelta(seconds=lasted))}
    assert told(verify_start(CELL, "performance", run(NOON + by), logs)) == said
    assert told(verify_start(CELL, "performance", run(NOON + by, marks=(IMPORTED,)), logs)) == []


@pytest.mark.parametrize(
    ("began", "ended"), [(None, None), (None, NOON + HOUR), (NOON - 9 * HOUR, None)], ids=["none", "end", "begin"]
)
def test_a_log_without_its_times_says_nothing_of_how_long(began: datetime | None, ended: datetime | None) -> None:
    logs = {"a" * 64: log(began, ended)}
    found = told(verify_start(CELL, "performance", run(NOON), logs))
    assert [what for what, _ in found] == ["performance: when it was made"] * (began is not None)
    assert told(verify_start(CELL, "performance", run(NOON), {})) == []


@pytest.mark.parametrize("started", ["yesterday", "2026-13-02T12:00:00"])
def test_a_record_without_a_time_is_compared_with_none(started: str) -> None:
    record = replace(run(NOON), started=started)
    assert told(verify_start(CELL, "performance", record, {"a" * 64: log(NOON - 9 * HOUR, NOON - 9 * HOUR)})) == []


def test_a_log_with_a_day_that_there_is_not_has_no_time() -> None:
    data = log(NOON - 9 * HOUR, NOON).replace(b"01-02-2026", b"02-31-2026")
    assert told(verify_start(CELL, "performance", run(NOON), {"a" * 64: data})) == []


def order(
    stated: timedelta = -HOUR,
    began: timedelta = 2 * HOUR,
    seconds: float = 100.0,
    published: timedelta = timedelta(),
    facts: Mapping[str, RecordedFact] | None = None,
    marks: tuple[str, ...] = (),
) -> list[tuple[str, str]]:
    """Of a run that was passed over, from when it states, of which the log says another begin, and 50 s; the published
    run is from noon, and its log ends an hour later."""
    one = run(NOON + stated, seconds, "b", facts=facts or {}, marks=marks)
    logs = {
        "a" * 64: log(NOON + published, NOON + published + HOUR),
        "b" * 64: log(NOON + began, NOON + began + timedelta(seconds=50)),
    }
    return told(verify_order(CELL, "other run", one, run(NOON), logs))


def test_a_run_that_is_dated_before_the_published_one_did_not_begin_after_its_end() -> None:
    assert order() == [
        (
            "other run: when it was made",
            f"it is dated {(NOON - HOUR).isoformat()}, before the published run, and its log began at "
            "2026-01-02 14:00:00 UTC, after that one had ended",
        )
    ]
    assert order(began=HOUR)  # it begins as the other ends
    assert order(began=HOUR - MOMENT) == []  # before the published one had ended
    assert order(stated=timedelta()) == []  # it does not say that it is older
    assert order(seconds=3 * 3600 + 50 - 60 - 1)
    assert order(seconds=3 * 3600 + 50 - 60) == []  # it took as long as that


@pytest.mark.parametrize("lacking", ["begin", "end", "published end", "date"])
def test_where_a_time_is_missing_runs_have_no_order(lacking: str) -> None:
    one, other = run(NOON - HOUR, digest="b"), run(NOON)
    began, ended = NOON + 2 * HOUR, NOON + 3 * HOUR
    logs = {"a" * 64: log(NOON, NOON + HOUR), "b" * 64: log(began, ended)}
    assert told(verify_order(CELL, "other run", one, other, logs))
    match lacking:
        case "date":
            one = replace(one, started="2026-01-02, in the morning")
        case "published end":
            logs["a" * 64] = log(NOON, None)
        case _:
            logs["b" * 64] = log(None if lacking == "begin" else began, None if lacking == "end" else ended)
    assert told(verify_order(CELL, "other run", one, other, logs)) == []


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
    decisions = SimpleNamespace(acceptances={}, freezes=freezes or {}, amendments={})
    difference = SimpleNamespace(chosen=chosen)
    return SimpleNamespace(difference=difference, committed=SimpleNamespace(summaries=summaries), decisions=decisions)


def of_cell(record: Record, benchmark: str) -> Record:
    return replace(record, address=Address(Kind.RUN, f"open/box/{benchmark}/Offline/performance"))


@pytest.mark.parametrize(("later", "odd"), [(HOUR, False), (HOUR + SECOND, True), (-9 * HOUR, False)])
def test_a_record_was_made_before_the_commit_that_brought_it(tmp_path: Path, later: timedelta, odd: bool) -> None:
    """``later``: so long after that commit it says that it was made."""
    at = snapshot({"Run/1": run(NOON + later)})
    first = {("state/records/Run/1.json", "b1"): commit(NOON)}
    since = {("state/records/Run/1.json", "b2"): commit(NOON + 99 * HOUR)}  # the file came again
    found = told(find_wrong_dates(tmp_path, at, {**first, **since}))
    said = f"state/records/Run/1.json is dated {(NOON + later).isoformat()}, and a commit of 2026-01-02T12:00:00Z"
    assert found == ([("Run performance: when it was made", f"{said} brought it")] if odd else [])
    assert told(find_wrong_dates(tmp_path, at, {})) == []


def test_a_record_is_named_for_its_own_cell_alone(tmp_path: Path) -> None:
    """The run of one cell may count for another, whose result is inferred from it."""
    at = snapshot({"Run/1": run(NOON + 2 * HOUR)})
    at.difference.chosen[replace(CELL, scenario="MultiStream")] = Chosen(performance="Run/1", accuracy="Run/2")
    appeared = {("state/records/Run/1.json", "b"): commit(NOON)}
    assert [what for what, _ in told(find_wrong_dates(tmp_path, at, appeared))] == ["Run performance: when it was made"]


def test_a_record_without_a_time_is_held_against_no_commit(tmp_path: Path) -> None:
    at = snapshot({"Run/1": replace(run(NOON), started="tomorrow")})
    assert told(find_wrong_dates(tmp_path, at, {("state/records/Run/1.json", "b"): commit(NOON)})) == []


def test_wrong_dates_come_in_the_order_of_their_cells(tmp_path: Path) -> None:
    late = run(NOON + 2 * HOUR)
    at = snapshot({f"Run/{name}": of_cell(late, name) for name in ("net", "bert", "dlrm")})
    appeared = {(f"state/records/Run/{name}.json", "b"): commit(NOON) for name in ("bert", "dlrm", "net")}
    found = list(find_wrong_dates(tmp_path, at, appeared))
    assert [claim.where for claim in found] == [f"open/box/{name}/Offline" for name in ("bert", "dlrm", "net")]


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
    brought = f"and a commit of {made_at - 9 * HOUR:%Y-%m-%dT%H:%M:%SZ} brought it"
    for made in (made_at, early):  # the second is before both
        ((_, _, detail),) = find(made, made_at - 9 * HOUR)
        assert detail.endswith(brought)


def test_a_decision_without_a_time_is_passed_over_and_others_come_in_the_order_of_their_files(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "base")
    odd = Freeze(CELL, "the end", "Ada", NOON.isoformat(), None, git(tmp_path, "rev-parse", "HEAD"))
    unknown = replace(odd, made="some day")
    paths = [f"state/freezes/{name}.json" for name in ("2", "3", "1")]
    at = snapshot({}, dict(zip(paths, (odd, unknown, odd), strict=True)))
    found = find_wrong_dates(tmp_path, at, {(path, "b"): commit(NOON) for path in paths})
    assert [claim.detail.partition(" ")[0] for claim in found] == [paths[2], paths[0]]
