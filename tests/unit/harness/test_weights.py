"""Weights of four bits, and weights in the 2:4 pattern."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from harness.contract import BACKENDS  # noqa: E402
from harness.quantization.comparing import compute_outputs, compute_ratio  # noqa: E402
from harness.quantization.weights import change_weights, keep_largest, require_pattern  # noqa: E402
from tests.shared import need  # noqa: E402
from tests.unit.harness.children import Children  # noqa: E402

BENCHMARK = """
import numpy as np


def build_dataset(source, settings, output, counter):
    np.save(output / "samples.npy", np.load(source))
    np.save(output / "labels.npy", np.zeros(4, np.int64))
"""
CHANNELS, CLASSES = 8, 12
rng = np.random.default_rng(5)
IMAGES = {"image": rng.standard_normal((4, 4, 6, 6), dtype=np.float32)}
SHAPES = {"kernel": (CHANNELS, 4, 3, 3), "matrix": (CHANNELS, 16), "full": (CLASSES, 16)}


@pytest.fixture(autouse=True)
def _same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test draws the same numbers, in whichever order they run."""
    monkeypatch.setattr(sys.modules[__name__], "rng", np.random.default_rng(5))


def make_model(opset: int = 13, **given: np.ndarray) -> Any:
    """A convolution, its mean, a matrix product and a fully connected layer with its weights transposed."""
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()} | given
    nodes = [
        helper.make_node("Conv", ["image", "kernel"], ["features"]),
        helper.make_node("GlobalAveragePool", ["features"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "matrix"], ["wide"]),
        helper.make_node("Gemm", ["wide", "full"], ["scores"], transB=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 4, 6, 6])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", CLASSES])
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "small", [image], [scores], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def answers(model: Any, folder: Path) -> np.ndarray:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return compute_outputs(path, IMAGES)[0]


def weights_of(model: Any) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


@pytest.mark.parametrize("block", [0, 4])
def test_weights_of_four_bits_answer_like_the_nearest_steps(tmp_path: Path, block: int) -> None:
    before = make_model()
    exact = answers(before, tmp_path)
    after, reported = change_weights(make_model(**weights_of(before)), {"weights": "int4", "weight_block": block})
    onnx.checker.check_model(after, full_check=True)
    kinds = {tensor.name: tensor.data_type for tensor in after.graph.initializer}
    assert {kinds[name] for name in SHAPES} == {TensorProto.INT4}
    assert reported["weights"]["tensors"] == 3
    assert reported["weights"]["bytes"] < reported["weights"]["bytes_before"] / 3
    found = answers(after, tmp_path)
    assert 14 < compute_ratio(exact, found) < 60  # a step is a seventh of the largest weight


@pytest.mark.parametrize(("axis", "shape"), [(1, (3, 8, 2, 2)), (0, (8, 5)), (1, (2, 4))])
def test_the_two_largest_of_each_four_are_kept(axis: int, shape: tuple[int, ...]) -> None:
    weights = rng.standard_normal(shape).astype(np.float32)
    kept = keep_largest(weights, axis)
    require_pattern(kept, axis, "kept")
    assert np.array_equal(keep_largest(kept, axis), kept)
    changed = kept != weights
    assert (kept[changed] == 0).all()
    assert changed.sum() == weights.size / 2
    moved, zeros = np.moveaxis(np.abs(weights), axis, -1), np.moveaxis(changed, axis, -1)
    groups, gone = moved.reshape(-1, 4), zeros.reshape(-1, 4)
    assert all(group[out].max() < group[~out].min() for group, out in zip(groups, gone, strict=True))


@pytest.mark.parametrize("backend", [name for name, facts in BACKENDS.items() if "int4" in facts.weights])
def test_engines_of_backends_that_read_them_answer_as_the_model_says(tmp_path: Path, backend: str) -> None:
    need("mlperf_loadgen", backend)
    source, code, children = tmp_path / "source.onnx", tmp_path / "small.py", Children(tmp_path)
    onnx.save(make_model(), source)
    code.write_text(BENCHMARK, encoding="utf-8")
    np.save(tmp_path / "images.npy", IMAGES["image"])
    dataset = children.build("Dataset", benchmark=code, source=str(tmp_path / "images.npy"))
    settings = {"weights": "int4", "sparsity": "2:4", "weight_block": 4}
    inputs = {"dataset": str(dataset.folder / "artifact")}
    model = children.build("Model", benchmark=code, source=str(source), settings=settings, inputs=inputs)
    assert model.result.done, model.result.problem
    assert model.result.values["quantization"]["sparsity"]["pruned"] == 3
    assert model.result.values["quantization"]["weights"]["precision"] == "int4"
    asked = {"backend": backend, "settings": {"batch_size": 2}}
    built = {"model": str(model.folder / "artifact")}
    engine = children.build("Engine", benchmark=code, inputs=built, **asked)
    assert engine.result.done, engine.result.problem
    inputs |= {"engine": str(engine.folder / "artifact")}
    run = children.run("Offline", "accuracy", benchmark=code, conf="", inputs=inputs, **asked)
    assert run.result.done, run.result.problem
    wanted = compute_outputs(model.folder / "artifact/model.onnx", IMAGES)[0].argmax(axis=1)
    assert {index: int.from_bytes(data, "little") for index, data in run.answers} == dict(enumerate(wanted.tolist()))
