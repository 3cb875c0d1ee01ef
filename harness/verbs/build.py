"""``build``: create the files of one Dataset, Model or Engine."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.backends import BuildPlan, Outputs, load_backend
from harness.benchmarks import BenchmarkCode, LoopBenchmark, TensorBenchmark, load_benchmark, note_source
from harness.benchmarks.sources import is_rehearsal
from harness.catalog import EngineSettings
from harness.child.digests import hash_code, hash_file
from harness.contract import (
    BACKENDS,
    SOURCE_NOTE,
    Benchmark,
    BuildRequest,
    Counter,
    Fact,
    Result,
    as_evidence,
    as_notes,
)
from harness.errors import HarnessError, require

_OWN = ("batch_size", "precision")
MODEL_FILES = ("model.onnx", "model.pt2")
_POINTER = b"version https://git-lfs.github.com/"
_COMPARED = 16  # calibration samples used to compare a quantized model


def execute(request: BuildRequest, _give_up: Callable[[BaseException], None]) -> Result:
    """Build. values: the artifact's description, which depends on its kind, and marks. Every file under ``output``
    belongs to the artifact."""
    began = time.monotonic()
    counter = Counter(request.counter)
    counter.stage("building")
    if request.benchmark == Benchmark(name="command"):
        source = _find_source(request)
        return Result(done=True, seconds=time.monotonic() - began, values=note_source(source, Path(request.output)))
    build = {"Dataset": _build_dataset, "Model": _build_model, "Engine": _build_engine}[request.kind]
    values, facts = build(request, counter)
    facts |= as_evidence({"harness.code": hash_code()}) | as_notes({"numpy.version": np.__version__})
    counter.stage("done")
    return Result(done=True, seconds=time.monotonic() - began, values=values, facts=facts)


Made = tuple[dict[str, Any], dict[str, Fact]]


def _build_dataset(request: BuildRequest, counter: Counter) -> Made:
    """values: count, arrays (input name -> shape per sample and dtype), files (name -> sha256)."""
    benchmark = load_benchmark(request.benchmark)
    output = Path(request.output)
    source = _find_source(request)
    benchmark.build_dataset(source, request.settings, output, counter)
    arrays = benchmark.load_samples(output)
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1 or 0 in counts:
        raise HarnessError(f"the dataset's arrays have {sorted(counts)} samples", "input", "correct build_dataset()")
    values = {
        "count": counts.pop(),
        "arrays": {name: [list(array.shape[1:]), array.dtype.name] for name, array in arrays.items()},
        "files": _hash_files(output),
    }
    manifest = json.dumps({"format": 1, **values}, indent=1, sort_keys=True) + "\n"
    (output / "manifest.json").write_text(manifest, encoding="utf-8")
    marks = ["synthetic"] if benchmark.synthetic or is_rehearsal(source) else []
    return {**values, "marks": marks}, as_evidence({"benchmark.code": benchmark.digest})


def _build_model(request: BuildRequest, counter: Counter) -> Made:
    """values: files (name -> sha256)."""
    benchmark = load_benchmark(request.benchmark)
    output = Path(request.output)
    inputs = {kind: require(Path(path), f"the {kind}") for kind, path in request.inputs.items()}
    benchmark.build_model(_find_source(request), request.settings, inputs, output, counter)
    written: list[str] = []
    parts = benchmark.parts if isinstance(benchmark, LoopBenchmark) else ()
    for part in parts or ("",):
        found = [name for name in MODEL_FILES if (output / part / name).is_file()]
        own = benchmark.counts_tokens or (output / SOURCE_NOTE).is_file()  # only generating backends read this format
        if not found and not own:
            names = " nor ".join(str(Path(part) / name) for name in MODEL_FILES)
            problem = f"build_model() of the benchmark wrote neither {names}"
            raise HarnessError(problem, "input", "write one of them into the output folder")
        written += found
    asked = _list_changes(request.settings)
    if asked and parts:
        problem = f"the model has parts, but model.settings.{asked[0]} supports only models with one network"
        raise HarnessError(problem, "input", "remove it, and set engine.precision")
    if asked and not written:
        problem = f"the model is a checkpoint, but model.settings.{asked[0]} supports only ONNX models and programs"
        raise HarnessError(problem, "input", "remove it, and set engine.precision")
    made = _change_model(request, benchmark, counter) if asked else {}
    return {"files": _hash_files(output), **made, "marks": []}, as_evidence({"benchmark.code": benchmark.digest})


def _list_changes(settings: Mapping[str, Any]) -> list[str]:
    """List the changes to the model, such as "precision int8"."""
    usual = {"sparsity": "", "weights": "", "precision": "fp32"}
    return [f"{name} {settings[name]}" for name, same in usual.items() if str(settings.get(name, same)) != same]


def _change_model(request: BuildRequest, benchmark: BenchmarkCode, counter: Counter) -> dict[str, Any]:
    """values: quantization (method, calibration document, difference from fp32 on the calibration samples)."""
    from harness.quantization.calibrating import change_precision
    from harness.quantization.comparing import compare_models, make_scorer
    from harness.quantization.onnx_files import copy, gather, load, save
    from harness.quantization.settings import read_count
    from harness.quantization.weights import change_weights

    model, settings = Path(request.output) / MODEL_FILES[0], request.settings
    dataset = Path(request.inputs["dataset"]) if "dataset" in request.inputs else None
    samples = benchmark.load_calibration(dataset) if dataset else {}
    cache = request.caches.get("calibration")
    count, scored = read_count(settings, "compare_count", _COMPARED), read_count(settings, "score_count")
    if not model.is_file():
        program = model.with_name(MODEL_FILES[1])
        return {"quantization": benchmark.lower_program(program, settings, samples, counter, compare=count)}
    with tempfile.TemporaryDirectory(dir=model.parent.parent) as folder:
        gather(model)
        plain = copy(model, Path(folder))
        changed, made = change_weights(load(model), settings)
        if made:
            save(changed, model)
        if str(settings.get("precision", "fp32")) != "fp32":
            made |= change_precision(model, settings, samples, counter, Path(cache) if cache else None)
        scales = made.get("input_scales", {})
        if count and samples:
            few = {name: array[:count] for name, array in samples.items()}
            made["comparison"] = compare_models(plain, model, few, _select_responses(benchmark), scales=scales)
        if scored and dataset:
            few = {name: array[:scored] for name, array in benchmark.load_samples(dataset).items()}
            score = make_scorer(benchmark.score, dataset)
            found = compare_models(plain, model, few, _select_responses(benchmark), scales=scales, score=score)
            made["scores"] = found["scores"]
    return {"quantization": made}


def _select_responses(benchmark: BenchmarkCode) -> Callable[[Outputs], np.ndarray]:
    """Select a batch's values for comparison: the responses, or the first output if responses need several batches or
    differ in size."""
    if isinstance(benchmark, TensorBenchmark) and not benchmark.names_samples:
        return lambda outputs: np.asarray(benchmark.postprocess(outputs))
    return lambda outputs: np.asarray(outputs[0])


def _build_engine(request: BuildRequest, counter: Counter) -> Made:
    """values: engine (description as in engine.json; by part if the model has several), files (name -> sha256)."""
    if request.backend is None:
        raise HarnessError("an engine needs a backend", "input", "set engine.backend in the spec")
    backend = load_backend(request.backend)
    precision = EngineSettings(request.settings).precision
    offered = BACKENDS[request.backend].precisions
    if precision not in offered:
        problem = f"{request.backend} builds no {precision} engine"
        raise HarnessError(problem, "input", f"use one of {', '.join(offered)}")
    model = Path(request.inputs["model"])
    parts = list_parts(model)
    facts = backend.facts()
    documents: dict[str, Any] = {}
    timings: dict[str, Any] = {}
    for part in parts or ("",):
        output = Path(request.output) / part
        output.mkdir(exist_ok=True)
        engine = backend.build(
            BuildPlan(
                model=_find_model(request.backend, model / part),
                output=output,
                batch_size=EngineSettings(request.settings).batch_size,
                precision=precision,
                options={name: value for name, value in request.settings.items() if name not in _OWN},
                counter=counter,
                caches={name: Path(path) for name, path in request.caches.items()},
            )
        )
        engine.write(output)
        documents[part] = engine.describe()
        if timing := engine.settings.get("tensorrt", {}).get("timing_cache"):
            timings[part] = timing
    if timings:
        facts |= as_evidence({"timing_cache": timings if parts else timings[""]})
    made = documents if parts else documents[""]
    return {"engine": made, "files": _hash_files(Path(request.output)), "marks": []}, facts


def list_parts(model: Path) -> list[str]:
    """List the networks of a model that has several, each in its own folder; empty for a single network."""
    if any((model / name).is_file() for name in MODEL_FILES):
        return []
    return sorted(folder.name for folder in model.glob("*/") if any((folder / name).is_file() for name in MODEL_FILES))


def _find_model(backend: str, folder: Path) -> Path:
    """Find the model file that this backend reads."""
    wanted = BACKENDS[backend].model_file
    other = next((name for name in MODEL_FILES if name != wanted and (folder / name).is_file()), None)
    if other and not (folder / wanted).is_file():
        raise HarnessError(
            f"{backend} builds engines from {wanted}, but the model is {other}",
            "input",
            f"set model.path to a {Path(wanted).suffix} file, or, if the benchmark can write both, set "
            f"model.settings.format to {Path(wanted).suffix.removeprefix('.')}, or use a backend that takes "
            f"{Path(other).suffix} files",
        )
    return require(folder / wanted, "the model")


def _find_source(request: BuildRequest) -> Path | None:
    if not request.source:
        return None
    source = require(Path(request.source), "the source")
    if source.is_file():
        with source.open("rb") as file:
            if file.read(len(_POINTER)) == _POINTER:
                raise HarnessError(f"{source} is a Git LFS pointer", "missing", "run `git lfs pull` there")
    return source


def _hash_files(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hash_file(path) for path in files}
