"""The CUDA pipeline over a driver in host memory: what reaches an engine, what comes back, and what failures tell."""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from collections.abc import Callable, Generator, Sequence
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

from harness.cuda import driver, pipeline, sizes  # noqa: E402
from harness.cuda.faults import smaller_batch  # noqa: E402
from harness.cuda.gathering import shape  # noqa: E402
from harness.machine import numa  # noqa: E402

COUNT, WIDTH = 50, 12


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()
    monkeypatch.setattr(driver, "cu", fake_cuda.install(made))
    monkeypatch.setattr(driver, "_OUT_OF_MEMORY", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    return made


class Doubling:
    """An engine: twice each sample. It writes whole padded batches, as a real one does."""

    capturable = True
    batch_sizes: Sequence[int] = ()
    inputs: Sequence[Tensor] = (Tensor("x", (-1,), "float32"),)

    def __init__(self, fake: Fake, batch_size: int = 16, activations: int = 0) -> None:
        self.fake, self.batch_size, self.activations = fake, batch_size, activations
        self.computed: list[int] = []
        self.notes: dict[str, Any] = {}

    def outputs(self, inputs: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        return (Tensor("y", inputs[0], "float32"),)

    def wanted(self, _inputs: Any) -> int:
        return self.activations

    def open(self, shapes: Any, inputs: Any, outputs: Any, stream: int) -> Any:
        if self.activations:
            driver.checked(driver.cu.cuMemAlloc(self.activations))
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
    return LoadPlan(
        engine=Path(),
        scenario=scenario,
        batch_size=batch_size,
        streams=streams,
        threads=0,
        outputs=(),
        options=options,
        completed=answers.completed,
        failed=answers.failed,
    )


def session(fake: Fake, scenario: Any = "Offline", engine: Doubling | None = None, **options: Any) -> Any:
    answers = Answers()
    engine = engine or Doubling(fake)
    plan = plan_of(scenario, answers, engine.batch_size, int(options.pop("streams", 2)), options)
    made = pipeline.CudaSession(plan, lambda _device: engine)
    made.answers, made.engine = answers, engine  # type: ignore[attr-defined]
    return made


def points() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((COUNT, WIDTH)).astype(np.float32)


ROWS = (slice(3, 16), slice(0, 1), np.array([5]), np.array([9, 2, 2, 30, 49]), slice(34, 50))


@pytest.mark.parametrize("scenario", ["Offline", "Server", "SingleStream", "MultiStream"])
@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("graphs", [False, True])
def test_rows_come_back_doubled(fake: Fake, scenario: str, on_device: bool, graphs: bool) -> None:
    evidence = "measured.md" if on_device else ""
    made = session(fake, scenario, start_from_device=on_device, start_from_device_evidence=evidence, cuda_graphs=graphs)
    samples = points()
    made.place({"x": samples[:10].copy()})
    made.place({"x": samples.copy()})
    for rows in ROWS:
        assert np.array_equal(made.compute(rows)[0], 2 * samples[rows])
    expected = {}
    for number, rows in enumerate(ROWS * 4):
        token = list(range(100 * number, 100 * number + len(samples[rows])))
        expected.update(zip(token, 2 * samples[rows], strict=True))
        made.submit(rows, token)
    made.drain()
    assert made.answers.outputs.keys() == expected.keys()
    assert all(np.array_equal(made.answers.outputs[key], value) for key, value in expected.items())
    assert made.answers.threads == {"completion"}
    made.close()
    assert fake.device_bytes == 0


@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Server"])
def test_inputs_that_come_side_by_side_are_both_there(fake: Fake, scenario: str) -> None:
    """The engine adds what it is given: it would answer with an old input that a graph did not bring."""
    made = session(fake, scenario, Adding(fake))
    x, z = points(), points()[::-1].copy()
    made.place({"z": z, "x": x})
    for rows in ROWS:
        assert np.array_equal(made.compute(rows)[0], x[rows] + z[rows])
    made.close()
    assert fake.device_bytes == 0


def test_large_answers_are_copied_and_small_ones_written_by_a_kernel(fake: Fake) -> None:
    for width, copies in ((WIDTH, 0), (2**17, 1)):
        made = session(fake, "SingleStream", Doubling(fake, 1), streams=1)
        made.place({"x": np.ones((2, width), np.float32)})
        before = fake.calls.count("cuMemcpyAsync")
        made.workers[0].lanes[0].prepare_whole(1)
        assert fake.calls.count("cuMemcpyAsync") - before == copies
        assert np.array_equal(made.compute(slice(1, 2))[0], np.full((1, width), 2, np.float32))


def test_what_pads_is_never_answered_and_sizes_are_bucketed(fake: Fake) -> None:
    made = session(fake, "Server", Doubling(fake, 256), streams=1)
    made.place({"x": np.concatenate([points()] * 6)})
    made.engine.computed.clear()
    made.submit(slice(0, 130), list(range(130)))
    made.drain()
    assert made.engine.computed == [144]  # not 256
    assert len(made.answers.outputs) == 130


def test_every_lane_is_used_and_none_twice_at_once(fake: Fake) -> None:
    fake.devices = 2
    made = session(fake, devices=2, streams=2)
    made.place({"x": points()})
    assert made.notes["devices"] == ["0000:00:00.0", "0000:01:00.0"]
    for number in range(40):
        made.submit(slice(0, 4), [4 * number, 4 * number + 1, 4 * number + 2, 4 * number + 3])
    made.drain()
    assert len(made.answers.outputs) == 160
    made.close()
    assert fake.device_bytes == 0


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


def test_memory_that_cannot_be_locked_is_copied(fake: Fake) -> None:
    fake.lockable = False
    made = session(fake)
    samples = points()
    made.place({"x": samples})
    assert np.array_equal(made.compute(slice(2, 9))[0], 2 * samples[2:9])


def test_out_of_memory_suggests_a_batch(fake: Fake) -> None:
    fake.memory = 10**6
    with pytest.raises(HarnessError, match="out of memory") as caught:
        session(fake, engine=Doubling(fake, 4096, activations=4 * 10**6)).place({"x": points()})
    assert caught.value.problem_class == "resources"
    assert "try batch_size" in caught.value.fix


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        ("CUDA_ERROR_ECC_UNCORRECTABLE", "resources", "ECC"),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "backend", "not its own"),
        ("CUDA_ERROR_UNKNOWN", "resources", "lost"),
    ],
)
def test_faults_are_told(fake: Fake, error: str, kind: str, text: str) -> None:
    made = session(fake)
    made.place({"x": points()})
    fake.fail["cuEventSynchronize"] = CUresult[error]
    made.submit(slice(0, 4), [1, 2, 3, 4])
    made.drain()
    (told,) = made.answers.errors
    assert isinstance(told, HarnessError)
    assert (told.problem_class, text in told.problem) == (kind, True)
    assert "GPU 0 (Fake GPU 0)" in told.problem


