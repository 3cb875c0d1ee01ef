"""A process for each slice: every batch is answered once, by a process that sees one slice, whatever ends it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.backends import LoadPlan, Outputs, Token
from harness.contract import Benchmark
from harness.errors import HarnessError
from harness.mig.slice_session import SliceSession
from harness.run.qsl import Ragged
from tests.unit.harness.children import Children
from tests.unit.harness.conftest import Artifacts
from tests.unit.harness.naming import LETHAL, WRONG
from tests.unit.harness.plans import make_load_plan
from tests.unit.harness.tiny import labels

NAMING = Benchmark(name="naming", path=str(Path(__file__).parents[1] / "naming.py"))


class Recorder:
    """What a session called back."""

    def __init__(self) -> None:
        self.answers: dict[int, str] = {}
        self.failures: dict[int, BaseException] = {}

    def completed(self, token: Token, outputs: Outputs) -> None:
        assert token[0] not in self.answers
        self.answers[token[0]] = outputs[0].tobytes().decode()

    def failed(self, token: Token, error: BaseException) -> None:
        assert token[0] not in self.failures
        self.failures[token[0]] = error


def make_plan(recorder: Recorder, folder: Path) -> LoadPlan:
    return make_load_plan(completed=recorder.completed, failed=recorder.failed, folder=folder)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def session(recorder: Recorder, tmp_path: Path) -> Iterator[SliceSession]:
    made = SliceSession("null", NAMING, make_plan(recorder, tmp_path), ["MIG-a", "MIG-b"])
    yield made
    for worker in made.workers:
        worker.end()


def place(session: SliceSession, firsts: Sequence[int]) -> None:
    session.place({"x": Ragged([np.arange(first, first + 1 + first % 3) for first in firsts])})


def submit_all(session: SliceSession, count: int) -> None:
    for row in range(count):
        session.submit(slice(row, row + 1), [100 + row])
    session.drain()


def test_each_process_sees_one_slice_and_both_answer(session: SliceSession, recorder: Recorder) -> None:
    place(session, range(12))
    submit_all(session, 12)
    assert recorder.answers.keys() == set(range(100, 112))
    assert recorder.failures == {}
    for row, answer in enumerate(recorder.answers[100 + row] for row in range(12)):
        name, values = answer.split(" ", 1)
        assert name in ("MIG-a", "MIG-b")
        assert values == str(list(range(row, row + 1 + row % 3)))
    assert {answer.split()[0] for answer in recorder.answers.values()} == {"MIG-a", "MIG-b"}
    (alone,) = session.compute(slice(4, 5))
    assert alone.tobytes() == b"MIG-a [4, 5]"
    assert session.notes["workers"] == 2
    session.close()


def test_what_a_process_meets_is_reported_for_its_batch_alone(session: SliceSession, recorder: Recorder) -> None:
    place(session, [1, WRONG, 2])
    submit_all(session, 3)
    assert recorder.answers.keys() == {100, 102}
    (problem,) = recorder.failures.values()
    assert str(problem) == "ValueError: seventeen"


def test_a_killed_process_fails_what_it_had_and_nothing_waits(session: SliceSession, recorder: Recorder) -> None:
    place(session, [1, LETHAL, 2, 3])
    submitting = threading.Thread(target=submit_until_lost, args=(session, recorder), daemon=True)
    submitting.start()
    submitting.join(60)
    assert not submitting.is_alive()
    assert recorder.answers.keys() | recorder.failures.keys() == set(range(100, 104))
    assert isinstance(recorder.failures[101], HarnessError)
    assert str(recorder.failures[101]).startswith("the process on slice MIG-")
    with pytest.raises(HarnessError, match="the process on slice"):
        session.drain()


def submit_until_lost(session: SliceSession, recorder: Recorder) -> None:
    for row in range(4):
        try:
            session.submit(slice(row, row + 1), [100 + row])
        except HarnessError as error:
            recorder.failed([100 + row], error)
    with pytest.raises(HarnessError):
        session.drain()


def test_a_run_over_two_slices_answers_as_the_model_does(
    children: Children, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = artifacts.inputs("onnxruntime")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b")
    settings = {"batch_size": 8, "streams": 2}
    ended = children.run("Offline", "accuracy", backend="onnxruntime", inputs=inputs, settings=settings)
    assert ended.result.done, ended.output
    assert ended.result.facts["backend.workers"].value == 2
    wanted = labels()
    found = {index: int(np.frombuffer(data, np.int32)[0]) for index, data in ended.answers}
    assert found == dict(enumerate(wanted.tolist()))
