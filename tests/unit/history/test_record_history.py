"""What changed from one result of a cell to the next, as the records in git report it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.record.store import write_record
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Record, RecordedFact, RecordedInput
from reconciler.storage.files import RepositoryPaths
from tests.unit.cli.conftest import git

CELL = Cell("open", "box", "net", "Offline")


def commit(
    root: Path,
    inputs: Mapping[str, str],
    second: int,
    driver: str = "1",
    spec: Mapping[str, str] | None = None,
    upstream: Mapping[str, str] | None = None,
) -> None:
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
        spec=spec or {},
        upstream=upstream or {},
    )
    write_record(RepositoryPaths(root), record)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"Run {second}")


def list_changes(history: RecordHistory) -> list[list[tuple[str, object, object, str]]]:
    steps = history.list_steps(CELL)
    return [[(c.name, c.before, c.after, c.where) for c in step.causes] for step in steps]


def test_inputs_that_come_change_and_go_are_reported_with_their_lines(tmp_path: Path) -> None:
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
    assert [measured.value for measured in history.list_measured(CELL)] == ["10", "10"]


def write_spec(root: Path, lines: list[str], day: str, subject: str) -> None:
    (root / "specs").mkdir(exist_ok=True)
    (root / "specs/a.yaml").write_text("\n".join([*lines, ""]))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", f"--date={day}T00:00:00Z", "--message", subject)


OLD = ["# of the target", "streams: 200", "other: 7"]


@pytest.mark.parametrize(
    ("lines", "by"),
    [
        ([*OLD, "target_qps: 200"], "New"),
        (["target_qps: 200", *OLD], "New"),
        ([*OLD, "run: {target_qps: 200}"], "New"),
        ([*OLD, "target_qps: 300"], "New"),  # the only line that sets it
        ([*OLD, "target_qps: 200", "target_qps: 300"], "New"),
        ([*OLD, "target_qps: 200", "target_qps: 200"], ""),
        ([*OLD, "target_qps: 300", "target_qps: 400"], ""),
        ([*OLD, "my_target_qps: 200", "target_qps_of: 200", "target_qps 200"], ""),
        (OLD, ""),
    ],
)
def test_a_value_committed_later_is_identified_by_its_line(lines: list[str], by: str, tmp_path: Path) -> None:
    """The bytes that the runs were made from are in no commit."""
    git(tmp_path, "init", "--quiet")
    write_spec(tmp_path, [*OLD, "target_qps: 200"], "2025-12-30", "Old")  # no one made the runs from that
    write_spec(tmp_path, OLD, "2025-12-31", "Old")
    for second, value in ((1, "100"), (2, "200")):
        commit(tmp_path, {"run.target_qps": value}, second, spec={"specs/a.yaml": "0" * 40})
    write_spec(tmp_path, [*lines, "# a last line"], "2026-01-02", "New")
    write_spec(tmp_path, ["target_qps: 200"] if by else [], "2026-01-03", "Newer")
    ((cause,),) = [step.causes for step in read_record_history(tmp_path, "HEAD").list_steps(CELL)]
    assert (cause.name, cause.before, cause.after) == ("run.target_qps", "100", "200")
    assert (cause.by.subject if cause.by else "") == by


def test_a_value_is_identified_by_the_line_of_the_spec_that_it_was_made_from(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write_spec(tmp_path, ["target_qps: 200", *OLD], "2025-12-31", "First")
    blob = git(tmp_path, "rev-parse", "HEAD:specs/a.yaml")
    write_spec(tmp_path, ["target_qps: 300", *OLD], "2026-01-02", "Second")
    commit(tmp_path, {"target_qps": "100"}, 1, spec={"specs/a.yaml": blob})
    commit(tmp_path, {"target_qps": "200"}, 2, spec={"specs/a.yaml": blob})
    ((cause,),) = [step.causes for step in read_record_history(tmp_path, "HEAD").list_steps(CELL)]
    assert cause.by is not None
    assert (cause.by.subject, cause.where) == ("First", "specs/a.yaml:1")


@pytest.mark.parametrize(("before", "after"), [("engine", "model"), ("model", "engine")])
def test_what_a_run_was_made_from_is_no_cause_by_itself(before: str, after: str, tmp_path: Path) -> None:
    """Its key changes with its own inputs, which are reported."""
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {before: "1" * 64, "precision": "fp32"}, 1, upstream={before: "Engine/0"})
    commit(tmp_path, {after: "2" * 64, "precision": "int8"}, 2, upstream={after: "Model/0"})
    assert list_changes(read_record_history(tmp_path, "HEAD")) == [[("precision", "fp32", "int8", "specs/a.yaml:2")]]


GOOD: Mapping[str, Any] = {"validity": "VALID", "metric": {"value": "10", "unit": "samples/s"}}


def write(root: Path, second: int, name: str, ended: Ended = Ended.DONE, values: Mapping[str, Any] = GOOD) -> str:
    kind = Kind.SCORE if name == "score" else Kind.RUN
    started = f"2026-01-01T00:00:{second:02}Z"
    address = Address(kind, f"{CELL}/{name}")
    return write_record(
        RepositoryPaths(root), Record(address, "k" * 64, 1, ended, started, 0.5, f"attempt {second}", {}, values=values)
    )


def commit_of_results_of_cells(root: Path, message: str) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message)


def test_results_are_performance_runs_and_scores_that_ended_well(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    removed = write(tmp_path, 1, "score")
    write(tmp_path, 3, "performance")
    write(tmp_path, 2, "accuracy")
    write(tmp_path, 4, "performance", Ended.FAILED)
    commit_of_results_of_cells(tmp_path, "First")
    (tmp_path / f"state/records/{removed}.json").unlink()
    write(tmp_path, 5, "performance", values={"validity": "INVALID"})
    commit_of_results_of_cells(tmp_path, "Second")
    history = read_record_history(tmp_path, "HEAD")
    reported = [(m.what, m.value, m.unit, m.validity, m.written.subject, m.kept) for m in history.list_measured(CELL)]
    assert reported == [
        ("Score", "10", "samples/s", "VALID", "First", False),
        ("Run performance", "10", "samples/s", "VALID", "First", True),
        ("Run performance", "", "", "INVALID", "Second", True),
    ]
    assert [(step.before.started[-3:], step.after.started[-3:]) for step in history.list_steps(CELL)] == [
        ("03Z", "05Z")
    ]
    assert not history.list_measured(Cell("open", "box", "net", "Server"))
