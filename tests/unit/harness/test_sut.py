"""Batching and completion without LoadGen: every sample exactly once, with its own answer."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.backends import BackendEngine, LoadPlan, Outputs, Session, Tensor, Token
from harness.backends.streams import StreamSession
from harness.contract import Counter
from harness.run.qsl import Arrays, Rows, SampleLibrary, count_rows
from harness.run.sut import Completer, Guard, OfflineSut, ServerSut, StreamSut, strip_padding
from tests.unit.harness.plans import make_load_plan

VALUES = np.arange(40, dtype=np.int32)


class FakeSession(Session):
    """Answers with the resident values. Completes when drained, in an order of its own; ``hold`` keeps streams busy."""

    def __init__(self, batch_size: int, order: Callable[[list[int]], None] = lambda _: None) -> None:
        self.batch_size = batch_size
        self.notes: dict[str, int] = {}
        self.sizes: Sequence[int] = ()
        self.submitted: list[int] = []
        self.most_batches = 1
        self.hold = threading.Event()
        self.hold.set()
        self._order = order
        self._kept: list[tuple[Rows, Token]] = []
        self._values = np.empty(0, np.int32)
        self.completed: Callable[[Token, Outputs], None] = lambda _token, _outputs: None

    def place(self, samples: Arrays) -> None:
        self._values = samples["values"]

    def compute(self, rows: Rows) -> Outputs:
        return [self._values[rows]]

    def submit(self, rows: Rows, token: Token) -> None:
        assert len(token) <= self.batch_size * self.most_batches
        self.submitted.append(len(token))
        self._kept.append((rows, token))

    def ready(self) -> None:
        assert self.hold.wait(60)

    def drain(self) -> None:
        order = list(range(len(self._kept)))
        self._order(order)
        for number in order:
            rows, token = self._kept[number]
            self.completed(token, self.compute(rows))
        self._kept.clear()

    def close(self) -> None:
        return


class Answers:
    """What LoadGen would be given."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int | None]] = []

    def complete(self, ids: Sequence[int], responses: np.ndarray | None) -> None:
        values = [None] * len(ids) if responses is None else responses.tolist()
        self.given.extend(zip(ids, values, strict=True))


class Bench:
    """A SUT over a fake session, with all 40 samples loaded in a mixed order."""

    def __init__(self, folder: Path, session: FakeSession) -> None:
        self.counter = folder / "counter"
        self.answers, self.guard, self.session = Answers(), Guard(), session
        self.completer = Completer(
            self.answers, lambda outputs, _indices: outputs[0], Counter(self.counter), self.guard
        )
        session.completed = self.completer.completed
        self.library = SampleLibrary({"values": VALUES}, session.place, self.guard.record)
        self.library.load(random.Random(1).sample(range(40), 40))
        self.parts = (session, self.library, self.completer, self.guard)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 39), min_size=1, max_size=90), st.integers(1, 17), st.randoms(use_true_random=False))
