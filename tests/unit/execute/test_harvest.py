"""What earlier passes left behind."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from harness.contract import Result
from reconciler.errors import StorageError
from reconciler.execute.attempt import Attempt, Intent, MachineFacts, create
from reconciler.execute.attempt_record import build_record
from reconciler.execute.child import Watch
from reconciler.execute.executors.executor import Handle, write_handle
from reconciler.execute.executors.table import Executors
from reconciler.execute.perform import Finished, judge_attempt
from reconciler.reconcile import worker as harvesting
from reconciler.reconcile.worker import find_under_way, harvest
from reconciler.record.codec import encode
from reconciler.resource.inputs import Role
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.records import Ended, RecordedFact
from reconciler.resource.ruled_values import AccuracyLogRule, Bar, Metric
from reconciler.resource.settings import CellSettings
from reconciler.rules.context import RuleContext
from reconciler.storage.files import RepositoryPaths

SEEN = MachineFacts()


def begin(folder: Path, number: int = 1, kind: Kind = Kind.MODEL, machine: MachineFacts = SEEN) -> Attempt:
    intent = Intent(
        id=f"2026-{number}",
        address=Address(kind, "net"),
        key=f"{number:064}",
        revision=1,
        started="2026",
        inputs={"source": ("digest", "specs/a.yaml:3")},
        settings=CellSettings({"min_duration": 0}),
        rules=RuleContext(Metric("key", "unit"), AccuracyLogRule(1, 2, 3), (Bar("accuracy", Decimal("76.1")),)),
        upstream={"dataset": "Dataset/x"},
        made_from={"dataset.samples.npy": "digest"},
        spec={"specs/a.yaml": "blob"},
        marks=("rehearsal",),
        shared=(Address(kind, "net-99"),),
        tool="test",
        machine=machine,
    )
    attempt = create(folder, intent)
    (attempt.output / "model.onnx").write_bytes(b"weights")
    attempt.log.write_bytes(b"said\n")
    return attempt


def end(attempt: Attempt) -> None:
    Result(done=True, seconds=1.5, values={"files": {}, "marks": ["synthetic"]}).write(attempt.result)


def collect(folder: Path, note: Callable[[str], None] = lambda _: None) -> list[Finished]:
    return list(harvest(folder, note))


def test_facts_of_the_machine_stand_in_the_record_with_their_roles(tmp_path: Path) -> None:
    attempt = begin(tmp_path, machine=MachineFacts(({"host": "one"},), ("570.1",), "PID 1 (init)"))
    end(attempt)
    facts = build_record(attempt)[0].facts
    assert facts["nodes.drivers"] == RecordedFact(["570.1"], Role.EVIDENCE)
    assert facts["machine.nodes"] == RecordedFact([{"host": "one"}], Role.NOTE)
    assert facts["machine.shared_with"] == RecordedFact("PID 1 (init)", Role.NOTE)


def test_complete_attempt_becomes_the_record_that_its_pass_would_have_written(tmp_path: Path) -> None:
    attempt = begin(tmp_path)
    end(attempt)
    record, kept = build_record(attempt)
    (found,) = collect(tmp_path)
    assert encode(found.record) == encode(record)
    assert (found.record.ended, found.record.marks) == (Ended.DONE, ("rehearsal", "synthetic"))
    assert [item.name for item in kept] == ["model.onnx", "child.log"]
    assert attempt.folder.exists(), "it goes when the record is written, not before"


def test_attempts_come_oldest_first(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        end(begin(tmp_path, number))
    assert [found.record.attempt for found in collect(tmp_path)] == ["2026-1", "2026-2", "2026-3"]


def test_attempt_without_a_result_was_lost(tmp_path: Path) -> None:
    begin(tmp_path)
    (tmp_path / "never begun").mkdir()
    assert collect(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 99}', '{"format": 1, "done": 3}'])
def test_unreadable_result_is_put_aside_and_said(tmp_path: Path, text: str) -> None:
    attempt = begin(tmp_path / "attempts")
    attempt.result.write_text(text, encoding="utf-8")
    notes: list[str] = []
    assert collect(tmp_path / "attempts", notes.append) == []
    assert "Model:net" in notes[0]
    assert (tmp_path / "quarantine" / attempt.folder.name / "result.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 99}', '{"format": 1}'])
def test_result_of_an_unreadable_intent_is_put_aside(tmp_path: Path, text: str) -> None:
    attempt = begin(tmp_path / "attempts")
    end(attempt)
    (attempt.folder / "attempt.json").write_text(text, encoding="utf-8")
    assert collect(tmp_path / "attempts") == []
    assert (tmp_path / "quarantine" / attempt.folder.name / "result.json").exists()


def test_full_disk_leaves_a_complete_attempt_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = begin(tmp_path)
    end(attempt)

    def full(_: Attempt) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(harvesting, "build_record", full)
    with pytest.raises(StorageError):
        collect(tmp_path)
    monkeypatch.undo()
    assert [found.record.address for found in collect(tmp_path)] == [attempt.intent.address]


def test_failed_child_becomes_a_failed_record_with_its_words(tmp_path: Path) -> None:
    attempt = begin(tmp_path)
    Result(done=False, seconds=0.1, problem="no memory", problem_class="resources", fix="lower it").write(
        attempt.result
    )
    (found,) = collect(tmp_path)
    assert (found.record.ended, found.record.problem, found.record.fix) == (Ended.FAILED, "no memory", "lower it")
    assert [item.name for item in found.kept] == ["child.log"]


def test_run_without_a_log_is_a_failure_whatever_its_child_said(tmp_path: Path) -> None:
    attempt = begin(tmp_path, kind=Kind.RUN)
    intent = attempt.intent
    inputs = {**intent.inputs, "mode": ("performance", ""), "scenario": ("Offline", "")}
    attempt = Attempt(attempt.folder, Intent(**{**_fields(intent), "inputs": inputs}))
    Result(done=True, seconds=0.1).write(attempt.result)
    record, _ = build_record(attempt)
    assert record.ended is Ended.FAILED
    assert "mlperf_log_detail.txt" in record.problem


def _fields(intent: Intent) -> dict[str, object]:
    return {name: getattr(intent, name) for name in intent.__struct_fields__}


def test_a_test_whose_logs_cannot_be_read_is_not_done(tmp_path: Path) -> None:
    attempt = begin(tmp_path / "attempts", kind=Kind.VERDICT)
    inputs = {"test": ("TEST01", ""), "scenario": ("Offline", "")}
    attempt = replace(attempt, intent=replace(attempt.intent, inputs=inputs))
    for run in ("audit", "accuracy"):
        (attempt.inputs / run).mkdir(parents=True)
        (attempt.inputs / run / "mlperf_log_accuracy.json").write_bytes(b"[\n{broken},\n]\n")
    paths = RepositoryPaths(tmp_path)
    judge_attempt(attempt, paths, Watch(lambda _: None), Executors.make(paths))
    result = Result.read(attempt.result)
    assert (result.done, result.problem_class) == (False, "input")
    assert "--rerun" in result.fix


def test_of_what_goes_on_the_newest_of_a_key_is_followed(tmp_path: Path) -> None:
    """What is not readable here is no one's; the pass that can read it follows it."""
    for number in (3, 1, 2):
        attempt = begin(tmp_path, number)
        write_handle(Handle("queue", attempt.folder, f"job {number}"))
    other = create(tmp_path, replace(begin(tmp_path, 9).intent, id="2026-4", key=f"{1:064}"))
    write_handle(Handle("queue", other.folder, "job 4"))
    (tmp_path / "2026-2" / "attempt.json").write_text("{")
    asked: list[str] = []

    def goes_on(handle: Handle | None) -> bool:
        asked.append(handle.name if handle else "none")
        return handle is not None and handle.name != "job 3"

    found = find_under_way(tmp_path, cast(Executors, SimpleNamespace(is_still_running=goes_on)))
    assert found == {f"{1:064}": other}
    assert asked == ["job 1", "job 2", "job 3", "job 4", "none"]


def test_what_is_spared_stays(tmp_path: Path) -> None:
    attempts = [begin(tmp_path, number) for number in (1, 2)]
    assert list(harvest(tmp_path, lambda _: None, {attempts[0].folder})) == []
    assert [path.name for path in tmp_path.iterdir()] == ["2026-1"]


@pytest.mark.parametrize(
    "there", ["*.*.mode = 2\n", "*.*.mode=2\n", "# of the command\n*.*.mode = 2\n", "*.*.mode = 3\n"]
)
def test_what_a_lost_attempt_placed_goes_with_it_unless_somebody_wrote_it(there: str, tmp_path: Path) -> None:
    """Some commands put a file with the same settings in place of it."""
    (cwd := tmp_path / "code").mkdir()
    attempt = begin(tmp_path / "attempts")
    attempt.audit_file.write_text("*.*.mode = 2\n")
    placed = cwd / "audit.config"
    placed.write_text(there)
    request = {"place_audit": str(attempt.audit_file), "cwd": str(cwd)}
    attempt.request.write_text(json.dumps(request), encoding="utf-8")
    assert collect(tmp_path / "attempts") == []
    assert placed.exists() is ("3" in there)
    assert not attempt.folder.exists()
