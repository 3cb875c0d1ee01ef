"""What goes wrong in the CUDA pipeline beside a failed batch: threads, devices, memory. It is told; nothing waits."""

from __future__ import annotations

import threading
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from harness.errors import HarnessError
from tests.unit.harness import fake_cuda
from tests.unit.harness.fake_cuda import CUresult, Fake

fake_cuda.provide()

from harness.cuda import driver, pipeline  # noqa: E402
from harness.machine import numa  # noqa: E402
from tests.unit.harness.test_cuda_pipeline import Answers, Doubling, plan_of, points, session  # noqa: E402


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()
    monkeypatch.setattr(driver, "cu", fake_cuda.install(made))
    monkeypatch.setattr(driver, "_OUT_OF_MEMORY", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    return made


class Raising(Answers):
    """A receiver that breaks at the first batch, as an error outside of CUDA would."""

    def completed(self, token: list[int], outputs: Sequence[np.ndarray]) -> None:
        if 0 in token:
            raise SystemError("broken")
        super().completed(token, outputs)


def drained(made: pipeline.CudaSession) -> bool:
    """Whether ``drain`` comes to an end."""
    thread = threading.Thread(target=made.drain, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def test_an_error_on_the_completion_thread_is_told_and_ends_no_thread(fake: Fake) -> None:
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


def test_a_thread_that_cannot_be_kept_near_its_device_runs_anywhere(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(numa.os, "sched_setaffinity", refuse)
    made = session(fake)
    made.place({"x": points()})
    made.submit(slice(0, 2), [1, 2])
    assert drained(made)
    assert made.answers.outputs.keys() == {1, 2}
    assert numa.done_on({0}, lambda: 5) == 5
    made.close()


def test_a_query_in_batches_on_several_devices_leaves_the_first_for_the_next(fake: Fake) -> None:
    """A short last query of MultiStream is computed on the thread that just submitted to another device."""
    fake.devices = 2
    made = session(fake, "MultiStream", Doubling(fake, 4), devices=2, streams=1)
    samples = points()
    made.place({"x": samples})
    for _ in range(2):
        made.submit(slice(0, 4), [0, 1, 2, 3])
        made.submit(slice(4, 8), [4, 5, 6, 7])
        made.drain()
        made.submit(slice(0, 4), [0, 1, 2, 3])
        made.drain()
        assert np.array_equal(made.compute(slice(8, 10))[0], 2 * samples[8:10])
    made.close()


@pytest.mark.parametrize("call", ["cuDevicePrimaryCtxRetain", "cuStreamCreateWithPriority"])
def test_a_device_that_cannot_be_had_is_named(fake: Fake, call: str) -> None:
    fake.fail[call] = CUresult.CUDA_ERROR_UNKNOWN
    with pytest.raises(HarnessError, match=r"^GPU 0: the device was lost") as caught:
        session(fake)
    assert caught.value.problem_class == "resources"


def test_a_graph_for_which_memory_is_short_is_no_refused_capture(fake: Fake) -> None:
    fake.fail["cuGraphInstantiate"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(HarnessError, match="out of memory") as caught:
        session(fake).place({"x": points()})
    assert caught.value.problem_class == "resources"
    assert "batch_size" in caught.value.fix


def test_a_build_on_a_device_that_cannot_be_had_names_it(fake: Fake) -> None:
    pytest.importorskip("onnxruntime")
    from harness.backends.tensorrt.building import build_engine
    from harness.backends.tensorrt.versions import Flavour

    library: Any = types.SimpleNamespace(__version__="10.0.0", BuilderFlag=types.SimpleNamespace(__members__={}))
    fake.fail["cuDevicePrimaryCtxRetain"] = CUresult.CUDA_ERROR_UNKNOWN
    plan: Any = types.SimpleNamespace(precision="fp32")
    with pytest.raises(HarnessError, match=r"^GPU 0: the device was lost"):
        build_engine(Flavour("tensorrt", library), plan)


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


def test_a_device_that_is_lost_at_the_end_is_named(fake: Fake) -> None:
    made = session(fake)
    made.place({"x": points()})
    fake.fail["cuMemFree"] = CUresult.CUDA_ERROR_UNKNOWN
    with pytest.raises(HarnessError, match="the device was lost"):
        made.close()
