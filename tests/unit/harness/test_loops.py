"""Samples of several engine calls: rows share batches, each sample gets its own outputs, and failures stay theirs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.run.loops import LoopSession
from harness.run.qsl import Arrays, Ragged, Rows, count_rows
from harness.run.row_batches import Asked
from tests.unit.harness.plans import make_load_plan

BATCH = 4


class Doubling(Session):
    """Doubles its rows on a thread of its own; rows that hold 13 fail."""

    batch_size = BATCH
    sizes: Sequence[int] = ()
    evidence: Mapping[str, Any] = {"server.version": "2"}

    def __init__(self, plan: LoadPlan, *, in_place: bool) -> None:
        self.reads_in_place = self.makes_new_outputs = in_place
        self.batches: list[int] = []
        self.notes: dict[str, Any] = {"streams": plan.streams}
        self._plan, self._placed = plan, np.zeros(0)
        self._work: SimpleQueue[tuple[Rows, Token]] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def place(self, samples: Arrays) -> None:
        (array,) = samples.values()
        self._placed = array if self.reads_in_place else array.copy()

    def compute(self, rows: Rows) -> Outputs:
        return [self._placed[rows] * 2]

    def submit(self, rows: Rows, token: Token) -> None:
        self._work.put((rows, token))

    def ready(self) -> None:
        return

    def drain(self) -> None:
        return

    def close(self) -> None:
        self.notes["batches"] = len(self.batches)

    def _serve(self) -> None:
        while True:
            rows, token = self._work.get()
            self.batches.append(count_rows(rows))
            if (self._placed[rows] == 13).any():
                self._plan.failed(token, ValueError("unlucky"))
            else:
                self._plan.completed(token, self.compute(rows))


class Calling(Doubling):
    """Computes on whichever thread calls."""

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan, in_place=True)
        self.streams = plan.streams
        self.callers: dict[int, int] = {}

    def begin_stream(self, stream: int) -> None:
        self.callers[threading.get_ident()] = stream

    def compute_on(self, stream: int, rows: Rows) -> Outputs:
        assert self.callers[threading.get_ident()] == stream
        assert isinstance(rows, slice)
        assert stream * BATCH <= rows.start < rows.stop <= (stream + 1) * BATCH
        self.batches.append(count_rows(rows))
        if (self._placed[rows] == 13).any():
            raise ValueError("unlucky")
        return self.compute(rows)


ENGINES: Mapping[str, Callable[[LoadPlan], Doubling]] = {
    "in place": partial(Doubling, in_place=True),
    "copying": partial(Doubling, in_place=False),
    "on call": Calling,
}
every_engine = pytest.mark.parametrize("kind", ENGINES)


class Recorder:
    def __init__(self) -> None:
        self.answers: dict[int, list[float]] = {}
        self.failures: dict[int, str] = {}

    def completed(self, token: Token, outputs: Outputs) -> None:
        assert token[0] not in self.answers
        self.answers[token[0]] = outputs[0].tolist()

    def failed(self, token: Token, error: BaseException) -> None:
        assert token[0] not in self.failures
        self.failures[token[0]] = str(error)


def double_twice(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
    """All values at once, then one at a time."""
    (first,) = yield {"x": sample["x"][:, None]}
    found = []
    for row in range(len(first)):
        (second,) = yield {"x": first[row : row + 1]}
        found.append(second[0, 0])
    return np.array(found)


def load(
    recorder: Recorder, kind: str, *, streams: int = 2, at_once: int = 0, step_threads: int = 0
) -> tuple[LoopSession, Doubling]:
    inner: list[Doubling] = []

    def make(plan: LoadPlan) -> Session:
        inner.append(ENGINES[kind](plan))
        return inner[0]

    plan = make_plan(recorder, streams=streams)
    return LoopSession(make, plan, double_twice, at_once=at_once, step_threads=step_threads), inner[0]


def make_plan(recorder: Recorder, *, streams: int) -> LoadPlan:
    return make_load_plan(batch_size=BATCH, streams=streams, completed=recorder.completed, failed=recorder.failed)


def compute_all(session: LoopSession, given: Ragged) -> None:
    session.place({"x": given})
    for row in range(len(given)):
        session.submit(slice(row, row + 1), [row])
    session.drain()


def samples(count: int) -> Ragged:
    return Ragged([np.arange(1 + row % 7, dtype=np.float64) + 100 * row for row in range(count)])


@every_engine
def test_samples_compute_side_by_side_between_two_questions(kind: str) -> None:
    """Each waits for the other in its own part of the loop."""
    recorder, both = Recorder(), threading.Barrier(2)

    def meet(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
        (found,) = yield {"x": sample["x"][:1, None]}
        both.wait(timeout=30)
        if sample["x"][0] == 300:
            raise ValueError("odd")
        return found[0]

    plan = make_plan(recorder, streams=2)
    session = LoopSession(ENGINES[kind], plan, meet, at_once=2, step_threads=2)
    compute_all(session, samples(4))
    session.close()
    assert recorder.answers == {row: [200.0 * row] for row in range(3)}
    assert recorder.failures == {3: "odd"}


@every_engine
def test_outputs_are_kept_no_longer_than_they_serve(kind: str) -> None:
    recorder = Recorder()
    seen: list[weakref.ref[np.ndarray]] = []

    def add_up(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
        total = 0.0
        for _ in range(20):
            (found,) = yield {"x": sample["x"][:, None]}
            seen.append(weakref.ref(found))
            total += found.sum()
        return np.array([total])

    plan = make_plan(recorder, streams=1)
    session = LoopSession(ENGINES[kind], plan, add_up, at_once=1, reuse_outputs=True)
    compute_all(session, Ragged([np.arange(3.0), np.arange(3.0)]))
    assert recorder.answers == {0: [120.0], 1: [120.0]}
    assert len({id(found) for each in seen if (found := each()) is not None}) <= 2
    session.close()


@every_engine
@pytest.mark.parametrize(("at_once", "step_threads"), [(0, 0), (1, 0), (3, 0), (0, 3), (3, 3)])
def test_each_sample_gets_its_own_answer_in_shared_batches(kind: str, at_once: int, step_threads: int) -> None:
    recorder, count = Recorder(), 60
    session, inner = load(recorder, kind, at_once=at_once, step_threads=step_threads)
    compute_all(session, samples(count))
    assert recorder.answers == {row: (sample * 4).tolist() for row, sample in enumerate(samples(count))}
    assert sum(inner.batches) == 2 * sum(len(sample) for sample in samples(count))
    if not at_once:
        assert max(inner.batches) == BATCH
    session.close()


@every_engine
@pytest.mark.parametrize("at_once", [1, 3])
def test_no_more_samples_are_under_way_than_there_may_be(kind: str, at_once: int) -> None:
    recorder, lock = Recorder(), threading.Lock()
    under_way: set[float] = set()
    most = []

    def go(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
        name = float(sample["x"][0])
        with lock:
            under_way.add(name)
            most.append(len(under_way))
        (found,) = yield {"x": sample["x"][:, None]}
        (found,) = yield {"x": found[:1]}
        with lock:
            under_way.remove(name)
        return found[0]

    plan = make_plan(recorder, streams=2)
    session = LoopSession(ENGINES[kind], plan, go, at_once=at_once)
    compute_all(session, samples(40))
    session.close()
    assert recorder.answers == {row: [400.0 * row] for row in range(40)}
    assert max(most) <= at_once


def test_the_rows_of_one_sample_are_computed_by_all_streams() -> None:
    """A batch of each meets those of the others."""
    streams = 4
    together = threading.Barrier(streams)

    class Meeting(Calling):
        def compute_on(self, stream: int, rows: Rows) -> Outputs:
            together.wait(timeout=30)
            return super().compute_on(stream, rows)

    def ask(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
        (found,) = yield {"x": sample["x"][:, None]}
        return found[:, 0]

    recorder = Recorder()
    session = LoopSession(Meeting, make_plan(recorder, streams=streams), ask)
    compute_all(session, Ragged([np.arange(2 * streams * BATCH) + 100.0]))
    session.close()
    assert recorder.failures == {}
    assert recorder.answers == {0: (2 * np.arange(2 * streams * BATCH) + 200.0).tolist()}


@every_engine
def test_a_failed_batch_fails_its_samples_once_and_no_others(kind: str) -> None:
    recorder = Recorder()
    session, _ = load(recorder, kind, at_once=1)
    compute_all(session, Ragged([np.array([1.0, 2]), np.array([13.0] * 9), np.array([6.5]), np.array([3.0])]))
    assert recorder.answers == {0: [4, 8], 3: [12]}
    assert recorder.failures == {1: "unlucky", 2: "unlucky"}  # 6.5 is 13 in its second call
    with pytest.raises(ValueError, match="unlucky"):
        session.compute(slice(1, 2))
    session.close()


@every_engine
def test_a_loop_that_raises_or_asks_for_nothing_fails_its_sample(kind: str) -> None:
    recorder = Recorder()
    session, _ = load(recorder, kind)
    compute_all(session, Ragged([np.zeros(0), np.ones(1)]))
    assert recorder.answers == {1: [4]}
    assert "requested inputs of [0] rows" in recorder.failures[0]
    session.close()


def test_of_two_engines_the_one_with_a_full_batch_comes_first() -> None:
    """However many rows the other one has, whose batches are larger."""
    recorder, begun, go_on = Recorder(), [], threading.Event()

    class Large(Calling):
        batch_size = 16 * BATCH

        def compute_on(self, stream: int, rows: Rows) -> Outputs:
            begun.append("large")
            return self.compute(rows)

    class Small(Calling):
        def compute_on(self, stream: int, rows: Rows) -> Outputs:
            begun.append("small")
            return super().compute_on(stream, rows)

    def go(sample: Arrays) -> Generator[Asked, Outputs, np.ndarray]:
        number = int(sample["x"][0])
        begun.append(f"sample {number}")
        if number == 0:
            go_on.wait(timeout=30)  # all others wait to be begun
        part, rows = ("small", BATCH) if number == 2 else ("large", 2 * BATCH)
        (found,) = yield part, {"x": np.full((rows, 1), float(number))}
        return found[0]

    plan = replace(make_plan(recorder, streams=1), engine=Path("engines"))

    def make(plan: LoadPlan) -> Session:
        assert plan.engine is not None
        return (Large if plan.engine.name == "large" else Small)(plan)

    session = LoopSession(make, plan, go, parts={"large": (), "small": ()})
    session.place({"x": Ragged([np.array([float(row)]) for row in range(5)])})
    for row in range(5):
        session.submit(slice(row, row + 1), [row])
    go_on.set()
    session.drain()
    session.close()
    assert begun == ["sample 0", "sample 1", "sample 2", "small", "sample 3", "sample 4", "large"]
    assert recorder.answers == {row: [2.0 * row] for row in range(5)}


@every_engine
def test_parts_of_a_model_have_an_engine_each_and_samples_go_from_one_to_the_other(kind: str, tmp_path: Path) -> None:
    recorder, count, made = Recorder(), 30, {}

    def make(plan: LoadPlan) -> Session:
        assert plan.engine is not None
        made[plan.engine.name] = ENGINES[kind](plan)
        return made[plan.engine.name]

    def go(sample: Arrays) -> Generator[Asked, Outputs, np.ndarray]:
        (first,) = yield "front", {"x": sample["x"][:, None]}
        (second,) = yield "back", {"x": first[:1].repeat(3, axis=1)}  # another shape than that of the front
        if sample["x"][0] == 700:
            yield "side", {"x": first}
        return second

    plan = replace(make_plan(recorder, streams=2), engine=tmp_path)
    session = LoopSession(make, plan, go, parts={"front": (), "back": ()})
    compute_all(session, samples(count))
    assert recorder.answers == {row: [[400.0 * row] * 3] for row in range(count) if row != 7}
    assert "requested the part 'side'" in recorder.failures[7]
    assert sum(made["back"].batches) == count
    session.close()
