"""Samples of several engine calls: rows share batches, each sample gets its own outputs, and failures stay theirs."""

from __future__ import annotations

import threading
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
from harness.run.qsl import Arrays, Ragged, Rows, SampleLibrary, count_rows, take_rows
from harness.run.running_sample import Asked

BATCH = 4


class Doubling:
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


class Told:
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
    told: Told, kind: str, *, streams: int = 2, at_once: int = 0, step_threads: int = 0
) -> tuple[LoopSession, Doubling]:
    inner: list[Doubling] = []

    def make(plan: LoadPlan) -> Session:
        inner.append(ENGINES[kind](plan))
        return inner[0]

    plan = make_plan(told, streams=streams)
    return LoopSession(make, plan, double_twice, at_once=at_once, step_threads=step_threads), inner[0]


def make_plan(told: Told, *, streams: int) -> LoadPlan:
    return LoadPlan(
        engine=None, scenario="Offline", batch_size=BATCH, streams=streams, threads=0, outputs=(), options={},
        completed=told.completed, failed=told.failed,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["in place", "on call"])
def test_what_the_engine_tells_until_it_is_closed_is_told(kind: str) -> None:
    session, inner = load(Told(), kind)
    session.place({"x": samples(3)})
    session.compute(slice(0, 1))
    session.close()
    assert dict(session.notes) == {"streams": 2, "samples_at_once": 16, "batches": len(inner.batches)}
    assert session.evidence == {"server.version": "2"}


def samples(count: int) -> Ragged:
    return Ragged([np.arange(1 + row % 7, dtype=np.float64) + 100 * row for row in range(count)])


