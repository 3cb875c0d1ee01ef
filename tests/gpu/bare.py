"""Baselines for the harness on a GPU: the bare engine, and the plain loop that a user would write.

``python -m tests.gpu.bare PROGRAM SETTINGS`` prints one JSON document. These programs use only the libraries, not the
harness. Settings: engine (folder), batch, samples (input -> .npy file), seconds. All compute the same data, since
power, and so the clock, depends on it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from tests.benchmarks.bare import start_loadgen


def ok(result: tuple[Any, ...]) -> Any:
    assert result[0] == 0, result[0]
    return result[1] if len(result) > 1 else None


def start_device() -> Any:
    ok(cu.cuInit(0))
    device = ok(cu.cuDeviceGet(0))
    ok(cu.cuCtxSetCurrent(ok(cu.cuDevicePrimaryCtxRetain(device))))
    return ok(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))


def first_batch(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    batch = settings["batch"]
    return {
        name: np.ascontiguousarray(np.load(path, mmap_mode="r")[:batch]) for name, path in settings["samples"].items()
    }


def on_device(array: np.ndarray) -> int:
    address = int(ok(cu.cuMemAlloc(array.nbytes)))
    ok(cu.cuMemcpyHtoD(address, array.ctypes.data, array.nbytes))
    return address


class TensorRt:
    """An engine with device-resident input; ``enqueue`` puts one batch on the stream."""

    def __init__(self, settings: dict[str, Any], stream: Any) -> None:
        import tensorrt_bindings as trt

        self.stream = int(stream)
        self._logger = trt.Logger(trt.Logger.WARNING)
        trt.init_libnvinfer_plugins(self._logger, "")
        self._runtime = trt.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine((Path(settings["engine"]) / "model.plan").read_bytes())
        self.context = self._engine.create_execution_context()
        self.outputs: dict[str, tuple[int, np.ndarray]] = {}
        self.inputs: dict[str, int] = {}
        for name, array in first_batch(settings).items():
            self.context.set_input_shape(name, array.shape)
            self.inputs[name] = on_device(array)
            self.context.set_tensor_address(name, self.inputs[name])
        for number in range(self._engine.num_io_tensors):
            name = self._engine.get_tensor_name(number)
            if name not in self.inputs:
                dtype = trt.nptype(self._engine.get_tensor_dtype(name))
                host = np.zeros(tuple(self.context.get_tensor_shape(name)), dtype)
                self.outputs[name] = (on_device(host), host)
                self.context.set_tensor_address(name, self.outputs[name][0])

    def enqueue(self) -> None:
        assert self.context.execute_async_v3(self.stream)


class OnnxRuntime:
    """The same for ONNX Runtime's CUDA provider."""

    def __init__(self, settings: dict[str, Any], stream: Any) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 3
        choices = {"user_compute_stream": str(int(stream)), "prefer_nhwc": "1", "use_tf32": "1"}
        if settings.get("run_options", {}).get("fused_bias"):
            choices["fuse_conv_bias"] = "1"
        self.session = ort.InferenceSession(
            str(Path(settings["engine"]) / "model.onnx"), options, providers=[("CUDAExecutionProvider", choices)]
        )
        assert self.session.get_providers()[0] == "CUDAExecutionProvider"
        self._binding = self.session.io_binding()
        for name, array in first_batch(settings).items():
            self._binding.bind_input(name, "cuda", 0, array.dtype, array.shape, on_device(array))
        for node in self.session.get_outputs():
            self._binding.bind_output(node.name, "cuda", 0)
        self._options = ort.RunOptions()
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def enqueue(self) -> None:
        self.session.run_with_iobinding(self._binding, self._options)


class PyTorch:
    """The same for an AOTInductor package, loaded by PyTorch."""

    def __init__(self, settings: dict[str, Any], stream: Any) -> None:
        import ctypes

        import torch

        ctypes.CDLL("libstdc++.so.6", ctypes.RTLD_GLOBAL)  # see harness.backends.pytorch.packages
        document = json.loads((Path(settings["engine"]) / "engine.json").read_text())
        sizes = [size for size in document["batch_sizes"] if size >= settings["batch"]]
        name = f"model-{min(sizes)}.pt2" if sizes else "model.pt2"
        self._model = torch._inductor.aoti_load_package(
            str(Path(settings["engine"]) / name), run_single_threaded=True, device_index=0
        )
        batch = first_batch(settings)
        self._inputs = [torch.from_numpy(batch[tensor[0]]).cuda() for tensor in document["inputs"]]
        torch.cuda.synchronize()
        self._stream = torch.cuda.ExternalStream(int(stream))
        self._entered = torch.cuda.stream

    def enqueue(self) -> None:
        with self._entered(self._stream):
            self._model(*self._inputs)


