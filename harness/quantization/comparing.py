"""What lower precision costs: the same samples through both models on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from harness.backends import Outputs
from harness.qsl import Arrays

Postprocess = Callable[[Outputs], np.ndarray]
Score = Callable[[np.ndarray, Path], Mapping[str, Any]]
_BATCH = 8


def outputs_of(model: Path, arrays: Arrays) -> list[np.ndarray]:
    """All outputs for all samples. The graph runs as it stands, so that no rewriting changes what is compared."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]
    named = arrays if len(names) > 1 else {names[0]: next(iter(arrays.values()))}
    count = len(named[names[0]])
    parts = [
        session.run(None, {name: np.asarray(named[name][start : start + _BATCH]) for name in names})
        for start in range(0, count, _BATCH)
    ]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def compared(
    before: Path, after: Path, arrays: Arrays, postprocess: Postprocess, score: Score | None = None
) -> dict[str, Any]:
    """``agreement``: share of samples with equal responses. ``signal_to_noise_db``: of each output. ``scores``: the
    benchmark's own metrics for both, where ``score`` can make them of responses."""
    first, second = outputs_of(before, arrays), outputs_of(after, arrays)
    answers = [np.asarray(postprocess(outputs)) for outputs in (first, second)]
    same = (answers[0] == answers[1]).reshape(len(answers[0]), -1).all(axis=1)
    result: dict[str, Any] = {
        "samples": len(same),
        "agreement": round(float(same.mean()), 6),
        "signal_to_noise_db": [round(ratio(a, b), 2) for a, b in zip(first, second, strict=True)],
    }
    if score is not None:
        with tempfile.TemporaryDirectory() as folder:
            result["scores"] = [dict(score(answer, Path(folder))) for answer in answers]
    return result


def ratio(exact: np.ndarray, other: np.ndarray) -> float:
    """Power of the signal over that of the difference, in decibels; at most 200."""
    signal = float(np.square(exact.astype(np.float64)).sum())
    noise = float(np.square(exact.astype(np.float64) - other.astype(np.float64)).sum())
    return min(200.0, 10 * float(np.log10(max(signal, 1e-300) / max(noise, 1e-300))))
