"""Baselines for the harness: a plain LoadGen SUT without work, and engines without LoadGen.

``python -m tests.benchmarks.bare PROGRAM SETTINGS`` prints one JSON document. These programs use only the libraries,
not the harness.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil


def loadgen(settings: dict[str, Any]) -> dict[str, Any]:
    """Run a SUT that completes every query inside the callback. Settings: scenario, conf, log_dir, count."""
    import mlperf_loadgen as lg

    def issue(ids: list[int], _indices: list[int]) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(identity, 0, 0) for identity in ids])

    gc.disable()
    start_loadgen(lg.ConstructFastSUT(issue, lambda: None), settings["count"], settings)
    return {}


def start_loadgen(sut: Any, count: int, settings: dict[str, Any]) -> None:
    """Run LoadGen with ``count`` samples. Settings: scenario, conf, log_dir."""
    import mlperf_loadgen as lg

    test = lg.TestSettings()
    assert test.FromConfig(settings["conf"], "resnet50", settings["scenario"], 1) == 0
    test.scenario, test.mode = getattr(lg.TestScenario, settings["scenario"]), lg.TestMode.PerformanceOnly
    logs = lg.LogSettings()
    logs.log_output.outdir, logs.enable_trace = settings["log_dir"], False
    qsl = lg.ConstructQSL(count, count, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, qsl, test, logs, "")


def openvino(settings: dict[str, Any]) -> dict[str, Any]:
    """Return samples/s. Settings: engine, batch, streams, threads, batches, samples, shape."""
    import openvino as ov

    queue = ov.AsyncInferQueue(_compiled(settings), settings["streams"])
    queue.set_callback(lambda _request, _: None)
    tensors = [ov.Tensor(batch, shared_memory=True) for batch in _inputs(settings)]

    def loop(batches: int) -> None:
        for number in range(batches):
            queue.start_async({0: tensors[number % len(tensors)]})
        queue.wait_all()

    return _rate(loop, settings)


def openvino_calls(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the median seconds of a synchronous call with one batch."""
    import openvino as ov

    request = _compiled(settings).create_infer_request()
    tensor = ov.Tensor(_inputs(settings)[0], shared_memory=True)
    request.set_input_tensor(0, tensor)
    return _median(lambda: request.infer(share_outputs=True), settings)


def _compiled(settings: dict[str, Any]) -> Any:
    import openvino as ov

    properties = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": settings["streams"]}
    if settings["threads"]:
        properties["INFERENCE_NUM_THREADS"] = settings["threads"] * settings["streams"]
    return ov.Core().import_model((Path(settings["engine"]) / "model.blob").read_bytes(), "CPU", properties)