ENGINES = {"tensorrt": TensorRt, "onnxruntime-cuda": OnnxRuntime, "pytorch-cuda": PyTorch}


def rate(settings: dict[str, Any]) -> dict[str, Any]:
    """Return samples per second of back-to-back enqueues; ``graph``: of launches of a captured graph."""
    stream = start_device()
    engine = ENGINES[settings["backend"]](settings, stream)
    work = captured(engine.enqueue, stream) if settings.get("graph") else engine.enqueue
    repeat(work, stream, 10)
    began = time.perf_counter()
    repeat(work, stream, 20)
    count = max(20, int(settings["seconds"] / (time.perf_counter() - began) * 20))
    began = time.perf_counter()
    repeat(work, stream, count)
    return {"rate": count * settings["batch"] / (time.perf_counter() - began), "batches": count}


def latency(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the median microseconds of one batch of resident input, including the wait for its end; directly and as a
    graph."""
    stream = start_device()
    engine = ENGINES[settings["backend"]](settings, stream)
    found = {"direct": median(engine.enqueue, stream)}
    if settings["backend"] != "onnxruntime-cuda":
        found["graph"] = median(captured(engine.enqueue, stream), stream)
    return found


def layers(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the milliseconds of a batch in TensorRT's slowest layers: {name: time}, "total", and the layers' count."""
    import tensorrt_bindings as trt

    class Profiler(trt.IProfiler):
        def __init__(self) -> None:
            super().__init__()
            self.times: dict[str, float] = {}

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.times[layer_name] = self.times.get(layer_name, 0.0) + ms

    stream = start_device()
    engine = TensorRt(settings, stream)
    repeat(engine.enqueue, stream, 20)
    engine.context.profiler = profiler = Profiler()
    repeat(engine.enqueue, stream, 1)  # reports the batch before it
    profiler.times.clear()
    rounds = 20
    for _ in range(rounds):
        repeat(engine.enqueue, stream, 1)
    times = sorted(((ms / rounds, name) for name, ms in profiler.times.items()), reverse=True)
    slowest = {name[:160]: round(ms, 4) for ms, name in times[: settings.get("most", 30)]}
    return {"total": round(sum(ms for ms, _ in times), 3), "count": len(times), "slowest": slowest}


def repeat(work: Callable[[], None], stream: Any, count: int) -> None:
    for _ in range(count):
        work()
    ok(cu.cuStreamSynchronize(stream))


def median(work: Callable[[], None], stream: Any, most: int = 2000, seconds: float = 4) -> float:
    """Return the median of as many calls as requested or as fit into the time, and of at least 50."""
    times: list[float] = []
    while len(times) < most and (len(times) < 50 or sum(times) < seconds):
        began = time.perf_counter()
        work()
        ok(cu.cuStreamSynchronize(stream))
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def captured(enqueue: Callable[[], None], stream: Any) -> Callable[[], None]:
    repeat(enqueue, stream, 2)
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    enqueue()
    graph = ok(cu.cuGraphInstantiate(ok(cu.cuStreamEndCapture(stream)), 0))
    return lambda: ok(cu.cuGraphLaunch(graph, stream))


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Run LoadGen's demo with an engine: batches are assembled on the host, copied, computed and answered.

    Further settings: conf, log_dir, scenario.
    """
    import mlperf_loadgen as lg

    stream = start_device()
    engine = TensorRt(settings, stream)
    samples = {name: np.load(path) for name, path in settings["samples"].items()}
    count, batch = len(next(iter(samples.values()))), settings["batch"]

    def issue(queries: list[Any]) -> None:
        for start in range(0, len(queries), batch):
            chunk = queries[start : start + batch]
            for name, array in samples.items():
                host = np.stack([array[query.index] for query in chunk])
                ok(cu.cuMemcpyHtoD(engine.inputs[name], host.ctypes.data, host.nbytes))
            engine.enqueue()
            ok(cu.cuStreamSynchronize(stream))
            (address, host), *_ = engine.outputs.values()
            ok(cu.cuMemcpyDtoH(host.ctypes.data, address, host.nbytes))
            answers = [np.array(row.argmax(), np.int32) for row in host[: len(chunk)]]
            lg.QuerySamplesComplete(
                [
                    lg.QuerySampleResponse(query.id, answer.ctypes.data, answer.nbytes)
                    for query, answer in zip(chunk, answers, strict=True)
                ]
            )

    start_loadgen(lg.ConstructSUT(issue, lambda: None), count, settings)
    return {}


PROGRAMS = {"rate": rate, "latency": latency, "layers": layers, "plain": plain}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))))
