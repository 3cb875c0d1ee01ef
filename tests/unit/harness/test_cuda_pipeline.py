"""The CUDA pipeline over a driver in host memory: what reaches an engine, what comes back, and what failures report."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.backends import LoadPlan, Outputs, Tensor
from harness.errors import HarnessError
from harness.run.loops import LoopSession
from harness.run.one_call import OneCall, OneCallSession
from harness.run.qsl import Arrays, Ragged
from tests.unit.harness import fake_cuda
from tests.unit.harness.fake_cuda import CUresult, Fake

fake_cuda.provide()

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from harness.cuda import driver, lanes, pipeline  # noqa: E402
from tests.unit.harness.late_cuda import Late  # noqa: E402
from tests.unit.harness.plans import make_load_plan  # noqa: E402

COUNT, WIDTH = 50, 12


def install(made: Fake, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setattr(driver, "cu", fake_cuda.install(made))
    monkeypatch.setattr(driver, "_OUT_OF_MEMORY", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    return made


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    return install(Fake(), monkeypatch)


class Doubling:
    """An engine: twice each sample. It writes whole padded batches, as a real one does."""

    capturable = True
    batch_sizes: Sequence[int] = ()
    inputs: Sequence[Tensor] = (Tensor("x", (-1,), "float32"),)

    def __init__(self, fake: Fake, batch_size: int = 16, activations: int = 0) -> None:
        self.fake, self.batch_size, self.activations = fake, batch_size, activations
        self.computed: list[int] = []
        self.notes: dict[str, Any] = {}

    def list_outputs(self, inputs: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        return (Tensor("y", inputs[0], "float32"),)

    def estimate_memory(self, _inputs: Any) -> int:
        return self.activations

    def open(self, shapes: Any, inputs: Any, outputs: Any, stream: int) -> Any:
        if self.activations:
            driver.check_call(driver.cu.cuMemAlloc(self.activations))
        return _Bound(self, inputs[0].address, outputs[0].address, stream, shapes[0][0])


@dataclasses.dataclass
class _Bound:
    engine: Doubling
    source: int
    to: int
    stream: int

    width: int = WIDTH

    def prepare(self, size: int) -> Callable[[], None]:
        return lambda: self.engine.fake.do(self.stream, lambda: self.work(size))

    def work(self, size: int) -> None:
        _floats(self.to, size, self.width)[...] = 2 * _floats(self.source, size, self.width)
        self.engine.computed.append(size)


def _floats(address: int, size: int, width: int = WIDTH) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * (size * width)).from_address(address))


class Adding(Doubling):
    inputs = (Tensor("x", (WIDTH,), "float32"), Tensor("z", (WIDTH,), "float32"))

    def open(self, _shapes: Any, inputs: Any, outputs: Any, stream: int) -> Any:
        first, second = (memory.address for memory in inputs)
        return _Sum(self, first, outputs[0].address, stream, other=second)


@dataclasses.dataclass
class _Sum(_Bound):
    other: int = 0

    def work(self, size: int) -> None:
        _floats(self.to, size)[...] = _floats(self.source, size) + _floats(self.other, size)


class Answers:
    """What a session gave for each token."""

    def __init__(self) -> None:
        self.outputs: dict[int, np.ndarray] = {}
        self.errors: list[BaseException] = []
        self.threads: set[str] = set()

    def completed(self, token: list[int], outputs: Sequence[np.ndarray]) -> None:
        self.threads.add(threading.current_thread().name)
        self.outputs.update(zip(token, outputs[0].copy(), strict=True))

    def failed(self, _token: list[int], error: BaseException) -> None:
        self.errors.append(error)


def plan_of(scenario: Any, answers: Answers, batch_size: int, streams: int, options: dict[str, Any]) -> LoadPlan:
    plan = make_load_plan(engine=Path(), scenario=scenario, batch_size=batch_size, streams=streams, options=options)
    return dataclasses.replace(plan, completed=answers.completed, failed=answers.failed)


def session(fake: Fake, scenario: Any = "Offline", engine: Doubling | None = None, **options: Any) -> Any:
    answers = Answers()
    engine = engine or Doubling(fake)
    plan = plan_of(scenario, answers, engine.batch_size, int(options.pop("streams", 2)), options)
    made = pipeline.CudaSession(plan, lambda _device: engine)
    made.answers, made.engine = answers, engine  # type: ignore[attr-defined]
    return made


def points() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((COUNT, WIDTH)).astype(np.float32)


def test_large_answers_are_copied_and_small_ones_written_by_a_kernel(fake: Fake) -> None:
    for width, copies in ((WIDTH, 0), (2**17, 1)):
        made = session(fake, "SingleStream", Doubling(fake, 1), streams=1)
        made.place({"x": np.ones((2, width), np.float32)})
        before = fake.calls.count("cuMemcpyAsync")
        made.workers[0].lanes[0].prepare_whole(1)
        assert fake.calls.count("cuMemcpyAsync") - before == copies
        assert np.array_equal(made.compute(slice(1, 2))[0], np.full((1, width), 2, np.float32))


def test_each_device_loads_an_engine_of_its_own(fake: Fake) -> None:
    """What a library makes belongs to the device that is current; the driver in host memory refuses other streams."""
    fake.devices = 3
    loaded: list[tuple[int, int]] = []

    def load(device: driver.Device) -> Doubling:
        loaded.append((device.index, fake.active))
        return Doubling(fake)

    answers = Answers()
    made = pipeline.CudaSession(plan_of("Offline", answers, 16, 1, {"devices": 3}), load)
    assert loaded == [(0, 0), (1, 1), (2, 2)]
    samples = points()
    made.place({"x": samples})
    for number in range(12):
        made.submit(slice(number, number + 2), [2 * number, 2 * number + 1])
    made.drain()
    assert all(np.array_equal(answers.outputs[2 * n + 1], 2 * samples[n + 1]) for n in range(12))
    made.close()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        ("CUDA_ERROR_ECC_UNCORRECTABLE", "resources", "ECC"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "backend", "illegal memory"),
        ("CUDA_ERROR_UNKNOWN", "resources", "lost"),
    ],
)
def test_faults_are_reported(fake: Fake, error: str, kind: str, text: str) -> None:
    made = session(fake)
    made.place({"x": points()})
    fake.fail["cuEventSynchronize"] = CUresult[error]
    made.submit(slice(0, 4), [1, 2, 3, 4])
    made.drain()
    (reported,) = made.answers.errors
    assert isinstance(reported, HarnessError)
    assert (reported.problem_class, text in reported.problem) == (kind, True)
    assert "GPU 0 (Fake GPU 0)" in reported.problem


def test_too_few_devices(fake: Fake) -> None:
    with pytest.raises(HarnessError, match="the run needs 2") as caught:
        session(fake, devices=2)
    assert caught.value.problem_class == "missing"


def test_sizes() -> None:
    assert lanes.list_sizes(256, "Offline") == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert lanes.list_sizes(256, "Server") == (1, 2, 4, 8, *range(16, 257, 16))
    assert lanes.list_sizes(5, "Server") == (1, 2, 3, 4, 5)
    assert lanes.list_sizes(64, "SingleStream") == (1, 8, 64)
    assert lanes.list_sizes(300, "Offline", (64,)) == (64,)
    assert lanes.find_padded_size(130, lanes.list_sizes(256, "Server")) == 144


def double_twice(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
    (first,) = yield {"x": sample["x"]}
    (second,) = yield {"x": np.array(first[:1])}
    return np.concatenate([first, second])


@pytest.mark.parametrize("lockable", [True, False])
@pytest.mark.parametrize("on_device", [False, True])
def test_samples_of_many_rows_share_batches_and_get_all_of_theirs(fake: Fake, lockable: bool, on_device: bool) -> None:
    fake.lockable = lockable
    reported = {"start_from_device": True, "start_from_device_evidence": "measured.md"} if on_device else {}
    answers = Answers()
    found: dict[int, np.ndarray] = {}
    plan = dataclasses.replace(
        plan_of("Offline", answers, 16, 2, reported),
        completed=lambda token, outputs: found.update({token[0]: outputs[0].copy()}),
    )
    made = LoopSession(lambda own: pipeline.CudaSession(own, lambda _device: Doubling(fake)), plan, double_twice)
    rng = np.random.default_rng(3)
    samples = [rng.standard_normal((1 + 7 * row % 40, WIDTH)).astype(np.float32) for row in range(30)]
    made.place({"x": Ragged(samples)})
    for row in range(len(samples)):
        made.submit(slice(row, row + 1), [row])
    made.drain()
    made.close()
    assert not answers.errors
    for row, sample in enumerate(samples):
        assert np.array_equal(found[row], np.concatenate([2 * sample, 4 * sample[:1]]))
    assert fake.device_bytes == 0


@pytest.mark.parametrize(("lockable", "on_device"), [(True, False), (False, False), (True, True)])
def test_samples_of_one_call_are_gathered_where_their_rows_are(fake: Fake, lockable: bool, on_device: bool) -> None:
    fake.lockable = lockable
    reported = {"start_from_device": True, "start_from_device_evidence": "measured.md"} if on_device else {}
    found: dict[int, list[np.ndarray]] = {}
    plan = dataclasses.replace(
        plan_of("Offline", Answers(), 16, 2, reported),
        completed=lambda token, outputs: found.update({token[0]: [np.array(rows) for rows in outputs]}),
    )
    one_call = OneCall(("x",), 1, 5, lambda outputs, given: outputs[0] + given["more"][:, None])
    made = OneCallSession(lambda own: pipeline.CudaSession(own, lambda _device: Doubling(fake)), plan, one_call)
    rng = np.random.default_rng(3)
    samples = [rng.standard_normal((1 + row % 5, WIDTH)).astype(np.float32) for row in range(30)]
    more = [np.full(len(sample), row, np.float32) for row, sample in enumerate(samples)]
    made.place({"x": Ragged(samples), "more": Ragged(more)})
    batches = [rng.permutation(30)[:3] for _ in range(12)]
    for number, batch in enumerate(batches):
        assert made.fit(batch) == 3
        made.submit(batch, [10 * number + place for place in range(3)])
    made.submit(slice(3, 6), [1000, 1001, 1002])
    made.drain()
    made.close()
    for number, batch in enumerate([*batches, np.arange(3, 6)]):
        answers = found[10 * number if number < len(batches) else 1000]
        for row, answer in zip(batch.tolist(), answers, strict=True):
            assert np.array_equal(answer, 2 * samples[row] + row)
    assert fake.device_bytes == 0


class Raising(Answers):
    """A receiver that breaks at the first batch, as an error outside of CUDA would."""

    def completed(self, token: list[int], outputs: Sequence[np.ndarray]) -> None:
        if 0 in token:
            raise SystemError("broken")
        super().completed(token, outputs)


def drained(made: pipeline.CudaSession) -> bool:
    """Whether ``drain`` comes to an end."""

    def drain() -> None:
        with suppress(driver.CudaError):
            made.drain()

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


def test_an_error_on_the_completion_thread_is_reported_and_ends_no_thread(fake: Fake) -> None:
    answers = Raising()
    made = pipeline.CudaSession(plan_of("Offline", answers, 16, 1, {}), lambda _device: Doubling(fake))
    made.place({"x": points()})
    for number in range(6):
        made.submit(slice(0, 2), [2 * number, 2 * number + 1])
    assert drained(made)
    assert [str(error) for error in answers.errors] == ["broken"]
    assert len(answers.outputs) == 10
    made.close()


def test_a_completion_thread_that_cannot_use_its_device_says_so(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    made = session(fake, streams=1)
    made.place({"x": points()})
    here, activate = threading.get_ident(), made.workers[0].device.activate

    def refuse() -> None:
        if threading.get_ident() != here:
            raise driver.CudaError("CUDA_ERROR_UNKNOWN", "unknown error")
        activate()

    monkeypatch.setattr(driver.Device, "activate", lambda _device: refuse())
    for number in range(6):
        made.submit(slice(0, 1), [number])
    while len(made.answers.errors) < 6:
        threading.Event().wait(0.01)
    assert {"the device was lost" in str(error) for error in made.answers.errors} == {True}


@pytest.mark.parametrize("call", ["cuDevicePrimaryCtxRetain", "cuStreamCreateWithPriority"])
def test_a_device_that_cannot_be_had_is_named(fake: Fake, call: str) -> None:
    fake.fail[call] = CUresult.CUDA_ERROR_UNKNOWN
    with pytest.raises(HarnessError, match=r"^GPU 0: the device was lost") as caught:
        session(fake)
    assert caught.value.problem_class == "resources"


@pytest.mark.parametrize("on_device", [False, True])
def test_samples_that_fit_nowhere(fake: Fake, on_device: bool) -> None:
    made = session(fake, start_from_device=on_device, start_from_device_evidence="measured.md")
    made.place({"x": points()})
    fake.fail["cuMemAlloc" if on_device else "cuMemHostAlloc"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    fake.lockable = False
    with pytest.raises(HarnessError, match=r"out of memory for the samples of the run, 0\.00 GiB") as caught:
        made.place({"x": points()})
    assert caught.value.problem_class == "resources"
    assert "performance_sample_count" in caught.value.fix


SCENARIOS = ("Offline", "Server", "SingleStream", "MultiStream")


class Once:
    """Keeps what came for each token, and how often."""

    def __init__(self) -> None:
        self.came: dict[int, list[np.ndarray | BaseException]] = {}
        self._lock = threading.Lock()

    def completed(self, token: list[int], outputs: Sequence[np.ndarray]) -> None:
        rows = outputs[0].copy()
        assert len(rows) == len(token)
        with self._lock:
            for identity, row in zip(token, rows, strict=True):
                self.came.setdefault(identity, []).append(row)

    def failed(self, token: list[int], error: BaseException) -> None:
        with self._lock:
            for identity in token:
                self.came.setdefault(identity, []).append(error)


def opened(late: Late, engine: Doubling, scenario: Any, streams: int, **options: Any) -> tuple[Any, Once]:
    once = Once()
    plan = make_load_plan(
        engine=Path(),
        scenario=scenario,
        batch_size=engine.batch_size,
        streams=streams,
        options=options,
        completed=once.completed,
        failed=once.failed,
    )
    return pipeline.CudaSession(plan, lambda _device: engine), once


@st.composite
def batches(draw: st.DrawFn, largest: int) -> slice | np.ndarray:
    count = draw(st.integers(1, largest))
    if draw(st.booleans()):
        first = draw(st.integers(0, COUNT - count))
        return slice(first, first + count)
    return np.array(draw(st.lists(st.integers(0, COUNT - 1), min_size=count, max_size=count)))


@settings(max_examples=150)
@given(data=st.data())
def test_every_sample_has_its_own_answer_once(data: st.DataObject) -> None:
    draw = data.draw
    with pytest.MonkeyPatch.context() as monkeypatch:
        devices, streams = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        late = Late(draw(st.integers(0, 2**32)), devices)
        install(late, monkeypatch)
        two, largest = draw(st.booleans()), draw(st.integers(1, 19))
        engine = (Adding if two else Doubling)(late, largest)
        made, once = opened(
            late,
            engine,
            draw(st.sampled_from(SCENARIOS)),
            streams,
            devices=devices,
            lanes=draw(st.integers(1, 3)),
            cuda_graphs=draw(st.booleans()),
            start_from_device=draw(st.booleans()),
            start_from_device_evidence="measured.md",
        )
        late.lockable = draw(st.booleans())
        expected: dict[int, np.ndarray] = {}
        for load in range(draw(st.integers(1, 3))):  # an accuracy run loads and unloads
            rng = np.random.default_rng(load)
            x, z = (rng.standard_normal((COUNT, WIDTH)).astype(np.float32) for _ in range(2))
            made.place({"x": x.copy(), "z": z.copy()} if two else {"x": x.copy()})
            answers = x + z if two else 2 * x
            for _ in range(draw(st.integers(0, 2))):
                for rows in draw(st.lists(batches(largest), max_size=12)):
                    token = list(range(len(expected), len(expected) + len(x[rows])))
                    expected.update(zip(token, answers[rows], strict=True))
                    if draw(st.booleans()):
                        made.ready()
                    made.submit(rows, token)
                made.drain()
                rows = draw(batches(largest))
                assert np.array_equal(made.compute(rows)[0], answers[rows])
        made.close()
        assert once.came.keys() == expected.keys()
        for identity, came in once.came.items():
            assert len(came) == 1
            assert np.array_equal(came[0], expected[identity])  # type: ignore[arg-type]
        assert late.device_bytes == 0


@settings(max_examples=40)
@given(data=st.data())
def test_after_a_fault_every_batch_still_ends_once(data: st.DataObject) -> None:
    """A call fails from some batch on, for ever: what was submitted completes or fails, and nothing waits."""
    draw = data.draw
    calls = ("cuEventSynchronize", "cuMemcpyAsync", "cuEventRecord", "cuStreamWaitEvent", "cuCtxSetCurrent")
    with pytest.MonkeyPatch.context() as monkeypatch:
        devices = draw(st.integers(1, 2))
        late = Late(draw(st.integers(0, 2**32)), devices)
        install(late, monkeypatch)
        made, once = opened(late, Doubling(late, 8), "Offline", draw(st.integers(1, 2)), devices=devices)
        made.place({"x": np.ones((COUNT, WIDTH), np.float32)})
        broken, call = draw(st.integers(0, 12)), draw(st.sampled_from(calls))
        refused = set()
        for number in range(14):
            if number == broken:
                late.fail[call] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
            try:
                made.submit(slice(0, 1), [number])
            except Exception:
                refused.add(number)
        assert drained(made)
        assert once.came.keys() | refused == set(range(14))
        assert not once.came.keys() & refused
        assert {len(came) for came in once.came.values()} <= {1}