@every_engine
def test_samples_compute_side_by_side_between_two_questions(kind: str) -> None:
    """Each waits for the other in its own part of the loop."""
    told, both = Told(), threading.Barrier(2)

    def meet(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
        (found,) = yield {"x": sample["x"][:1, None]}
        both.wait(timeout=30)
        if sample["x"][0] == 300:
            raise ValueError("odd")
        return found[0]

    plan = make_plan(told, streams=2)
    session = LoopSession(ENGINES[kind], plan, meet, at_once=2, step_threads=2)
    session.place({"x": samples(4)})
    for row in range(4):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    session.close()
    assert told.answers == {row: [200.0 * row] for row in range(3)}
    assert told.failures == {3: "odd"}


@every_engine
@pytest.mark.parametrize(("at_once", "step_threads"), [(0, 0), (1, 0), (3, 0), (0, 3), (3, 3)])
def test_each_sample_gets_its_own_answer_whatever_shares_its_batches(
    kind: str, at_once: int, step_threads: int
) -> None:
    told, count = Told(), 60
    session, inner = load(told, kind, at_once=at_once, step_threads=step_threads)
    session.place({"x": samples(count)})
    for row in range(count):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    assert told.answers == {row: (sample * 4).tolist() for row, sample in enumerate(samples(count))}
    assert sum(inner.batches) == 2 * sum(len(sample) for sample in samples(count))
    if not at_once:
        assert max(inner.batches) == BATCH
    session.close()


@every_engine
@pytest.mark.parametrize("at_once", [1, 3])
def test_no_more_samples_are_under_way_than_there_may_be(kind: str, at_once: int) -> None:
    told, lock = Told(), threading.Lock()
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

    plan = make_plan(told, streams=2)
    session = LoopSession(ENGINES[kind], plan, go, at_once=at_once)
    session.place({"x": samples(40)})
    for row in range(40):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    session.close()
    assert told.answers == {row: [400.0 * row] for row in range(40)}
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

    told = Told()
    session = LoopSession(Meeting, make_plan(told, streams=streams), ask)
    session.place({"x": Ragged([np.arange(2 * streams * BATCH) + 100.0])})
    session.submit(slice(0, 1), [0])
    session.drain()
    session.close()
    assert told.failures == {}
    assert told.answers == {0: (2 * np.arange(2 * streams * BATCH) + 200.0).tolist()}


@every_engine
def test_a_wrong_question_or_answer_fails_its_own_sample_alone(kind: str) -> None:
    def ask(sample: Arrays) -> Generator[Arrays, Outputs, Any]:
        (found,) = yield {"x": sample["x"][:1, None]}
        if sample["x"][0] == 1:
            yield {"y": sample["x"][:BATCH, None]}
        return found[0] if sample["x"][0] != 2 else [[1], [1, 2]]

    told = Told()
    session = LoopSession(ENGINES[kind], make_plan(told, streams=1), ask, at_once=1)
    session.place({"x": Ragged([np.full(BATCH, float(row)) for row in range(4)])})
    for row in range(4):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    session.close()
    assert told.answers == {0: [0.0], 3: [6.0]}
    assert sorted(told.failures) == [1, 2]


def test_an_engine_that_minds_zeros_computes_samples_all_the_same() -> None:
    """Where it computes on call it is first given a batch of zeros."""

    class Minding(Calling):
        def compute(self, rows: Rows) -> Outputs:
            if not self._placed[rows].all():
                raise ValueError("zeros")
            return super().compute(rows)

    told = Told()
    session = LoopSession(Minding, make_plan(told, streams=2), double_twice)
    session.place({"x": Ragged([np.array([1.0, 2]), np.array([3.0])])})
    for row in range(2):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    session.close()
    assert told.answers == {0: [4, 8], 1: [12]}


@every_engine
def test_compute_gives_the_answer_on_the_calling_thread(kind: str) -> None:
    session, _ = load(Told(), kind)
    session.place({"x": samples(8)})
    (answer,) = session.compute(slice(6, 7))
    assert answer.tolist() == (samples(8)[6] * 4).tolist()
    session.close()


@every_engine
def test_a_failed_batch_fails_its_samples_once_and_no_others(kind: str) -> None:
    told = Told()
    session, _ = load(told, kind, at_once=1)
    session.place({"x": Ragged([np.array([1.0, 2]), np.array([13.0] * 9), np.array([6.5]), np.array([3.0])])})
    for row in range(4):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    assert told.answers == {0: [4, 8], 3: [12]}
    assert told.failures == {1: "unlucky", 2: "unlucky"}  # 6.5 is 13 in its second call
    with pytest.raises(ValueError, match="unlucky"):
        session.compute(slice(1, 2))
    session.close()


@every_engine
def test_a_loop_that_raises_or_asks_for_nothing_fails_its_sample(kind: str) -> None:
    told = Told()
    session, _ = load(told, kind)
    session.place({"x": Ragged([np.zeros(0), np.ones(1)])})
    for row in range(2):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    assert told.answers == {1: [4]}
    assert "asked for inputs of [0] rows" in told.failures[0]
    session.close()


@every_engine
def test_a_sample_that_cannot_be_built_keeps_no_place(kind: str) -> None:
    """There is one place."""

    def refuse(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
        if sample["x"][0] < 200:
            raise ValueError("odd")
        return double_twice(sample)

    told = Told()
    session = LoopSession(ENGINES[kind], make_plan(told, streams=1), refuse, at_once=1)
    session.place({"x": samples(4)})
    for row in range(2):
        with pytest.raises(ValueError, match="odd"):
            session.submit(slice(row, row + 1), [row])
    for row in range(2, 4):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    session.close()
    assert sorted(told.answers) == [2, 3]


@every_engine
def test_where_a_process_may_have_no_more_threads_a_sample_keeps_no_place(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, start = Told(), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "loops":
            raise RuntimeError("can't start new thread")
        start(thread)

    session = LoopSession(ENGINES[kind], make_plan(told, streams=1), double_twice, at_once=1)
    session.place({"x": samples(4)})
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for row in range(2):
            try:
                session.submit(slice(row, row + 1), [row])
            except RuntimeError as error:
                told.failures[row] = str(error)
        session.drain()
    session.close()
    assert told.failures == dict.fromkeys(range(2), "can't start new thread")


def test_an_engine_that_copies_is_given_each_batch_once() -> None:
    class Copying(Doubling):
        def __init__(self, plan: LoadPlan) -> None:
            super().__init__(plan, in_place=False)
            self.given: list[list[float]] = []

        def place(self, samples: Arrays) -> None:
            super().place(samples)
            self.given.append(self._placed.ravel().tolist())

    inner: list[Copying] = []

    def make(plan: LoadPlan) -> Session:
        inner.append(Copying(plan))
        return inner[0]

    session = LoopSession(make, make_plan(Told(), streams=1), double_twice, at_once=1)
    session.place({"x": Ragged([np.array([1.0, 2.0])])})
    (answer,) = session.compute(slice(0, 1))
    session.close()
    assert answer.tolist() == [4, 8]
    assert [given[0] for given in inner[0].given] == [1, 2, 4]


def test_of_two_engines_the_one_with_a_full_batch_comes_first() -> None:
    """However many rows the other one has, whose batches are larger."""
    told, begun, go_on = Told(), [], threading.Event()

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

    plan = replace(make_plan(told, streams=1), engine=Path("engines"))

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
    assert told.answers == {row: [2.0 * row] for row in range(5)}


def test_a_stream_that_cannot_begin_ends_every_sample_with_its_reason() -> None:
    class Lame(Calling):
        def begin_stream(self, stream: int) -> None:
            super().begin_stream(stream)
            if stream == 1:
                raise ValueError("lame")

    told = Told()
    session = LoopSession(Lame, make_plan(told, streams=2), double_twice, at_once=1)
    session.place({"x": samples(3)})
    for row in range(3):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    with pytest.raises(ValueError, match="lame"):
        session.compute(slice(0, 1))
    session.close()
    assert told.answers == {}
    assert told.failures == dict.fromkeys(range(3), "lame")


def test_samples_of_different_sizes_are_held_once_and_found_by_their_index() -> None:
    library_samples, placed = samples(10), {}
    library = SampleLibrary({"x": library_samples}, placed.update, pytest.fail)
    library.load([7, 2, 7, 9])
    assert len(library_samples) == library.total_count == 10
    assert library_samples.shape == (10, -1)
    for index in (7, 2, 9):
        row = library.rows([index])
        assert isinstance(row, slice)
        assert placed["x"][row.start].tolist() == library_samples[index].tolist()
    assert placed["x"][0] is placed["x"][2]


def test_rows_of_an_array_are_taken_in_their_order() -> None:
    assert take_rows(np.arange(5), np.array([3, 1])).tolist() == [3, 1]


@every_engine
def test_parts_of_a_model_have_an_engine_each_and_samples_go_from_one_to_the_other(kind: str, tmp_path: Path) -> None:
    told, count, made = Told(), 30, {}

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

    plan = replace(make_plan(told, streams=2), engine=tmp_path)
    session = LoopSession(make, plan, go, parts={"front": (), "back": ()})
    session.place({"x": samples(count)})
    for row in range(count):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    assert told.answers == {row: [[400.0 * row] * 3] for row in range(count) if row != 7}
    assert "asked for the part 'side'" in told.failures[7]
    assert sum(made["back"].batches) == count
    session.close()
