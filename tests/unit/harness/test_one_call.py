"""Samples of many rows that take one call each: whole samples make batches, and each gets the answers of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.backends import LoadPlan, Outputs, Session, Token
from harness.benchmarks.dlrm_v2.criteo import CriteoBenchmark, loop
from harness.contract import Counter
from harness.run.loops import LoopSession
from harness.run.one_call import OneCall, OneCallSession
from harness.run.qsl import Arrays, Ragged, Rows, SampleLibrary, count_rows
from harness.run.sut import Completer, Guard, OfflineSut, ServerSut
from tests.unit.harness.test_loops import Recorder, make_plan

BATCH = 24
SIZES = (3, 1, 7, 7, 2, 5, 4, 6, 1, 7)


class Summing(Session):
    """Sums its rows at once, on the thread that submits; rows that hold 13 fail."""

    batch_size = BATCH
    sizes: Sequence[int] = ()
    notes: dict[str, Any] = {}  # noqa: RUF012 - nothing is added

    def __init__(self, plan: LoadPlan) -> None:
        self._plan, self._placed = plan, np.zeros((0, 2))
        self.batches: list[int] = []

    def place(self, samples: Arrays) -> None:
        self._placed = samples["x"]

    def compute(self, rows: Rows) -> Outputs:
        return [self._placed[rows].sum(axis=1)]

    def submit(self, rows: Rows, token: Token) -> None:
        self.batches.append(count_rows(rows))
        if (self._placed[rows] == 13).any():
            self._plan.failed(token, ValueError("unlucky"))
        else:
            self._plan.completed(token, self.compute(rows))

    def ready(self) -> None:
        return

    drain = close = ready


def make_samples(*, unlucky: int = -1) -> dict[str, Ragged]:
    rows = [np.arange(2.0 * size).reshape(size, 2) + 1000 * number for number, size in enumerate(SIZES)]
    if unlucky >= 0:
        rows[unlucky][0, 0] = 13
    return {"x": Ragged(rows), "label": Ragged([np.full(size, float(number)) for number, size in enumerate(SIZES)])}


def answer(outputs: Outputs, given: Arrays) -> np.ndarray:
    return np.stack([outputs[0], given["label"]], axis=1)


def open_session(plan: LoadPlan) -> tuple[OneCallSession, list[Summing]]:
    engines: list[Summing] = []

    def load(plan: LoadPlan) -> Summing:
        engines.append(Summing(plan))
        return engines[0]

    return OneCallSession(load, plan, OneCall(("x",), 1, max(SIZES), answer)), engines


def expected(number: int) -> list[list[float]]:
    x = np.array(make_samples()["x"][number])
    return np.stack([x.sum(axis=1), np.full(len(x), float(number))], axis=1).tolist()


class Log:
    def __init__(self) -> None:
        self.answers: dict[int, Any] = {}

    def complete(self, ids: Sequence[int], responses: Any) -> None:
        for place, identity in enumerate(ids):
            assert identity not in self.answers
            self.answers[identity] = None if responses is None else responses[place].tolist()


def issue(
    folder: Path, kind: type[OfflineSut] | type[ServerSut], order: list[int], **samples: int
) -> tuple[Log, Guard, Summing]:
    """Queries through everything between LoadGen and the engine."""
    log, guard = Log(), Guard()
    completer = Completer(log, lambda outputs, _: outputs, Counter(folder / "counter"), guard)
    plan = replace(make_plan(Recorder(), streams=1), completed=completer.completed, failed=completer.failed)
    session, engines = open_session(plan)
    library = SampleLibrary(make_samples(**samples), session.place, guard.record)
    library.load(list(range(len(SIZES))))
    made: Any = kind(session, library, completer, guard, **({"delay": 0.0} if kind is ServerSut else {}))
    made.issue([100 + place for place in range(len(order))], order)
    made.flush()
    made.close()
    return log, guard, engines[0]


@pytest.mark.parametrize("kind", [OfflineSut, ServerSut])
@pytest.mark.parametrize("order", [list(range(10)), [9, 3, 3, 0, 7, 1, 8, 2, 5, 4, 6, 6, 0]], ids=["rows", "mixed"])
def test_each_sample_gets_answers_of_its_rows_in_any_batch(tmp_path: Path, kind: Any, order: list[int]) -> None:
    log, guard, engine = issue(tmp_path, kind, order)
    assert guard.failure is None
    assert log.answers == {100 + place: expected(number) for place, number in enumerate(order)}
    assert sum(engine.batches) == sum(SIZES[number] for number in order)
    assert max(engine.batches) <= BATCH
    if kind is OfflineSut:
        assert len(engine.batches) <= 1 + -(-sum(engine.batches) // (BATCH - max(SIZES)))


def test_a_failed_batch_fails_the_run_and_every_sample_is_completed_once(tmp_path: Path) -> None:
    log, guard, _ = issue(tmp_path, OfflineSut, list(range(10)), unlucky=4)
    assert isinstance(guard.failure, ValueError)
    assert sorted(log.answers) == [100 + place for place in range(10)]
    assert log.answers[104] is None


def test_pairs_are_answered_alike_whole_and_sample_by_sample() -> None:
    rng = np.random.default_rng(1)
    sizes = (100, 300, 200)
    samples = {
        "dense": Ragged([rng.random((size, 1)) for size in sizes]),
        "sparse": Ragged([rng.random((size, 1)) for size in sizes]),
        "labels": Ragged([rng.integers(0, 2, size).astype(np.float32) for size in sizes]),
    }

    class Product(Summing):
        batch_size = 700

        def place(self, samples: Arrays) -> None:
            self._arrays = {name: np.array(rows) for name, rows in samples.items()}

        def compute(self, rows: Rows) -> Outputs:
            return [(self._arrays["dense"] * self._arrays["sparse"])[rows].astype(np.float32)]

        def submit(self, rows: Rows, token: Token) -> None:
            self._plan.completed(token, self.compute(rows))

    plan = replace(make_plan(Recorder(), streams=1), batch_size=700)
    found = []
    for session in (OneCallSession(Product, plan, CriteoBenchmark.one_call), LoopSession(Product, plan, loop)):
        session.place(samples)
        found.append([np.array(rows).tolist() for rows in session.compute(slice(0, 3))])
    session.close()
    assert found[0] == found[1]
