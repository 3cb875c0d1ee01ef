"""Instance normalisation written as other operators: the answers of a network stay what they were."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from harness.backends.tensorrt.normalisation import OPERATOR, keep_in_fp32, rewrite_instances  # noqa: E402
from harness.quantization.comparing import compute_outputs  # noqa: E402
from tests.gpu.unet3d import export  # noqa: E402

SIDE = 16
rng = np.random.default_rng(7)
VOLUMES = {"input": (30 + 5 * rng.standard_normal((3, 1, SIDE, SIDE, SIDE))).astype(np.float32)}
"""Far from zero, as the squares of differences are not."""


@pytest.fixture(autouse=True)
def _same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test draws the same numbers, in whichever order they run."""
    monkeypatch.setattr(sys.modules[__name__], "rng", np.random.default_rng(7))


def operators(model: Path) -> set[str]:
    return {node.op_type for node in onnx.load(str(model)).graph.node}


def nearness(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, in deviations of what is wanted."""
    return float(np.abs(found.astype(np.float64) - wanted).max() / wanted.astype(np.float64).std())


def single(path: Path, opset: int, kind: int = TensorProto.FLOAT, **given: Any) -> Path:
    """One node over images, whose scale is computed rather than stored."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    ends = [helper.make_tensor_value_info(name, kind, ["n", 4, 6, 5]) for name in ("input", "output")]
    halved = numpy_helper.from_array((np.arange(1, 5) / 2).astype(dtype), "half")
    shift = numpy_helper.from_array(np.arange(4).astype(dtype), "shift")
    nodes = [
        helper.make_node("Add", ["half", "half"], ["scale"]),
        helper.make_node(OPERATOR, ["input", "scale", "shift"], ["output"], **given),
    ]
    graph = helper.make_graph(nodes, "single", ends[:1], ends[1:], [halved, shift])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def test_a_network_answers_as_before(tmp_path: Path) -> None:
    export(tmp_path / "model.onnx", [4, 8, 8], SIDE)
    made = rewrite_instances(tmp_path / "model.onnx", tmp_path)
    onnx.checker.check_model(str(made.model), full_check=True)
    assert OPERATOR in operators(tmp_path / "model.onnx")
    assert OPERATOR not in operators(made.model)
    assert made.describe()[OPERATOR]["nodes"] == made.count == 10
    wanted, found = (compute_outputs(path, VOLUMES)[0] for path in (tmp_path / "model.onnx", made.model))
    assert nearness(found, wanted) < 1e-4


@pytest.mark.parametrize("opset", [13, 18, 21])
@pytest.mark.parametrize("given", [{}, {"epsilon": 0.5}])
def test_every_way_of_naming_axes(tmp_path: Path, opset: int, given: dict[str, float]) -> None:
    images = {"input": rng.standard_normal((2, 4, 6, 5), dtype=np.float32)}
    model = single(tmp_path / "model.onnx", opset, **given)
    made = rewrite_instances(model, tmp_path)
    onnx.checker.check_model(str(made.model), full_check=True)
    assert nearness(compute_outputs(made.model, images)[0], compute_outputs(model, images)[0]) < 1e-5


def test_a_half_model_is_normalised_in_fp32(tmp_path: Path) -> None:
    """Sums of squares of these differences are beyond the range of float16."""
    images = {"input": (100 * rng.standard_normal((2, 4, 6, 5))).astype(np.float16)}
    made = rewrite_instances(single(tmp_path / "model.onnx", 13, TensorProto.FLOAT16), tmp_path)
    onnx.checker.check_model(str(made.model), full_check=True)
    whole = images["input"].astype(np.float64)
    mean, deviation = whole.mean(axis=(2, 3), keepdims=True), whole.std(axis=(2, 3), keepdims=True)
    wanted = (whole - mean) / deviation * np.arange(1, 5).reshape(1, 4, 1, 1) + np.arange(4).reshape(1, 4, 1, 1)
    (found,) = compute_outputs(made.model, images)
    assert found.dtype == np.float16
    assert nearness(found, wanted) < 2e-3


class FakeLayer:
    def __init__(self, name: str) -> None:
        self.name, self.precision, self.outputs = name, "", dict[int, str]()

    def set_output_type(self, number: int, kind: str) -> None:
        self.outputs[number] = kind


class FakeNetwork:
    def __init__(self, names: list[str]) -> None:
        self.layers = [FakeLayer(name) for name in names]
        self.num_layers = len(names)

    def get_layer(self, number: int) -> FakeLayer:
        return self.layers[number]


FAKE = SimpleNamespace(float32="float32", BuilderFlag=SimpleNamespace(OBEY_PRECISION_CONSTRAINTS="obey"))


def test_the_builder_is_bound_to_fp32_for_these_layers_alone(tmp_path: Path) -> None:
    made = rewrite_instances(single(tmp_path / "model.onnx", 13), tmp_path)
    network = FakeNetwork(["conv", *sorted(made.nodes)])
    flags: list[str] = []
    keep_in_fp32(FAKE, network, SimpleNamespace(set_flag=flags.append), made)
    kept = {layer.name for layer in network.layers if layer.precision == "float32"}
    assert kept == made.nodes
    assert {layer.name for layer in network.layers if layer.outputs == {0: "float32"}} == made.nodes - made.last
    assert len(made.last) == 1
    assert flags == ["obey"]