def test_a_failed_submit_gives_its_lane_back(fake: Fake) -> None:
    made = session(fake, streams=1)
    made.place({"x": points()})
    fake.fail["cuMemcpyAsync"] = CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    for _ in range(5):
        with pytest.raises(HarnessError):
            made.submit(slice(0, 4), [1, 2, 3, 4])
    made.drain()


def test_start_from_device_needs_evidence(fake: Fake) -> None:
    with pytest.raises(HarnessError, match="without evidence"):
        session(fake, start_from_device=True, start_from_device_evidence=" ")


def test_too_few_devices(fake: Fake) -> None:
    with pytest.raises(HarnessError, match="the run needs 2") as caught:
        session(fake, devices=2)
    assert caught.value.problem_class == "missing"


def test_sizes() -> None:
    assert sizes.sizes(256, "Offline") == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert sizes.sizes(256, "Server") == (1, 2, 4, 8, *range(16, 257, 16))
    assert sizes.sizes(5, "Server") == (1, 2, 3, 4, 5)
    assert sizes.sizes(64, "SingleStream") == (1, 8, 64)
    assert sizes.sizes(300, "Offline", (64,)) == (64,)
    assert sizes.padded(130, sizes.sizes(256, "Server")) == 144


def test_a_gather_fits_its_grid() -> None:
    assert shape(18816, 256, 8) == (1024, (1, 8))
    assert shape(18816, 1, 128) == (1024, (5, 1))
    assert shape(3, 1, 8) == (32, (1, 1))
    assert shape(16, 512, 8) == (32, (1, 256))


def test_a_smaller_batch_fits() -> None:
    assert smaller_batch(256, 2000, 1000) == 112
    assert smaller_batch(4, 1000, 1000) == 3
    assert smaller_batch(1, 1000, 10) == 0


def test_processors_beside_a_device(tmp_path: Path) -> None:
    assert numa.parse_list("0-2,8,10-11\n") == {0, 1, 2, 8, 10, 11}
    place = tmp_path / "bus/pci/devices/0000:3b:00.0"
    place.mkdir(parents=True)
    (place / "numa_node").write_text("1\n")
    assert numa.node_of("0000:3b:00.0", tmp_path) == 1
    assert numa.node_of("0000:5e:00.0", tmp_path) == -1
    assert numa.processors_of(-1, tmp_path)
    assert numa.done_on(numa.processors_of(-1, tmp_path), lambda: 5) == 5


def double_twice(sample: Arrays) -> Generator[Arrays, Outputs, np.ndarray]:
    (first,) = yield {"x": sample["x"]}
    (second,) = yield {"x": np.array(first[:1])}
    return np.concatenate([first, second])


@pytest.mark.parametrize("lockable", [True, False])
@pytest.mark.parametrize("on_device", [False, True])
def test_samples_of_many_rows_share_batches_and_get_all_of_theirs(fake: Fake, lockable: bool, on_device: bool) -> None:
    fake.lockable = lockable
    told = {"start_from_device": True, "start_from_device_evidence": "measured.md"} if on_device else {}
    answers = Answers()
    found: dict[int, np.ndarray] = {}
    plan = dataclasses.replace(
        plan_of("Offline", answers, 16, 2, told),
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
def test_samples_that_take_one_call_are_gathered_where_their_rows_are(
    fake: Fake, lockable: bool, on_device: bool
) -> None:
    fake.lockable = lockable
    told = {"start_from_device": True, "start_from_device_evidence": "measured.md"} if on_device else {}
    found: dict[int, list[np.ndarray]] = {}
    plan = dataclasses.replace(
        plan_of("Offline", Answers(), 16, 2, told),
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
