"""A small ImageNet of generated images, and a small network of the reference's signature that answers them.

The labels are the network's own fp32 answers, so that a rehearsal's accuracy is 100 % unless something between the
files on disk and the accuracy log goes wrong. Everything follows from the seed.
"""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from harness.benchmarks.resnet50.answers import CLASSES, postprocess
from harness.benchmarks.resnet50.imagenet import MAP, SIDE, preprocess
from harness.benchmarks.sources import REHEARSAL

MODEL = "resnet50_v1.onnx"
_CHANNELS = 16
_SIZES = ((375, 500), (500, 375), (333, 500), (256, 256), (480, 640), (224, 301))  # height, width


def write_rehearsal(folder: Path, *, count: int, seed: int = 1) -> None:
    """``folder``/data: images, val_map.txt and the mark of a rehearsal; ``folder``/models: the network."""
    data, models = folder / "data", folder / "models"
    data.mkdir(parents=True)
    models.mkdir()
    rng = np.random.default_rng(seed)
    (data / REHEARSAL).write_text(json.dumps({"benchmark": "resnet50", "seed": seed, "count": count}) + "\n")
    names = [f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, count + 1)]
    for number, name in enumerate(names):
        (data / name).write_bytes(encode_image(draw_image(rng, *_SIZES[number % len(_SIZES)])))
    write_network(models / MODEL, rng)
    labels = answer(models / MODEL, [data / name for name in names])
    lines = [f"{name} {label}\n" for name, label in zip(names, labels, strict=True)]
    (data / MAP).write_text("".join(lines), encoding="ascii")


def draw_image(rng: np.random.Generator, height: int, width: int) -> NDArray[np.uint8]:
    """Smooth colours with some grain, uint8 [height, width, 3]: what JPEG keeps, and no two alike."""
    coarse = rng.integers(0, 256, (4, 5, 3)).astype(np.float32)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    image: NDArray[np.uint8] = np.clip(smooth + rng.normal(0, 8, (height, width, 3)), 0, 255).astype(np.uint8)
    return image


def encode_image(image: NDArray[np.uint8]) -> bytes:
    done, data = cv2.imencode(".JPEG", image)
    assert done
    return bytes(data)


def write_network(path: Path, rng: np.random.Generator) -> None:
    """input_tensor:0 float32 [N, 3, 224, 224] -> ArgMax:0 int64 [N], softmax_tensor:0 float32 [N, 1001]."""
    weights = {
        "kernel": rng.normal(0, 0.02, (_CHANNELS, 3, 32, 32)),
        "shift": rng.normal(0, 1, _CHANNELS),
        "dense": rng.normal(0, 0.2, (_CHANNELS * 4, CLASSES + 1)),
        "offset": np.where(np.arange(CLASSES + 1) == 0, -1e3, 0.0),  # the background class is never the answer
    }
    initialisers = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    nodes = [
        helper.make_node("Conv", ["input_tensor:0", "kernel", "shift"], ["patches"], strides=[32, 32]),
        helper.make_node("Relu", ["patches"], ["active"]),
        helper.make_node("AveragePool", ["active"], ["pooled"], kernel_shape=[3, 3], strides=[4, 4]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "dense", "offset"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["softmax_tensor:0"], axis=1),
        helper.make_node("ArgMax", ["scores"], ["ArgMax:0"], axis=1, keepdims=0),
    ]
    samples = helper.make_tensor_value_info("input_tensor:0", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
    results = [
        helper.make_tensor_value_info("ArgMax:0", TensorProto.INT64, ["N"]),
        helper.make_tensor_value_info("softmax_tensor:0", TensorProto.FLOAT, ["N", CLASSES + 1]),
    ]
    graph = helper.make_graph(nodes, "resnet50_rehearsal", [samples], results, initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save_model(model, path)


def answer(model: Path, images: list[Path]) -> NDArray[np.int32]:
    """The network's own classes, one image at a time in fp32."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found = [postprocess(session.run(None, {"input_tensor:0": preprocess(path)[None]})) for path in images]
    classes: NDArray[np.int32] = np.concatenate(found)
    return classes
