"""Which records are results of a cell, and which of them follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.history.record_history import read_record_history
from reconciler.record.store import write_record
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Record
from reconciler.storage.files import RepositoryPaths
from tests.unit.cli.conftest import git

CELL = Cell("open", "box", "net", "Offline")
GOOD: Mapping[str, Any] = {"validity": "VALID", "metric": {"value": "10", "unit": "samples/s"}}


def write(root: Path, second: int, name: str, ended: Ended = Ended.DONE, values: Mapping[str, Any] = GOOD) -> str:
    kind = Kind.SCORE if name == "score" else Kind.RUN
    started = f"2026-01-01T00:00:{second:02}Z"
    address = Address(kind, f"{CELL}/{name}")
    return write_record(
        RepositoryPaths(root), Record(address, "k" * 64, 1, ended, started, 0.5, f"attempt {second}", {}, values=values)
    )


def commit(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def test_results_are_performance_runs_and_scores_that_ended_well(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    removed = write(tmp_path, 1, "score")
    write(tmp_path, 3, "performance")
    write(tmp_path, 2, "accuracy")
    write(tmp_path, 4, "performance", Ended.FAILED)
    commit(tmp_path, "First")
    (tmp_path / f"state/records/{removed}.json").unlink()
    write(tmp_path, 5, "performance", values={"validity": "INVALID"})
    commit(tmp_path, "Second")
    history = read_record_history(tmp_path, "HEAD")
    told = [(m.what, m.value, m.unit, m.validity, m.written.subject, m.kept) for m in history.measured(CELL)]
    assert told == [
        ("Score", "10", "samples/s", "VALID", "First", False),
        ("Run performance", "10", "samples/s", "VALID", "First", True),
        ("Run performance", "", "", "INVALID", "Second", True),
    ]
    assert [(step.before.started[-3:], step.after.started[-3:]) for step in history.steps(CELL)] == [("03Z", "05Z")]
    assert not history.measured(Cell("open", "box", "net", "Server"))