def onnxruntime(settings: dict[str, Any]) -> dict[str, Any]:
    """Measure ONNX Runtime with one thread per stream, each calling the session in a loop."""
    sessions = [_session(settings) for _ in range(1 if settings["threads"] == 1 else settings["streams"])]
    feeds = [{sessions[0].get_inputs()[0].name: batch} for batch in _inputs(settings)]

    def loop(batches: int) -> None:
        share = batches // settings["streams"]
        threads = [
            threading.Thread(target=_repeat, args=(sessions[number % len(sessions)], feeds, share))
            for number in range(settings["streams"])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return _rate(loop, settings)


def onnxruntime_calls(settings: dict[str, Any]) -> dict[str, Any]:
    session = _session(settings)
    feed = {session.get_inputs()[0].name: _inputs(settings)[0]}
    return _median(lambda: session.run(None, feed), settings)


def _session(settings: dict[str, Any]) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = settings["threads"], 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if settings["streams"] == 1 else "0")
    return ort.InferenceSession(
        str(Path(settings["engine"]) / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )


def _repeat(session: Any, feeds: list[dict[str, np.ndarray]], count: int) -> None:
    for number in range(count):
        session.run(None, feeds[number % len(feeds)])


def _inputs(settings: dict[str, Any]) -> list[np.ndarray]:
    """Return batches of the samples that LoadGen's run would read. A loop over one batch would read it from the
    cache."""
    shape = (settings["samples"], *settings["shape"])
    samples = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    batch = settings["batch"]
    return [samples[start : start + batch] for start in range(0, len(samples) - batch + 1, batch)]


def _rate(loop: Any, settings: dict[str, Any]) -> dict[str, Any]:
    loop(2 * settings["streams"])
    began = time.perf_counter()
    loop(settings["batches"])
    return {"rate": settings["batches"] * settings["batch"] / (time.perf_counter() - began)}


def _median(call: Any, settings: dict[str, Any]) -> dict[str, Any]:
    times = []
    for _ in range(settings["batches"]):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return {"median": statistics.median(times)}


def openvino_genai(settings: dict[str, Any]) -> dict[str, Any]:
    """Step a pipeline until all answers are complete. Settings: model, dataset, repeats, tokens."""
    import openvino as ov
    import openvino_genai as genai

    scheduler = genai.SchedulerConfig()
    scheduler.cache_size, scheduler.max_num_batched_tokens, scheduler.max_num_seqs = 1, 256, 256
    scheduler.dynamic_split_fuse = True
    properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    pipeline = genai.ContinuousBatchingPipeline(settings["model"], scheduler, "CPU", properties)
    config = pipeline.get_config()
    config.max_new_tokens = config.min_new_tokens = settings["tokens"]
    config.do_sample = False
    prompts = [ov.Tensor(prompt.astype(np.int64)[None]) for prompt in _prompts(settings)]

    def answer(count: int) -> None:
        handles = [pipeline.add_request(number, prompts[number], config) for number in range(count)]
        while pipeline.has_non_finished_requests():
            pipeline.step()
        assert all(handle.can_read() for handle in handles)

    return _answers(answer, len(prompts))


def vllm(settings: dict[str, Any]) -> dict[str, Any]:
    """Call ``LLM.generate`` with all prompts at once. Settings: the same, arguments (more of ``LLM``), passes; sounds:
    the dataset has waveforms, and this is the prompt for each."""
    import os

    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    from vllm import LLM, SamplingParams

    arguments = {"dtype": "float32", **settings.get("arguments", {})}
    engine = LLM(
        settings["model"],
        skip_tokenizer_init="sounds" not in settings,
        enforce_eager=not settings["graphs"],
        enable_prefix_caching=False,
        **arguments,
    )
    count = settings["tokens"]
    chosen = SamplingParams(
        temperature=0, min_tokens=count, max_tokens=count, ignore_eos=True, detokenize="sounds" in settings
    )
    prompts: Any
    if asked := settings.get("sounds"):
        prompts = [
            {"prompt_token_ids": asked, "multi_modal_data": {"audio": (one, 16_000)}} for one in _sounds(settings)
        ]
    else:
        prompts = [{"prompt_token_ids": prompt.tolist()} for prompt in _prompts(settings)]
    passes = settings.get("passes", 1)
    return _answers(lambda most: engine.generate(prompts[:most], chosen, use_tqdm=False), len(prompts), passes)


def _prompts(settings: dict[str, Any]) -> list[np.ndarray]:
    tokens = np.load(Path(settings["dataset"]) / "prompts.npy")
    ends = np.load(Path(settings["dataset"]) / "prompt_ends.npy")
    return np.split(tokens, ends[:-1]) * settings["repeats"]


def _sounds(settings: dict[str, Any]) -> list[np.ndarray]:
    samples, bounds = (np.load(Path(settings["dataset"]) / f"{name}.npy") for name in ("samples", "bounds"))
    return np.split(samples, bounds[1:-1])


def _answers(answer: Any, count: int, passes: int = 1) -> dict[str, Any]:
    """``rate``: of the last pass; ``busy``: its processor seconds per answer."""
    answer(4)
    rates, busy = [], 0.0
    for _ in range(passes):
        began, before = time.perf_counter(), _read_processor_time()
        answer(count)
        rates.append(count / (time.perf_counter() - began))
        busy = (_read_processor_time() - before) / count
    return {"rate": rates[-1], "rates": rates, "busy": busy}


def _read_processor_time() -> float:
    """Return the processor seconds of this process and its child processes."""
    own = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in (own, *own.children(recursive=True)))


PROGRAMS = {
    "openvino_genai": openvino_genai,
    "vllm": vllm,
    "loadgen": loadgen,
    "openvino": openvino,
    "openvino_calls": openvino_calls,
    "onnxruntime": onnxruntime,
    "onnxruntime_calls": onnxruntime_calls,
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](json.loads(sys.argv[2]))))
