"""What changed from one result of a cell to the next, as the records in git tell it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.files import RepositoryPaths
from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.record.store import write_record
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Record, RecordedFact, RecordedInput
from tests.unit.cli.conftest import git

CELL = Cell("open", "box", "net", "Offline")


def commit(root: Path, asked: Mapping[str, str], second: int, driver: str = "1", **as_if: Any) -> None:
    """A performance run that was made from these inputs."""
    record = make(asked, second, driver)
    write_record(RepositoryPaths(root), replace(record, **as_if))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", f"Run {second}")


def make(inputs: Mapping[str, str], second: int, driver: str) -> Record:
    return Record(
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


# What a spec said at first, and what was in it when the run had been made of it.
EDITED = {
    "the line": ([], ["target_qps: 200"]),
    "within a line": (["# net"], ["# net", "Offline: {target_qps: 200}"]),
    "the value tells it from another": ([], ["target_qps: 100", "target_qps: 200"]),
    "others have the value": (["streams: 200", "batch: 200"], ["streams: 200", "target_qps: 200", "batch: 200"]),
    "written in another way": (["streams: 200"], ["streams: 200", "target_qps: 0.2 k"]),
    "like names": (
        ["my_target_qps: 200", "target_qps_: 200"],
        ["my_target_qps: 200", "target_qps_: 200", "target_qps: 200"],
    ),
    "two lines with the value": ([], ["target_qps: 200", "target_qps: 200"]),
    "two lines without it": ([], ["target_qps: 100", "target_qps: 300"]),
    "no line": ([], ["streams: 200"]),
}
UNKNOWN = {"two lines with the value", "two lines without it", "no line"}


def test_line_that_set_an_input_is_found_in_the_spec_as_it_was_committed_later(tmp_path: Path) -> None:
    """The run was made while other lines of its spec were being edited: no commit has the bytes it was made from."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "specs").mkdir()
    files = {name: f"specs/{number}.yaml" for number, name in enumerate(EDITED)}
    specs = dict.fromkeys(files.values(), "0" * 40)
    for second in (0, 1):
        value = str(100 + 100 * second)
        for name, file in files.items():
            (tmp_path / file).write_text("\n".join([*EDITED[name][second], ""]))
        inputs = {f"{name}.target_qps": RecordedInput(value, f"{file}:1") for name, file in files.items()}
        commit(tmp_path, {}, second, inputs=inputs, spec=specs)
    (step,) = read_record_history(tmp_path, "HEAD").steps(CELL)
    found = {cause.name.removesuffix(".target_qps"): cause.by and cause.by.subject for cause in step.causes}
    assert found == {name: None if name in UNKNOWN else "Run 1" for name in EDITED}


def test_line_is_looked_for_in_no_spec_that_is_older_than_the_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/a.yaml").write_text("target_qps: 200\n")
    commit(tmp_path, {"target_qps": "100"}, 1, started="2000-01-01T00:00:00Z")
    commit(tmp_path, {"target_qps": "200"}, 2, started="2001-01-01T00:00:00Z")
    commit(tmp_path, {"target_qps": "100"}, 3, started="2101-01-01T00:00:00Z")
    steps = read_record_history(tmp_path, "HEAD").steps(CELL)
    assert [[cause.by is not None for cause in step.causes] for step in steps] == [[True], [False]]


def test_results_are_runs_for_speed_and_scores_that_ended_well(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {}, 3)
    commit(tmp_path, {}, 1, address=Address(Kind.SCORE, f"{CELL}/score"))
    commit(tmp_path, {}, 2, address=Address(Kind.RUN, f"{CELL}/accuracy"))
    commit(tmp_path, {}, 4, ended=Ended.FAILED)
    removed = read_record_history(tmp_path, "HEAD").cells[CELL][0]
    (tmp_path / f"state/records/{removed}.json").unlink()
    commit(tmp_path, {}, 5, values={"validity": "INVALID"})
    history = read_record_history(tmp_path, "HEAD")
    told = [(m.what, m.value, m.unit, m.validity, m.kept) for m in history.measured(CELL)]
    assert told == [
        ("Score", "10", "samples/s", "VALID", False),
        ("Run performance", "10", "samples/s", "VALID", True),
        ("Run performance", "", "", "INVALID", True),
    ]
    assert [(step.before.started[-3:], step.after.started[-3:]) for step in history.steps(CELL)] == [("03Z", "05Z")]
    assert not history.measured(Cell("open", "box", "net", "Server"))
