"""Samples of several engine calls: rows share batches, each sample gets its own outputs, and failures stay theirs."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.loops import LoopSession
from harness.qsl import Arrays, Ragged, Rows, SampleLibrary, count_rows, take_rows
from harness.row_batches import Asked

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
    told: Told, *, in_place: bool, streams: int = 2, at_once: int = 0, step_threads: int = 0
) -> tuple[LoopSession, Doubling]:
    inner: list[Doubling] = []

    def make(plan: LoadPlan) -> Session:
        inner.append(Doubling(plan, in_place=in_place))
        return inner[0]

    plan = make_plan(told, streams=streams)
    return LoopSession(make, plan, double_twice, at_once=at_once, step_threads=step_threads), inner[0]


def make_plan(told: Told, *, streams: int) -> LoadPlan:
    return LoadPlan(
        engine=None, scenario="Offline", batch_size=BATCH, streams=streams, threads=0, outputs=(), options={},
        completed=told.completed, failed=told.failed,
    )  # fmt: skip


def test_what_the_engine_tells_until_it_is_closed_is_told() -> None:
    session, inner = load(Told(), in_place=True)
    session.place({"x": samples(3)})
    session.compute(slice(0, 1))
    session.close()
    assert dict(session.notes) == {"streams": 2, "samples_at_once": 16, "batches": len(inner.batches)}
    assert session.evidence == {"server.version": "2"}


def samples(count: int) -> Ragged:
    return Ragged([np.arange(1 + row % 7, dtype=np.float64) + 100 * row for row in range(count)])


def test_samples_compute_side_by_side_between_two_questions() -> None:
    """Each waits for the other in its own part of the loop."""
    told, both = Told(), threading.Barrier(2)

    def meet(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
        (found,) = yield {"x": sample["x"][:1, None]}
        both.wait(timeout=30)
        if sample["x"][0] == 300:
            raise ValueError("odd")
        return found[0]

    plan = make_plan(told, streams=2)
    session = LoopSession(lambda plan: Doubling(plan, in_place=True), plan, meet, at_once=2, step_threads=2)
    session.place({"x": samples(4)})
    for row in range(4):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    session.close()
    assert told.answers == {row: [200.0 * row] for row in range(3)}
    assert told.failures == {3: "odd"}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(("at_once", "step_threads"), [(0, 0), (1, 0), (3, 0), (0, 3), (3, 3)])
def test_each_sample_gets_its_own_answer_whatever_shares_its_batches(
    in_place: bool, at_once: int, step_threads: int
) -> None:
    told, count = Told(), 60
    session, inner = load(told, in_place=in_place, at_once=at_once, step_threads=step_threads)
    session.place({"x": samples(count)})
    for row in range(count):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    assert told.answers == {row: (sample * 4).tolist() for row, sample in enumerate(samples(count))}
    assert sum(inner.batches) == 2 * sum(len(sample) for sample in samples(count))
    if not at_once:
        assert max(inner.batches) == BATCH
    session.close()


def test_compute_gives_the_answer_on_the_calling_thread() -> None:
    session, _ = load(Told(), in_place=True)
    session.place({"x": samples(8)})
    (answer,) = session.compute(slice(6, 7))
    assert answer.tolist() == (samples(8)[6] * 4).tolist()
    session.close()


def test_a_failed_batch_fails_its_samples_once_and_no_others() -> None:
    told = Told()
    session, _ = load(told, in_place=True, at_once=1)
    session.place({"x": Ragged([np.array([1.0, 2]), np.array([13.0] * 9), np.array([6.5]), np.array([3.0])])})
    for row in range(4):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    assert told.answers == {0: [4, 8], 3: [12]}
    assert told.failures == {1: "unlucky", 2: "unlucky"}  # 6.5 is 13 in its second call
    with pytest.raises(ValueError, match="unlucky"):
        session.compute(slice(1, 2))
    session.close()


def test_a_loop_that_raises_or_asks_for_nothing_fails_its_sample() -> None:
    told = Told()
    session, _ = load(told, in_place=True)
    session.place({"x": Ragged([np.zeros(0), np.ones(1)])})
    for row in range(2):
        session.submit(slice(row, row + 1), [row])
    session.drain()
    assert told.answers == {1: [4]}
    assert "asked for inputs of [0] rows" in told.failures[0]
    session.close()


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


def test_parts_of_a_model_have_an_engine_each_and_samples_go_from_one_to_the_other(tmp_path: Path) -> None:
    told, count, made = Told(), 30, {}

    def make(plan: LoadPlan) -> Session:
        assert plan.engine is not None
        made[plan.engine.name] = Doubling(plan, in_place=True)
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
