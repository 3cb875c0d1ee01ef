"""Backends compute the same on a GPU as on the CPU: with new random samples, poisoned buffers, and every way of
submission."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from harness.backends import LoadPlan, load_backend
from harness.run.qsl import Rows
from tests.gpu.cases import Case

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

CASES = [
    ("small-fp16", "tensorrt", 0.01),
    ("small-int8", "tensorrt", 0.05),
    ("small-bert", "tensorrt", 0.02),
    ("small-unet3d", "tensorrt", 0.02),
    ("small-retinanet", "tensorrt", 0.02),
    ("small-fp16", "onnxruntime-cuda", 0.01),
    ("small-bert", "onnxruntime-cuda", 0.02),
    ("small-fp16", "pytorch-cuda", 0.01),
    ("small-bert", "pytorch-cuda", 0.02),
]
PARTLY_ON_HOST = [("small-bert", "onnxruntime-cuda")]  # which no graph can capture
NEEDS = {"tensorrt": "tensorrt_bindings", "onnxruntime-cuda": "onnxruntime", "pytorch-cuda": "torch"}
COUNT = 200


@pytest.fixture(scope="module", params=CASES, ids=lambda item: f"{item[0]}-{item[1]}")
def case(request: pytest.FixtureRequest) -> tuple[Case, float]:
    name, backend, error = request.param
    pytest.importorskip(NEEDS[backend])
    made = Case(name, backend)
    assert made.engine
    return made, error


def fresh(case: Case) -> dict[str, np.ndarray]:
    rng = np.random.default_rng()
    found = {}
    for name, (shape, dtype) in case.shape.samples.items():
        if name == "attention_mask":
            found[name] = (np.arange(shape[0]) < rng.integers(shape[0] // 2, shape[0] + 1, (COUNT, 1))).astype(dtype)
        elif np.dtype(dtype).kind == "i":
            least, most = (-128, 128) if dtype == "int8" else (0, 30000)
            found[name] = rng.integers(least, most, (COUNT, *shape)).astype(dtype)
        else:
            found[name] = rng.standard_normal((COUNT, *shape), dtype=np.float32).astype(dtype)
    return found


def on_cpu(case: Case, samples: dict[str, np.ndarray]) -> np.ndarray:
    import onnxruntime as ort

    session = ort.InferenceSession(str(case.model / "model.onnx"), providers=["CPUExecutionProvider"])
    feed = {}
    for node in session.get_inputs():
        array = next(iter(samples.values())) if len(samples) == 1 else samples[node.name]
        feed[node.name] = array.astype(np.float32) if node.type == "tensor(float)" else array
    return session.run(None, feed)[0]


class Answers:
    def __init__(self) -> None:
        self.rows: dict[int, np.ndarray] = {}
        self.errors: list[BaseException] = []

    def completed(self, token: list[int], outputs: Sequence[np.ndarray]) -> None:
        self.rows.update(zip(token, outputs[0].copy(), strict=True))

    def failed(self, _token: list[int], error: BaseException) -> None:
        self.errors.append(error)


def opened(case: Case, scenario: Any, answers: Answers, **options: Any) -> Any:
    plan = LoadPlan(
        engine=case.engine,
        scenario=scenario,
        batch_size=case.shape.batch,
        streams=2,
        threads=0,
        outputs=(),
        options={**options, "convolution_search": "heuristic"},
        completed=answers.completed,
        failed=answers.failed,
    )
    return load_backend(case.backend).load(plan)


def poison(session: Any) -> None:
    """Fill every buffer of every lane, on host and device, with NaN or the largest integer."""
    from harness.cuda import driver

    for worker in session.workers:
        worker.device.activate()
        stream = worker.device.stream()
        for lane in worker.lanes:
            for memory in lane.buffers:
                driver.fill(memory, 0xFF, stream)
            for array in lane.answers:
                ctypes.memset(array.ctypes.data, 0xFF, array.nbytes)
        driver.synchronize(stream)


def near(found: np.ndarray, wanted: np.ndarray, error: float) -> None:
    assert np.isfinite(found).all(), "an output was not written"
    difference = np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)
    assert difference < error, difference


def rows_of(batch: int) -> list[Rows]:
    rng = np.random.default_rng()
    chosen: list[Rows] = [slice(0, 1), slice(3, 3 + min(batch, COUNT - 3)), np.array([7]), slice(11, 19)]
    return chosen + [rng.integers(0, COUNT, rng.integers(1, batch + 1)) for _ in range(12)]


@pytest.mark.parametrize("scenario", ["Offline", "Server", "SingleStream", "MultiStream"])
@pytest.mark.parametrize("place", ["host", "device"])
def test_outputs_are_those_of_the_cpu(case: tuple[Case, float], scenario: str, place: str) -> None:
    made, error = case
    answers = Answers()
    on_device = place == "device"
    options = {"start_from_device": on_device, "start_from_device_evidence": "a test", "cuda_graphs": True}
    # Without it ONNX Runtime captures nothing; no other backend reads it.
    options["capture"] = (made.name, made.backend) not in PARTLY_ON_HOST
    session = opened(made, scenario, answers, **options)
    samples = fresh(made)
    wanted = on_cpu(made, samples)
    session.place({name: array[:20].copy() for name, array in samples.items()})
    session.place({name: array.copy() for name, array in samples.items()})
    poison(session)
    for rows in rows_of(made.shape.batch)[:8]:
        near(session.compute(rows)[0].copy(), wanted[rows], error)
    poison(session)
    expected = {}
    for number, rows in enumerate(rows_of(made.shape.batch) * 2):
        count = len(wanted[rows])
        token = list(range(1000 * number, 1000 * number + count))
        expected.update(zip(token, wanted[rows], strict=True))
        session.submit(rows, token)
    session.drain()
    assert not answers.errors
    assert answers.rows.keys() == expected.keys()
    keys = sorted(expected)
    near(np.stack([answers.rows[key] for key in keys]), np.stack([expected[key] for key in keys]), error)
    session.close()


def test_direct_work_gives_what_graphs_give(case: tuple[Case, float]) -> None:
    made, error = case
    samples = fresh(made)
    wanted = on_cpu(made, samples)
    session = opened(made, "Server", Answers(), cuda_graphs=False)
    session.place({name: array.copy() for name, array in samples.items()})
    poison(session)
    near(session.compute(slice(0, made.shape.batch))[0].copy(), wanted[: made.shape.batch], error)
    session.close()
