"""What changed from one result of a cell to the next, as the records in git tell it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.diff.timeline import Written
from reconciler.history.record_history import RecordHistory, read_record_history
from reconciler.record.store import write_record
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.records import Ended, Record, RecordedFact, RecordedInput
from reconciler.storage.files import RepositoryPaths
from reconciler.storage.git_history import Commit
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
def test_a_value_whose_spec_was_committed_later_is_told_by_the_line_that_sets_it(
    lines: list[str], by: str, tmp_path: Path
) -> None:
    """The bytes that the runs were made from are in no commit."""
    git(tmp_path, "init", "--quiet")
    write_spec(tmp_path, [*OLD, "target_qps: 200"], "2025-12-30", "Old")  # nobody made the runs from that
    write_spec(tmp_path, OLD, "2025-12-31", "Old")
    for second, value in ((1, "100"), (2, "200")):
        commit(tmp_path, {"run.target_qps": value}, second, spec={"specs/a.yaml": "0" * 40})
    write_spec(tmp_path, [*lines, "# a last line"], "2026-01-02", "New")
    write_spec(tmp_path, ["target_qps: 200"] if by else [], "2026-01-03", "Newer")
    ((cause,),) = [step.causes for step in read_record_history(tmp_path, "HEAD").steps(CELL)]
    assert (cause.name, cause.before, cause.after) == ("run.target_qps", "100", "200")
    assert (cause.by.subject if cause.by else "") == by


def test_a_value_is_told_by_the_line_of_the_spec_that_it_was_made_from(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    write_spec(tmp_path, ["target_qps: 200", *OLD], "2025-12-31", "First")
    blob = git(tmp_path, "rev-parse", "HEAD:specs/a.yaml")
    write_spec(tmp_path, ["target_qps: 300", *OLD], "2026-01-02", "Second")
    commit(tmp_path, {"target_qps": "100"}, 1, spec={"specs/a.yaml": blob})
    commit(tmp_path, {"target_qps": "200"}, 2, spec={"specs/a.yaml": blob})
    ((cause,),) = [step.causes for step in read_record_history(tmp_path, "HEAD").steps(CELL)]
    assert cause.by is not None
    assert (cause.by.subject, cause.where) == ("First", "specs/a.yaml:1")


@pytest.mark.parametrize(("before", "after"), [("engine", "model"), ("model", "engine")])
def test_what_a_run_was_made_from_is_no_cause_by_itself(before: str, after: str, tmp_path: Path) -> None:
    """Its key changes with its own inputs, which are told."""
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {before: "1" * 64, "precision": "fp32"}, 1, upstream={before: "Engine/0"})
    commit(tmp_path, {after: "2" * 64, "precision": "int8"}, 2, upstream={after: "Model/0"})
    assert list_changes(read_record_history(tmp_path, "HEAD")) == [[("precision", "fp32", "int8", "specs/a.yaml:2")]]


BROUGHT = Commit("c0ffee", "Ada", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC), "Measure")


def make(
    kind: Kind,
    name: str,
    second: int,
    inputs: Mapping[str, object] | None = None,
    facts: Mapping[str, tuple[object, Role]] | None = None,
    upstream: Mapping[str, str] | None = None,
    ended: Ended = Ended.DONE,
    value: str = "",
    shared: tuple[Address, ...] = (),
) -> Record:
    return Record(
        Address(kind, name),
        "key",
        1,
        ended,
        f"2026-01-01T00:00:{second:02}Z",
        0.5,
        "attempt",
        {name: RecordedInput(value, f"{name}:{second}") for name, value in (inputs or {}).items()},
        facts={name: RecordedFact(value, role) for name, (value, role) in (facts or {}).items()},
        values={"validity": "VALID", "metric": {"value": value, "unit": "samples/s"}} if value else {},
        upstream=upstream or {},
        shared=shared,
    )


def hold(kept: str = "", **records: Record) -> RecordHistory:
    return RecordHistory(Path(), "HEAD", records, dict.fromkeys(records, BROUGHT), frozenset(kept.split()), {})


def told(
    history: RecordHistory, cell: Cell = CELL
) -> list[tuple[str, str, list[tuple[str, str, object, object, str]]]]:
    return [
        (step.before.record, step.after.record, [(c.of, c.name, c.before, c.after, c.where) for c in step.causes])
        for step in history.steps(cell)
    ]


RUN, SCORE = f"{CELL}/performance", str(CELL)


def test_results_of_a_cell_are_those_that_were_measured_oldest_first() -> None:
    other = Cell("open", "box", "net", "Server")
    history = hold(
        "later first",
        later=make(Kind.RUN, RUN, 9, value="12"),
        first=make(Kind.RUN, RUN, 1, value="10", shared=(Address(Kind.RUN, f"{other}/performance"),)),
        score=make(Kind.SCORE, SCORE, 5, value="76"),
        failed=make(Kind.RUN, RUN, 3, ended=Ended.FAILED),
        accuracy=make(Kind.RUN, f"{CELL}/accuracy", 4),
        dataset=make(Kind.DATASET, "net", 2),
        bare=make(Kind.SCORE, SCORE, 7),
    )
    assert history.cells == {CELL: ["first", "score", "bare", "later"], other: ["first"]}
    assert [(m.record, m.what, m.value, m.unit, m.validity, m.kept) for m in history.measured(CELL)] == [
        ("first", "Run performance", "10", "samples/s", "VALID", True),
        ("score", "Score", "76", "samples/s", "VALID", False),
        ("bare", "Score", "", "", "", False),
        ("later", "Run performance", "12", "samples/s", "VALID", True),
    ]
    written = Written("c0ffee", "Ada", datetime(2026, 3, 1, tzinfo=UTC), "Measure")
    assert {m.written for m in history.measured(CELL)} == {written}
    assert [step[:2] for step in told(history)] == [("score", "bare"), ("first", "later")]
    assert history.measured(Cell("open", "box", "net", "MultiStream")) == ()


def test_what_changed_is_told_of_a_result_and_of_all_that_it_was_made_from() -> None:
    history = hold(
        model1=make(Kind.MODEL, "net", 1, {"weights": "a"}),
        model2=make(Kind.MODEL, "net", 2, {"weights": "b"}),
        engine1=make(Kind.ENGINE, SCORE, 3, {"zeta": 1, "batch": 1, "model": "x"}, upstream={"model": "model1"}),
        engine2=make(Kind.ENGINE, SCORE, 4, {"batch": 2, "alpha": 1, "model": "y"}, upstream={"model": "model2"}),
        one=make(Kind.RUN, RUN, 5, {"engine": "1", "target": 1}, upstream={"model": "model1", "engine": "engine1"}),
        two=make(Kind.RUN, RUN, 6, {"engine": "2", "target": 2}, upstream={"engine": "engine2", "model": "model2"}),
    )
    assert told(history) == [
        (
            "one",
            "two",
            [
                ("Run performance", "target", 1, 2, "target:6"),
                ("Engine", "alpha", None, 1, "alpha:4"),
                ("Engine", "batch", 1, 2, "batch:4"),
                ("Engine", "zeta", 1, None, "zeta:3"),
                ("Model", "weights", "a", "b", "weights:2"),
            ],
        )
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [("engine1", "engine1"), ("engine1", "gone"), ("gone", "engine1"), ("gone", "lost"), ("engine1", "same")],
)
def test_what_a_result_was_made_from_tells_nothing_where_it_is_the_same_or_unknown(before: str, after: str) -> None:
    history = hold(
        engine1=make(Kind.ENGINE, SCORE, 1, {"batch": 1}),
        same=make(Kind.ENGINE, SCORE, 2, {"batch": 1}),
        one=make(Kind.RUN, RUN, 3, upstream={"engine": before}),
        two=make(Kind.RUN, RUN, 4, upstream={"engine": after}),
    )
    assert told(history) == [("one", "two", [])]


def test_records_that_name_each_other_are_told_once() -> None:
    history = hold(
        engine1=make(Kind.ENGINE, SCORE, 1, {"batch": 1}, upstream={"engine": "one"}),
        engine2=make(Kind.ENGINE, SCORE, 2, {"batch": 2}, upstream={"engine": "two"}),
        one=make(Kind.RUN, RUN, 3, upstream={"engine": "engine1"}),
        two=make(Kind.RUN, RUN, 4, upstream={"engine": "engine2"}),
    )
    assert told(history) == [("one", "two", [("Engine", "batch", 1, 2, "batch:2")])]


EVIDENCE = {"driver": ("1", Role.EVIDENCE), "gone": (1, Role.EVIDENCE), "note": (1, Role.NOTE)}
ALL_FACTS = {
    **{f"{name}.digest": ("1", Role.EVIDENCE) for name in ("engine", "model", "dataset", "run", "code")},
    **{f"machine.{name}": ("1", Role.NOTE) for name in ("host", "kernel", "cpu")},
}


def test_evidence_and_the_machine_that_differ_are_told_by_their_names() -> None:
    history = hold(
        one=make(Kind.RUN, RUN, 1, facts=EVIDENCE),
        two=make(
            Kind.RUN,
            RUN,
            2,
            facts={"driver": ("2", Role.NOTE), "came": (2, Role.EVIDENCE), "note": (2, Role.NOTE), "b": (1, Role.NOTE)},
        ),
    )
    assert told(history)[0][2] == [
        ("Run performance", "came", None, 2, ""),
        ("Run performance", "driver", "1", "2", ""),
        ("Run performance", "gone", 1, None, ""),
    ]


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ({}, ["code.digest", "dataset.digest", "engine.digest", "machine.host", "machine.kernel", "model.digest"]),
        ({"target": 2}, ["target", "code.digest", "machine.host", "machine.kernel"]),
    ],
    ids=["without a cause", "beside an input"],
)
def test_digests_of_what_an_input_decides_are_no_cause_beside_it(inputs: dict[str, object], names: list[str]) -> None:
    """What a run left differs each time."""
    changed = {name: ("2", role) for name, (_, role) in ALL_FACTS.items()}
    history = hold(one=make(Kind.RUN, RUN, 1, facts=ALL_FACTS), two=make(Kind.RUN, RUN, 2, inputs, facts=changed))
    assert [name for _, name, *_ in told(history)[0][2]] == names
