"""Measure the cost of lower precision by computing the same samples with both models on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from harness.backends import Outputs
from harness.benchmarks.accuracy import AnswerLog
from harness.quantization.floats import find_batch, list_tensors
from harness.run.qsl import Arrays

Postprocess = Callable[[Outputs], np.ndarray]
Score = Callable[[np.ndarray, Path], Mapping[str, Any]]
_BATCH = 8


def compute_outputs(model: Path, arrays: Arrays) -> list[np.ndarray]:
    """Compute all outputs for all samples. The graph runs without optimisation, which could change the comparison."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    count, size = len(next(iter(arrays.values()))), find_batch(model, _BATCH)
    parts = [
        session.run(None, {name: array[start : start + size] for name, array in arrays.items()})
        for start in range(0, count, size)
    ]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def scale_samples(model: Path, arrays: Arrays, scales: Mapping[str, float]) -> dict[str, np.ndarray]:
    """Convert float samples to the model's inputs: divided by ``scales`` and rounded if quantized, otherwise cast."""
    names = {tensor.name: tensor.dtype for _, tensor in list_tensors(model)[0]}
    if len(names) == len(arrays) == 1:
        arrays = dict.fromkeys(names, next(iter(arrays.values())))
    return {name: _cast(np.asarray(arrays[name]), dtype, scales.get(name)) for name, dtype in names.items()}


def _cast(array: np.ndarray, dtype: str, scale: float | None) -> np.ndarray:
    quantized = np.issubdtype(np.dtype(dtype), np.integer) and np.issubdtype(array.dtype, np.floating)
    if scale is None or not quantized:
        return array.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(array / scale), limits.min, limits.max).astype(dtype)


def compare_models(
    before: Path,
    after: Path,
    arrays: Arrays,
    postprocess: Postprocess,
    *,
    scales: Mapping[str, float] | None = None,
    score: Score | None = None,
) -> dict[str, Any]:
    """Compare both models. ``agreement``: share of samples with equal responses. ``signal_to_noise_db``: the ratio for
    each output. ``scores``: the benchmark's own metrics for both, if ``score`` can compute them from responses."""
    count, size = len(next(iter(arrays.values()))), find_batch(before, 1)
    arrays = {name: array[: count - count % size] for name, array in arrays.items()}  # full batches only
    first, second = (compute_outputs(model, scale_samples(model, arrays, scales or {})) for model in (before, after))
    answers = [np.asarray(postprocess(outputs)) for outputs in (first, second)]
    same = (answers[0] == answers[1]).reshape(len(answers[0]), -1).all(axis=1)
    result: dict[str, Any] = {
        "samples": len(same),
        "agreement": round(float(same.mean()), 6),
        "signal_to_noise_db": [round(compute_ratio(a, b), 2) for a, b in zip(first, second, strict=True)],
    }
    if score is not None:
        with tempfile.TemporaryDirectory() as folder:
            result["scores"] = [dict(score(answer, Path(folder))) for answer in answers]
    return result


def make_scorer(score: Callable[[AnswerLog, Path, Path], Mapping[str, Any]], dataset: Path) -> Score:
    """Return a benchmark's own scorer, for the responses to the first samples of its dataset."""

    def score_responses(responses: np.ndarray, folder: Path) -> Mapping[str, Any]:
        data = tuple(np.ascontiguousarray(response).tobytes() for response in responses)
        return score(AnswerLog(np.arange(len(data)), data, 0, 0), dataset, folder)

    return score_responses


def compute_ratio(exact: np.ndarray, other: np.ndarray) -> float:
    """Return the power ratio of signal to difference, in decibels; at most 200."""
    signal = float(np.square(exact.astype(np.float64)).sum())
    noise = float(np.square(exact.astype(np.float64) - other.astype(np.float64)).sum())
    return min(200.0, 10 * float(np.log10(max(signal, 1e-300) / max(noise, 1e-300))))
