"""A model of ResNet-50's shape with random weights, in int8 as Q/DQ, to measure speed. Its answers mean nothing.

A benchmark file like a user's (see harness.benchmarks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.resnet import export

SYNTHETIC = True
OUTPUTS = {"scores": ((1000,), "float32")}
COUNT = 64


def build_dataset(_source: Path | None, _settings: Mapping[str, Any], output: Path, counter: Any) -> None:
    rng = np.random.default_rng(1)
    np.save(output / "samples.npy", rng.standard_normal((COUNT, 3, 224, 224), dtype=np.float32))
    np.save(output / "labels.npy", np.zeros(COUNT, np.int64))
    counter.bump(COUNT)


def build_model(
    _source: Path | None, _settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, _counter: Any
) -> None:
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Images(CalibrationDataReader):
        def __init__(self) -> None:
            images = np.load(inputs["dataset"] / "samples.npy", mmap_mode="r")
            self._feeds: Iterator[dict[str, np.ndarray]] = iter({"image": images[i : i + 1]} for i in range(4))

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self._feeds, None)

    plain = output / "fp32.onnx"
    export(plain, [3, 4, 6, 3])
    quantize_static(
        plain,
        output / "model.onnx",
        Images(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    plain.unlink()
