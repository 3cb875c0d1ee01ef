"""When runs and decisions say that they were made, against their logs and their commits: an hour may lie between."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.diff.change import Chosen
from reconciler.diff.claims import Claim, Proof
from reconciler.git_history import Commit
from reconciler.history.dates import find_wrong_dates, verify_order, verify_start
from reconciler.mlperf.log_files import DETAIL
from reconciler.resource.decisions import Freeze
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import IMPORTED, Artifact, Ended, Record, RecordedFact
from tests.unit.cli.conftest import git

CELL = Cell("open", "box", "net", "Offline")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WHY = "a clock was wrong, or it was dated anew"
QUEUED, LAUNCHED = ({name: RecordedFact("7", Role.NOTE)} for name in ("machine.job", "machine.nodes"))


def run(started: str, seconds: float = 600.0, log: str = "log", cell: Cell = CELL, **as_if: Any) -> Record:
    """A performance run of so many seconds, on 1 March."""
    artifacts = (Artifact(DETAIL, log, 1, "logs"),)
    at = f"2026-03-01T{started}Z"
    return Record(
        Address(Kind.RUN, f"{cell}/performance"), "k", 1, Ended.DONE, at, seconds, "", {}, artifacts=artifacts, **as_if
    )


def log(began: str | None, ended: str | None) -> bytes:
    told = {"power_begin": began, "power_end": ended}
    lines = (
        f':::MLLOG {{"key": "{key}", "value": "03-01-2026 {at}.000"}}\n' for key, at in told.items() if at is not None
    )
    return "".join(["first line\n", *lines]).encode()


@pytest.mark.parametrize(
    ("record", "began", "ended", "said"),
    [
        pytest.param(run("12:00:00"), "12:00:10", "12:10:00", (), id="within its attempt"),
        pytest.param(run("12:00:00"), "11:00:00", "11:10:00", (), id="an hour before"),
        pytest.param(run("12:00:00"), "10:59:59", "11:09:00", ("when",), id="more than an hour before"),
        pytest.param(run("12:00:00"), "15:00:00", "15:10:00", (), id="long after, as in a queue"),
        pytest.param(run("12:00:00"), "12:00:00", "12:11:00", (), id="a minute longer"),
        pytest.param(run("12:00:00"), "12:00:00", "12:11:01", ("how",), id="more than a minute longer"),
        pytest.param(run("12:00:00"), "10:00:00", "11:00:00", ("when", "how"), id="both"),
        pytest.param(run("12:00:00"), None, "12:11:01", (), id="no begin"),
        pytest.param(run("12:00:00"), "10:00:00", None, ("when",), id="no end"),
        pytest.param(run("25:00:00"), "10:00:00", "10:10:00", (), id="no time"),
        pytest.param(run("12:00:00", marks=(IMPORTED,)), "10:00:00", "11:00:00", (), id="imported"),
    ],
)
def test_run_begins_after_its_attempt_and_takes_no_longer(
    record: Record, began: str | None, ended: str | None, said: tuple[str, ...]
) -> None:
    found = {
        claim.what: (claim.where, claim.proof) for claim in verify_start(CELL, "r", record, {"log": log(began, ended)})
    }
    names = {"when": "r: when it was made", "how": "r: how long it took"}
    assert found == {names[word]: (str(CELL), Proof.MISSING) for word in said}


def test_run_that_does_not_fit_its_log_is_told_with_both_times() -> None:
    logs = {"log": log("10:00:00", "11:00:00")}
    assert [claim.detail for claim in verify_start(CELL, "run", run("12:00:00"), logs)] == [
        f"it is dated 2026-03-01T12:00:00Z, and its log began at 2026-03-01 10:00:00 UTC: {WHY}",
        "it took 600 s, and its log says that it lasted 3600 s",
    ]
    assert not list(verify_start(CELL, "run", run("12:00:00"), {}))


@pytest.mark.parametrize(
    ("passed_over", "times", "denied"),
    [
        pytest.param(run("12:00:00", log="own"), ("14:00:00", "14:10:00"), True, id="made after the published one"),
        pytest.param(run("12:00:00", log="own"), ("13:10:00", "13:20:00"), True, id="as that one ended"),
        pytest.param(run("12:00:00", log="own"), ("13:09:59", "13:20:00"), False, id="before that one had ended"),
        pytest.param(run("12:00:00", 7740, log="own"), ("14:00:00", "14:10:00"), False, id="in an attempt so long"),
        pytest.param(run("12:00:00", 7739, log="own"), ("14:00:00", "14:10:00"), True, id="in one too short"),
        pytest.param(run("13:00:00", log="own"), ("14:00:00", "15:10:00"), False, id="dated at the same time"),
        pytest.param(run("12:59:59", log="own"), ("14:00:00", "15:10:00"), True, id="dated just before"),
        pytest.param(run("12:00:00", log="own", facts=QUEUED), ("14:00:00", "14:10:00"), False, id="queued"),
        pytest.param(run("12:00:00", log="own", facts=LAUNCHED), ("14:00:00", "14:10:00"), False, id="launched"),
        pytest.param(run("12:00:0x", log="own"), ("14:00:00", "14:10:00"), False, id="no time"),
        pytest.param(run("12:00:00", log="own", marks=(IMPORTED,)), ("14:00:00", "14:10:00"), False, id="imported"),
        pytest.param(run("12:00:00", log="own"), (None, "14:10:00"), False, id="no begin"),
        pytest.param(run("12:00:00", log="own"), ("14:00:00", None), False, id="no end"),
        pytest.param(run("12:00:00", log="none"), ("14:00:00", "14:10:00"), False, id="no log"),
    ],
)
def test_run_that_was_passed_over_was_made_before_the_published_one(
    passed_over: Record, times: tuple[str | None, str | None], denied: bool
) -> None:
    logs = {"own": log(*times), "log": log("13:00:00", "13:10:00")}
    found = list(verify_order(CELL, "run", passed_over, run("13:00:00"), logs))
    detail = (
        f"it is dated {passed_over.started}, before the published run, and its log began at "
        f"2026-03-01 {times[0]} UTC, after that one had ended: {WHY}"
    )
    assert found == ([Claim(str(CELL), "run: when it was made", Proof.MISSING, detail)] if denied else [])


def test_order_is_not_judged_without_the_log_of_the_published_run() -> None:
    logs = {"own": log("14:00:00", "14:10:00")}
    assert not list(verify_order(CELL, "run", run("12:00:00", log="own"), run("13:00:00"), logs))


def find(root: Path, runs: dict[str, Record], decisions: dict[str, Freeze]) -> list[Claim]:
    """``runs``: by their ids, each chosen by its cell; brought at noon, and edited the day after."""
    chosen = {record.address.cell: Chosen(performance=identity) for identity, record in runs.items()}
    chosen[Cell("open", "box", "other", "Offline")] = Chosen(performance=next(iter(runs), ""))  # made for another cell
    at: Any = SimpleNamespace(
        difference=SimpleNamespace(chosen=chosen),
        committed=SimpleNamespace(summaries=runs),
        decisions=SimpleNamespace(acceptances={}, freezes=decisions, amendments={}),
    )
    paths = [*(f"state/records/{identity}.json" for identity in runs), *decisions]
    commits = [Commit("c", "Ann", NOON, when, "") for when in (NOON, NOON + timedelta(days=1))]
    appeared = {(path, str(blob)): commit for path in paths for blob, commit in enumerate(commits)}
    return list(find_wrong_dates(root, at, appeared))


def test_runs_are_made_before_the_commit_that_first_brings_them(tmp_path: Path) -> None:
    cells = [Cell("open", "box", name, "Offline") for name in ("net", "late", "bad")]
    times = ["13:00:00", "13:00:01", "25:00:00"]
    runs = {f"Run/{c.benchmark}": run(at, cell=c) for c, at in zip(cells, times, strict=True)}
    found = find(tmp_path, runs, {})
    path = "state/records/Run/late.json"
    detail = f"{path} is dated 2026-03-01T13:00:01Z, and a commit of 2026-03-01T12:00:00Z brought it: {WHY}"
    assert found == [Claim(str(cells[1]), "Run performance: when it was made", Proof.MISSING, detail)]


def test_wrong_dates_are_told_by_cell(tmp_path: Path) -> None:
    cells = [Cell("open", "box", name, "Offline") for name in ("b", "c", "a")]
    found = find(tmp_path, {f"Run/{c.benchmark}": run("23:00:00", cell=c) for c in cells}, {})
    assert [claim.where for claim in found] == sorted(map(str, cells))


def test_runs_of_one_cell_are_told_by_their_ids_and_those_of_no_commit_not_at_all(tmp_path: Path) -> None:
    late, cell = run("23:00:00"), Chosen(performance="Run/2", accuracy="Run/1", score="Run/3")
    at: Any = SimpleNamespace(
        difference=SimpleNamespace(chosen={CELL: cell}),
        committed=SimpleNamespace(summaries=dict.fromkeys(("Run/2", "Run/1", "Run/3"), late)),
        decisions=SimpleNamespace(acceptances={}, freezes={}, amendments={}),
    )
    commit = Commit("c", "Ann", NOON, NOON, "")
    appeared = {(f"state/records/Run/{number}.json", "0"): commit for number in (2, 1)}
    found = [claim.detail.partition(" is")[0] for claim in find_wrong_dates(tmp_path, at, appeared)]
    assert found == ["state/records/Run/1.json", "state/records/Run/2.json"]


def test_decisions_are_made_between_the_commit_they_are_made_on_and_the_one_that_brings_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-03-01T10:00:00Z")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "--message", "Base")
    base = git(tmp_path, "rev-parse", "HEAD")

    def freeze(made: str, cell: Cell | None = CELL, commit: str = base) -> Freeze:
        return Freeze(cell, "why", "Ann", f"2026-03-01T{made}", date(2026, 4, 1), commit)

    made = {
        "f/3": freeze("08:59:59Z", None),
        "f/0": freeze("13:00:00Z"),
        "f/1": freeze("13:00:01Z"),
        "f/2": freeze("09:00:00Z", None),
        "f/4": freeze("08:59:59+00:00", commit=""),
        "f/5": freeze("08:59:59", commit="0" * 40),
        "f/6": freeze("whenever"),
        "f/7": freeze("14:00:00+02:00"),
    }
    dated = "f/{} is dated 2026-03-01T{}, {}: " + WHY
    late = dated.format(1, "13:00:01Z", "and a commit of 2026-03-01T12:00:00Z brought it")
    early = dated.format(3, "08:59:59Z", f"before the commit it was made on ({base[:12]})")
    assert find(tmp_path, {}, made) == [
        Claim(str(CELL), "freeze: when it was decided", Proof.MISSING, late),
        Claim("submission", "freeze: when it was decided", Proof.MISSING, early),
    ]
