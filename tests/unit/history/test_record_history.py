"""What changed from one result of a cell to the next, as the records in git tell it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reconciler.files import RepositoryPaths
from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.record.store import write_record
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Record, RecordedFact, RecordedInput
from tests.unit.cli.conftest import git

CELL = Cell("open", "box", "net", "Offline")


def commit(root: Path, inputs: Mapping[str, str], second: int, driver: str = "1") -> None:
    """A performance run that was made from these inputs."""
    record = Record(
        Address(Kind.RUN, f"{CELL}/performance"),
        f"{second:064x}",
        1,
        Ended.DONE,
        f"2026-01-01T00:00:{second:02}Z",
        0.5,
        f"attempt {second}",
        {name: RecordedInput(value, f"specs/a.yaml:{line}") for line, (name, value) in enumerate(inputs.items(), 1)},
        facts={"driver": RecordedFact(driver, Role.EVIDENCE), "note": RecordedFact(str(second), Role.NOTE)},
        values={"validity": "VALID", "metric": {"value": "10", "unit": "samples/s"}},
    )
    write_record(RepositoryPaths(root), record)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"Run {second}")


def list_changes(history: RecordHistory) -> list[list[tuple[str, object, object, str]]]:
    steps = history.steps(CELL)
    return [[(c.name, c.before, c.after, c.where) for c in step.causes] for step in steps]


def test_inputs_that_come_change_and_go_are_told_with_their_lines(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {"target_qps": "100", "streams": "2"}, 1)
    commit(tmp_path, {"target_qps": "200", "streams": "2", "batch": "4"}, 2)
    commit(tmp_path, {"target_qps": "200"}, 3, driver="2")
    assert list_changes(read_record_history(tmp_path, "HEAD")) == [
        [("batch", None, "4", "specs/a.yaml:3"), ("target_qps", "100", "200", "specs/a.yaml:1")],
        [("batch", "4", None, "specs/a.yaml:3"), ("streams", "2", None, "specs/a.yaml:2"), ("driver", "1", "2", "")],
    ]


def test_what_is_not_a_record_is_left_out(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {"target_qps": "100"}, 1)
    broken = tmp_path / "state/records/Run/broken.json"
    broken.write_text("{}")
    commit(tmp_path, {"target_qps": "100"}, 2)
    history = read_record_history(tmp_path, "HEAD")
    assert len(history.records) == 2
    assert history.brought.keys() == history.records.keys()
    assert [measured.value for measured in history.measured(CELL)] == ["10", "10"]
