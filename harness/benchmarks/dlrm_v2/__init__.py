"""DLRM-DCNv2 on Criteo 1 TB, multi-hot: which of a user's items are clicked, by the area under the ROC curve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import LoopBenchmark, copy_model
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.dlrm_v2.checkpoint import open_checkpoint
from harness.benchmarks.dlrm_v2.criteo import build_dataset, load_calibration, load_labels, load_samples
from harness.benchmarks.dlrm_v2.layers import Shape, Weights, find_shape, list_weights
from harness.benchmarks.dlrm_v2.pairs import ONE_CALL, OUTPUTS, RESPONSE_DTYPE, loop
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Arrays

_FIX = "run accuracy again"


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return auc and accuracy in percent, over the pairs of the answered samples: good of total."""
    labels = load_labels(dataset)
    found = [_read(data, labels[int(index)]) for index, data in zip(log.indices, log.data, strict=True)]
    pairs = np.concatenate(found)
    auc = compute_auc(pairs[:, 0], pairs[:, 1])
    good, total = int((pairs[:, 0].round() == pairs[:, 1]).sum()), len(pairs)
    metrics = {"auc": 100.0 * auc, "accuracy": 100.0 * (good / total), "good": good, "total": total}
    text = "AUC={auc:.3f}%, accuracy={accuracy:.3f}%, good={good}, total={total}, queries={queries}\n"
    (output / "accuracy.txt").write_text(text.format(**metrics, queries=len(found)), encoding="ascii")
    return metrics


def _read(data: bytes, labels: np.ndarray) -> np.ndarray:
    """[pairs, 2]. The official script takes the labels of the log, so that they must be those of the dataset."""
    if len(data) != 8 * len(labels):
        problem = f"a response holds {len(data)} bytes, a sample of {len(labels)} pairs makes {8 * len(labels)}"
        raise HarnessError(problem, "input", _FIX)
    pairs = np.frombuffer(data, np.float32).reshape(-1, 2)
    if not np.array_equal(pairs[:, 1], labels):
        raise HarnessError("a response does not carry the labels of its sample", "input", _FIX)
    if not np.isfinite(pairs[:, 0]).all():
        raise HarnessError("a response holds a prediction that is not a number", "input", _FIX)
    return pairs


def compute_auc(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Compute how often a clicked pair is predicted higher than one not clicked; equal predictions count half."""
    order = np.argsort(predictions, kind="stable")
    clicked = labels[order] == 1
    last = np.append(np.flatnonzero(np.diff(predictions[order])), len(order) - 1)  # of each run of equals
    positive = np.diff(np.cumsum(clicked)[last], prepend=0)
    negative = np.diff(np.cumsum(~clicked)[last], prepend=0)
    everything = int(positive.sum()) * int(negative.sum())
    if not everything:
        raise HarnessError("the labels are all alike: no area under a curve", "input", "score more samples")
    below = np.cumsum(negative) - negative
    return (int((positive * below).sum()) + int((positive * negative).sum()) / 2) / everything


FORMATS = ("onnx", "pt2")


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """``settings``: format of the model: "onnx", or "pt2" for the PyTorch backends."""
    if source is None or not source.is_dir():
        copy_model(source, settings, inputs, output, counter)
        return
    checkpoint = open_checkpoint(source, list(list_weights(Shape())))
    write_model(checkpoint, find_shape(checkpoint.shapes), settings, output, counter)


def write_model(weights: Weights, shape: Shape, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """In the format of the settings."""
    wanted = str(settings.get("format", FORMATS[0]))
    if wanted not in FORMATS:
        problem = f"model.settings.format is {wanted!r}"
        raise HarnessError(problem, "input", f"use one of {', '.join(FORMATS)}")
    if wanted == "onnx":
        from harness.benchmarks.dlrm_v2.network import write_network

        write_network(weights, shape, output, counter)
    else:
        from harness.benchmarks.dlrm_v2.program import write_program

        write_program(weights, shape, output, counter)


def lower_program(
    path: Path, settings: Mapping[str, Any], samples: Arrays, counter: Counter, *, compare: int
) -> dict[str, Any]:
    """Lower to fp8 (``lowered``)."""
    from harness.benchmarks.dlrm_v2 import lowered

    return lowered.lower_program(path, settings, samples, counter, compare=compare)


class DlrmDcnV2(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    one_call = ONE_CALL
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    lower_program = staticmethod(lower_program)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = DlrmDcnV2()
