"""Threads that compute one batch at a time, and several batches that are handed over at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from harness.backends import BackendEngine, LoadPlan, Outputs, Tensor, Token
from harness.backends.streams import StreamSession
from harness.run.qsl import Rows, count_rows
from tests.unit.harness.plans import make_load_plan

VALUES = np.arange(40, dtype=np.float32).reshape(20, 2)
ENGINE = BackendEngine(
    backend="doubling",
    version="1",
    file="",
    precision="fp32",
    batch_size=4,
    batch_sizes=(),
    inputs=(Tensor("values", (2,), "float32"),),
    outputs=(Tensor("doubled", (2,), "float32"), Tensor("sum", (), "float32")),
)


class Doubling(StreamSession):
    """Fails at the sample 19."""

    makes_new_outputs = True

    def __init__(self, plan: LoadPlan, engine: BackendEngine = ENGINE) -> None:
        super().__init__(plan, engine)
        self.computed: list[int] = []

    def _run(self, stream: int, rows: Rows) -> Outputs:
        (values,) = self._staging[stream].batch(rows)
        self.computed.append(count_rows(rows))
        if (values == VALUES[19]).all(axis=1).any():
            raise RuntimeError("it cannot double that")
        return [values * 2, values.sum(axis=1)]


class Driver:
    """Submits to one session, and keeps what comes back."""

    def __init__(self, kind: type[Doubling] = Doubling, engine: BackendEngine = ENGINE) -> None:
        self.completed: dict[tuple[int, ...], list[np.ndarray]] = {}
        self.failed: dict[tuple[int, ...], str] = {}
        self.lock = threading.Lock()
        self.session = kind(
            make_load_plan(
                batch_size=4,
                streams=2,
                threads=1,
                outputs=engine.outputs,
                completed=self.complete,
                failed=lambda token, error: self.failed.update({tuple(token): str(error)}),
            ),
            engine,
        )
        self.session.place({"values": VALUES})

    def complete(self, token: Token, outputs: Outputs) -> None:
        with self.lock:
            self.completed[tuple(token)] = [np.array(output) for output in outputs]

    def submit(self, *batches: Sequence[int]) -> None:
        for rows in batches:
            self.session.submit(np.array(rows, np.intp), list(rows))
        self.session.drain()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.session.close()


def test_several_batches_are_computed_one_by_one_and_completed_together(driver: Driver) -> None:
    assert driver.session.takes_several
    rows = [3, 4, 5, 6, 1, 18, 0, 7, 2, 2]
    driver.submit(rows)
    assert driver.session.computed == [4, 4, 2]
    assert list(driver.completed) == [tuple(rows)]
    doubled, sums = driver.completed[tuple(rows)]
    assert np.array_equal(doubled, VALUES[rows] * 2)
    assert np.array_equal(sums, VALUES[rows].sum(axis=1))


def test_what_fails_fails_the_batches_that_came_with_it_and_no_others(driver: Driver) -> None:
    driver.submit([0, 1, 2, 3, 4, 19], [5, 6, 7, 8, 9])
    assert driver.failed == {(0, 1, 2, 3, 4, 19): "it cannot double that"}
    assert list(driver.completed) == [(5, 6, 7, 8, 9)]


def test_a_stream_that_cannot_begin_refuses_every_batch() -> None:
    class Lame(Doubling):
        def _begin(self, stream: int) -> None:
            if stream == 1:
                raise RuntimeError("lame")

    driver = Driver(Lame)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="lame"):
            driver.submit([0, 1])
    driver.session.drain()
    driver.session.close()
    assert driver.completed == {}


@pytest.mark.parametrize("error", [SystemExit("lame"), type("Panic", (BaseException,), {})("lame")])
def test_a_stream_that_ends_its_thread_as_it_begins_is_not_waited_for(error: BaseException) -> None:
    class Lame(Doubling):
        def _begin(self, stream: int) -> None:
            if stream == 1:
                raise error

    driver = Driver(Lame)
    with pytest.raises(RuntimeError, match=f"{type(error).__name__}: lame"):
        driver.submit([0, 1])
    driver.session.drain()
    driver.session.close()
