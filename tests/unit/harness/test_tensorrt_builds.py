"""Real engines by TensorRT for RTX, which needs no GPU to build."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorrt_rtx_bindings", reason="TensorRT for RTX is not installed")
pytest.importorskip("harness.cuda.driver", reason="cuda-python is not installed", exc_type=ImportError)
onnx = pytest.importorskip("onnx")

from harness.backends import BackendEngine, load_backend  # noqa: E402
from harness.contract import Counter  # noqa: E402
from harness.cuda.driver import count_devices  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.quantization.calibrating import change_precision  # noqa: E402
from tests.gpu import bert, resnet  # noqa: E402
from tests.unit.harness.children import Children  # noqa: E402
from tests.unit.harness.plans import make_build_plan, make_load_plan  # noqa: E402

RESNET = Path(resnet.__file__)
SIDE, BLOCKS = 32, [1, 1, 1, 1]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    resnet.export(folder / "resnet.onnx", BLOCKS, SIDE)
    bert.export(folder / "bert.onnx", 1, 128)
    images = {"image": np.random.default_rng(1).standard_normal((8, 3, SIDE, SIDE), dtype=np.float32)}
    for precision, settings in (("int8", {}), ("int8-in", {"input_scale": "0.03125"}), ("fp8", {}), ("fp16", {})):
        path = Path(shutil.copy(folder / "resnet.onnx", folder / f"resnet-{precision}.onnx"))
        named = {"precision": precision.removesuffix("-in"), **settings}
        change_precision(path, named, images, Counter(folder / "counter"))
    return folder


def build(model: Path, output: Path, precision: str = "fp32", batch_size: int = 4, **options: Any) -> BackendEngine:
    plan = make_build_plan(model, output, batch_size=batch_size, precision=precision, **options)
    made = load_backend("tensorrt-rtx").build(plan)
    assert isinstance(made, BackendEngine)
    assert (output / made.file).stat().st_size > 100_000
    return made


@pytest.mark.parametrize(
    ("model", "precision"),
    [
        ("resnet", "fp32"),
        ("resnet", "fp16"),
        ("resnet", "bf16"),
        ("resnet-fp16", "fp16"),
        ("resnet-int8", "int8"),
        ("resnet-int8-in", "int8"),
        ("resnet-fp8", "fp8"),
    ],
)
def test_resnet(models: Path, tmp_path: Path, model: str, precision: str) -> None:
    made = build(models / f"{model}.onnx", tmp_path / "engine", precision)
    dtype = "int8" if model == "resnet-int8-in" else "float32"
    assert made.inputs == (type(made.inputs[0])("image", (3, SIDE, SIDE), dtype),)
    assert [(t.name.startswith("gemm") or t.name == "scores", t.dtype) for t in made.outputs] == [(True, "float32")]
    reported = made.settings["tensorrt"]
    assert (reported["flavour"], reported["strongly_typed"], reported["profiles"]) == ("tensorrt-rtx", True, [[4, 0]])
    assert made.version == load_backend("tensorrt-rtx").facts()["backend.version"].value


def test_bert_with_two_inputs_and_two_lengths(models: Path, tmp_path: Path) -> None:
    made = build(models / "bert.onnx", tmp_path / "engine", "fp16", sequence_lengths="64,128", profiles="1,4")
    assert [(t.name, t.shape, t.dtype) for t in made.inputs] == [
        ("input_ids", (-1,), "int32"),
        ("attention_mask", (-1,), "int32"),
    ]
    assert made.settings["tensorrt"]["profiles"] == [[1, 64], [4, 64], [1, 128], [4, 128]]


def test_every_operator_that_is_not_supported_is_named(tmp_path: Path) -> None:
    helper = onnx.helper
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 4]) for name in ("x", "z")]
    nodes = [
        helper.make_node("Nothing", ["x"], ["y"], name="first"),
        helper.make_node("Nowhere", ["y"], ["z"], name="second"),
    ]
    graph = helper.make_graph(nodes, "odd", ends[:1], ends[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "odd.onnx"
    )
    with pytest.raises(HarnessError) as caught:
        build(tmp_path / "odd.onnx", tmp_path / "engine")
    assert "first Nothing" in caught.value.problem
    assert "second Nowhere" in caught.value.problem
    assert caught.value.problem_class == "backend"


@pytest.mark.parametrize(
    ("inputs", "nodes", "kind", "text"),
    [
        ([["n", 4]], [("Transpose", ["x"], {"perm": [1, 0]})], 1, r"output y .* no batch axis: \[4, -1\]"),
        ([["n", 4]], [("ReduceSum", ["x"], {"keepdims": 0})], 1, r"output y .* no batch axis: \[\]"),
        ([["n", 4], []], [("Mul", ["x", "k"], {})], 1, r"input k .* no batch axis: \[\]"),
        ([["n", 4]], [("Cast", ["x"], {"to": 16})], 16, "y of the model is BF16"),
    ],
)
def test_tensors_without_samples(tmp_path: Path, inputs: list[Any], nodes: list[Any], kind: int, text: str) -> None:
    helper = onnx.helper
    given = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip("xk", inputs, strict=False)]
    made = [helper.make_node(operator, names, ["y"], **settings) for operator, names, settings in nodes]
    graph = helper.make_graph(made, "odd", given, [helper.make_tensor_value_info("y", kind, None)])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "odd.onnx"
    )
    with pytest.raises(HarnessError, match=text) as caught:
        build(tmp_path / "odd.onnx", tmp_path / "engine")
    assert caught.value.problem_class == "input"


def test_a_child_builds_and_reports(tmp_path: Path) -> None:
    children = Children(tmp_path)
    small = {"side": SIDE, "count": 32}
    dataset = children.build("Dataset", benchmark=RESNET, settings=small).folder / "artifact"
    quantized = {"blocks": "1,1,1,1", "side": SIDE, "precision": "int8", "compare_count": 4}
    model = children.build("Model", benchmark=RESNET, settings=quantized, inputs={"dataset": str(dataset)})
    assert model.result.done, model.output
    assert model.result.values["quantization"]["comparison"]["signal_to_noise_db"][0] > 20
    engine = children.build(
        "Engine",
        benchmark=RESNET,
        backend="tensorrt-rtx",
        settings={"batch_size": 2, "precision": "int8"},
        inputs={"model": str(model.folder / "artifact")},
        caches={"timing": str(tmp_path / "timing.cache")},
    )
    assert engine.result.done, engine.output
    assert engine.result.facts["backend.flavour"].value == "tensorrt-rtx"
    assert engine.result.facts["backend.digest"].value
    described = json.loads((engine.folder / "artifact" / "engine.json").read_text())
    assert described == engine.result.values["engine"]


def test_a_run_without_a_gpu_is_refused(models: Path, tmp_path: Path) -> None:
    if count_devices():
        pytest.skip("there is a GPU")
    build(models / "resnet.onnx", tmp_path / "engine").write(tmp_path / "engine")
    plan = make_load_plan(engine=tmp_path / "engine", batch_size=4)
    with pytest.raises(HarnessError, match="NVIDIA GPUs are usable here") as caught:
        load_backend("tensorrt-rtx").load(plan)
    assert caught.value.problem_class == "missing"
