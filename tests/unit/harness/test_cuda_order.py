"""The CUDA pipeline under every order in which streams, copies and completions may come."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.backends import LoadPlan
from tests.unit.harness import fake_cuda
from tests.unit.harness.fake_cuda import CUresult
from tests.unit.harness.late_cuda import Late

fake_cuda.provide()

from harness.cuda import driver, pipeline  # noqa: E402
from tests.unit.harness.test_cuda_pipeline import COUNT, WIDTH, Adding, Doubling  # noqa: E402

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
    plan = LoadPlan(
        engine=Path(),
        scenario=scenario,
        batch_size=engine.batch_size,
        streams=streams,
        threads=0,
        outputs=(),
        options=options,
        completed=once.completed,
        failed=once.failed,
    )
    return pipeline.CudaSession(plan, lambda _device: engine), once


def driven(seed: int, devices: int, monkeypatch: pytest.MonkeyPatch) -> Late:
    late = Late(seed, devices)
    monkeypatch.setattr(driver, "cu", fake_cuda.install(late))
    monkeypatch.setattr(driver, "_OUT_OF_MEMORY", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    return late


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
        late = driven(draw(st.integers(0, 2**32)), devices, monkeypatch)
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
        late = driven(draw(st.integers(0, 2**32)), devices, monkeypatch)
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
        drained = threading.Thread(target=_drain, args=(made,), daemon=True)
        drained.start()
        drained.join(20)
        assert not drained.is_alive()
        assert once.came.keys() | refused == set(range(14))
        assert not once.came.keys() & refused
        assert {len(came) for came in once.came.values()} <= {1}


def _drain(made: Any) -> None:
    try:
        made.drain()
    except driver.CudaError:
        return