def test_offline_completes_each_sample_once_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, indices: list[int], batch_size: int, rng: random.Random
) -> None:
    bench = Bench(tmp_path_factory.mktemp("bench"), FakeSession(batch_size, rng.shuffle))
    ids = [1000 + number for number in range(len(indices))]
    sut = OfflineSut(*bench.parts)
    sut.issue(ids, indices)
    sut.flush()
    assert sorted(bench.answers.given) == [(i, int(VALUES[index])) for i, index in zip(ids, indices, strict=True)]
    assert bench.completer.samples == len(indices)
    assert bench.completer.batches == -(-len(indices) // batch_size)
    assert bench.guard.failure is None


@pytest.mark.parametrize(
    ("samples", "submitted"),
    [
        (127 * 4 + 3, [4] * 127 + [3]),
        (128 * 4, [8] + [4] * 126),
        (192 * 4 + 1, [12] + [8] * 31 + [4] * 127 + [1]),
        (1_000 * 4, [12] * 270 + [8] * 32 + [4] * 126),
    ],
    ids=["a-small-query", "two", "a-shorter-end", "no-more-than-asked-for"],
)
def test_offline_hands_over_several_batches_at_once(tmp_path: Path, samples: int, submitted: list[int]) -> None:
    session = FakeSession(4)
    session.most_batches = 3
    bench = Bench(tmp_path, session)
    sut = OfflineSut(*bench.parts, at_once=3)
    ids, indices = list(range(5, samples + 5)), [(7 * number) % 40 for number in range(samples)]
    sut.issue(ids, indices)
    sut.flush()
    assert session.submitted == submitted
    assert bench.answers.given == [(i, int(VALUES[index])) for i, index in zip(ids, indices, strict=True)]
    assert bench.completer.samples == samples
    assert bench.completer.batches == -(-samples // 4)


@pytest.mark.parametrize("batch_size", [8, 3])
def test_stream_answers_before_it_returns(batch_size: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSession(batch_size))
    sut = StreamSut(*bench.parts)
    sut.issue([1, 2, 3, 4, 5, 6, 7, 8], [9, 9, 0, 39, 4, 5, 6, 7])
    assert dict(bench.answers.given) == dict(enumerate([9, 9, 0, 39, 4, 5, 6, 7], start=1))


def test_server_batches_grow_while_every_stream_is_busy(tmp_path: Path) -> None:
    session = FakeSession(8)
    session.hold.clear()
    bench = Bench(tmp_path, session)
    sut = ServerSut(*bench.parts, delay=0)
    for number in range(20):
        sut.issue([100 + number], [number])
    session.hold.set()
    sut.flush()
    assert session.submitted == [8, 8, 4]
    assert sorted(bench.answers.given) == [(100 + number, number) for number in range(20)]
    sut.close()


def test_server_leaves_what_would_be_padded_to_the_next_batch(tmp_path: Path) -> None:
    session = FakeSession(16)
    session.sizes = (1, 2, 4, 8, 12, 16)
    session.hold.clear()
    bench = Bench(tmp_path, session)
    two = threading.Event()
    submit = session.submit

    def report(rows: Rows, token: Token) -> None:
        submit(rows, token)
        if len(session.submitted) == 2:
            two.set()

    session.submit = report  # type: ignore[method-assign]
    sut = ServerSut(*bench.parts, delay=0)
    sut.issue([100 + number for number in range(15)], list(range(15)))
    session.hold.set()
    assert two.wait(60)
    sut.flush()
    assert session.submitted == [12, 3]
    assert sorted(bench.answers.given) == [(100 + number, number) for number in range(15)]
    sut.close()


@pytest.mark.parametrize(
    ("count", "sizes", "batch"),
    [
        (143, range(16, 257, 16), 128),
        (63, range(16, 257, 16), 63),  # such a small batch comes of little load, where latency counts more
        (159, range(16, 257, 16), 144),
        (256, range(16, 257, 16), 256),
        (200, (256,), 200),  # an engine of one size pads whatever it is given
        (9, (), 9),
    ],
)
def test_how_many_make_a_batch(count: int, sizes: Sequence[int], batch: int) -> None:
    assert strip_padding(count, sizes, 256) == batch


def test_server_waits_for_a_full_batch_but_not_past_a_flush(tmp_path: Path) -> None:
    """The delay is far longer than the test may take."""
    bench = Bench(tmp_path, FakeSession(4))
    sut = ServerSut(*bench.parts, delay=3600)
    for number in range(6):
        sut.issue([100 + number], [number])
    sut.flush()
    assert bench.session.submitted == [4, 2]
    sut.issue([7], [7])  # a second part of an accuracy run
    sut.flush()
    assert len(bench.answers.given) == 7
    sut.close()


def test_queries_during_completions_are_all_answered(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSession(16))
    sut = ServerSut(*bench.parts, delay=0)
    for number in range(20_000):
        sut.issue([number], [number % 40])
    sut.flush()
    assert sorted(bench.answers.given) == [(number, number % 40) for number in range(20_000)]
    sut.close()


def test_after_a_failure_the_rest_is_answered_without_computing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeSession(4))
    sut = OfflineSut(*bench.parts)
    sut.issue([1], [999])  # no such sample
    sut.issue([2, 3], [2, 3])
    sut.flush()
    assert sorted(bench.answers.given) == [(1, None), (2, None), (3, None)]
    assert isinstance(bench.guard.failure, IndexError)
    assert bench.session.submitted == []


VALUES_STREAMS = np.arange(40, dtype=np.float32).reshape(20, 2)
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
        if (values == VALUES_STREAMS[19]).all(axis=1).any():
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
        self.session.place({"values": VALUES_STREAMS})

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
    assert np.array_equal(doubled, VALUES_STREAMS[rows] * 2)
    assert np.array_equal(sums, VALUES_STREAMS[rows].sum(axis=1))


def test_what_fails_fails_the_batches_that_came_with_it_and_no_others(driver: Driver) -> None:
    driver.submit([0, 1, 2, 3, 4, 19], [5, 6, 7, 8, 9])
    assert driver.failed == {(0, 1, 2, 3, 4, 19): "it cannot double that"}
    assert list(driver.completed) == [(5, 6, 7, 8, 9)]


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (RuntimeError("lame"), "lame"),
        (SystemExit("lame"), "SystemExit: lame"),
        (type("Panic", (BaseException,), {})("lame"), "Panic: lame"),
    ],
)
def test_a_stream_that_cannot_begin_refuses_every_batch(error: BaseException, reported: str) -> None:
    class Lame(Doubling):
        def _begin(self, stream: int) -> None:
            if stream == 1:
                raise error

    driver = Driver(Lame)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=reported):
            driver.submit([0, 1])
    driver.session.drain()
    driver.session.close()
    assert driver.completed == {}
