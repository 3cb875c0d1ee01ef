"""Lower precision in the model: where Q/DQ pairs stand, that calibration repeats itself, what is reported of it."""

from __future__ import annotations

import os
import shutil
from collections import Counter as CompletionCounter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from harness.backends import load_backend  # noqa: E402
from harness.contract import Counter, read_progress  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.quantization import floats, onnx_files  # noqa: E402
from harness.quantization.calibrating import change_precision  # noqa: E402
from harness.quantization.comparing import compare_models, compute_outputs, compute_ratio, scale_samples  # noqa: E402
from tests.gpu import bert, resnet, retinanet  # noqa: E402
from tests.unit.harness.children import Children  # noqa: E402
from tests.unit.harness.plans import make_build_plan  # noqa: E402

SIDE = 32
FLOAT, HALF, INT8, BRAIN, FP8 = 1, 10, 3, 16, 17


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "model.onnx"
    resnet.export(path, [1, 1, 1, 1], SIDE, resnet.SLIM)
    return path


def images(count: int = 16) -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(2).standard_normal((count, 3, SIDE, SIDE), dtype=np.float32)}


def quantized(plain: Path, folder: Path, ranges: Path | None = None, **settings: Any) -> tuple[Path, dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    model = Path(shutil.copy(plain, folder / "model.onnx"))
    settings = {"precision": "int8", **settings}
    made = change_precision(model, settings, images(), Counter(folder / "counter"), ranges)
    return model, made


def compare(plain: Path, model: Path, samples: dict[str, np.ndarray]) -> float:
    found = compare_models(plain, model, samples, lambda outputs: outputs[0].argmax(axis=-1))
    return float(found["signal_to_noise_db"][0])


Made = Callable[[str], tuple[Path, dict[str, Any]]]


@pytest.fixture(scope="module")
def in_precision(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The model in a precision, with what was reported of it: made once, not to be changed. Ranges are next to it."""

    @cache
    def make(precision: str) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp(precision)
        return quantized(plain, folder, folder / "cache", precision=precision)

    return make


class Graph:
    """A model's nodes by what they make and take."""

    def __init__(self, path: Path) -> None:
        self.graph = onnx.load(str(path)).graph
        self.makers = {output: node for node in self.graph.node for output in node.output}

    def kinds(self) -> CompletionCounter[str]:
        return CompletionCounter(node.op_type for node in self.graph.node)

    def before(self, node: Any) -> list[str]:
        """The kinds of what makes the inputs of a node; "" for inputs of the model and weights."""
        return [self.makers[name].op_type if name in self.makers else "" for name in node.input]

    def of(self, kind: str) -> list[Any]:
        return [node for node in self.graph.node if node.op_type == kind]


def test_inputs_and_weights_of_kernels_are_quantized_and_no_outputs(in_precision: Made) -> None:
    graph = Graph(in_precision("int8")[0])
    for node in (*graph.of("Conv"), *graph.of("Gemm")):
        assert graph.before(node)[:2] == ["DequantizeLinear", "DequantizeLinear"]
        assert graph.before(node)[2:] in ([], [""])  # the bias stays as it is
    for node in graph.of("Relu"):
        assert graph.before(node)[0] in ("Conv", "Add")
    assert graph.before(graph.of("GlobalAveragePool")[0]) == ["DequantizeLinear"]
    assert "Identity" not in graph.kinds()


def test_scales_are_symmetric_and_of_channels(in_precision: Made) -> None:
    graph = Graph(in_precision("int8")[0])
    values = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.graph.initializer}
    sizes = CompletionCounter()
    for node in graph.of("QuantizeLinear"):
        assert not values[node.input[2]].any()
        assert values[node.input[2]].dtype == np.int8
        sizes[values[node.input[1]].size] += 1
    assert all(sizes[size] for size in (1, 64, 4 * resnet.SLIM[-1]))


def test_calibration_repeats_itself_and_is_kept(plain: Path, tmp_path: Path) -> None:
    ranges = tmp_path / "cache"
    first, made = quantized(plain, tmp_path / "first", ranges)
    assert read_progress(tmp_path / "first" / "counter").done == 16  # type: ignore[union-attr]
    second, again = quantized(plain, tmp_path / "second", ranges)
    assert read_progress(tmp_path / "second" / "counter").done == 0  # type: ignore[union-attr]
    third, alone = quantized(plain, tmp_path / "third")
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()
    assert made == again == alone
    quantized(plain, tmp_path / "fourth", ranges, calibration_method="percentile")
    quantized(plain, tmp_path / "fifth", ranges, calibration_count=8)
    assert len(list(ranges.glob("*.json"))) == 3


@pytest.mark.parametrize("content", [b'{"data": {"im', b'{"other": 1}'])
def test_damaged_ranges_are_taken_again(plain: Path, in_precision: Made, tmp_path: Path, content: bytes) -> None:
    first, made = in_precision("int8")
    ranges = Path(shutil.copytree(first.parent / "cache", tmp_path / "cache"))
    (kept,) = ranges.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(content)
    second, again = quantized(plain, tmp_path / "second", ranges)
    assert (second.read_bytes(), again) == (first.read_bytes(), made)
    assert kept.read_bytes() == whole


def test_samples_may_come_quantized(plain: Path, tmp_path: Path) -> None:
    model, made = quantized(plain, tmp_path, input_scale="0.03125")
    assert made["input_scales"] == {"image": 0.03125}
    graph = Graph(model)
    assert graph.graph.input[0].type.tensor_type.elem_type == INT8
    given = scale_samples(model, images(), made["input_scales"])
    assert given["image"].dtype == np.int8
    assert np.array_equal(given["image"], resnet.quantized(images()["image"]))
    exact, low = compute_outputs(plain, images())[0], compute_outputs(model, given)[0]
    assert compute_ratio(exact, low) > 30


def test_attention_is_quantized_too(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    bert.export(path, 1, 128)
    rng = np.random.default_rng(3)
    samples = {
        "input_ids": rng.integers(0, bert.WORDS, (4, 24), dtype=np.int32),
        "attention_mask": np.ones((4, 24), np.int32),
    }
    plain = Path(shutil.copy(path, tmp_path / "plain.onnx"))
    made = change_precision(path, {"precision": "int8"}, samples, Counter(tmp_path / "counter"))
    graph = Graph(path)
    assert all(set(graph.before(node)) == {"DequantizeLinear"} for node in graph.of("MatMul"))
    assert made["residual_sums"] == 2
    assert compare(plain, path, samples) > 15


def test_a_pyramid_resizes_unquantized_and_its_heads_share_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    retinanet.export(path, [1, 1, 1, 1], 64)
    plain = Path(shutil.copy(path, tmp_path / "plain.onnx"))
    samples = {"images": np.random.default_rng(4).standard_normal((2, 3, 64, 64), dtype=np.float32)}
    change_precision(path, {"precision": "int8"}, samples, Counter(tmp_path / "counter"))
    graph = Graph(path)
    assert len(graph.of("Resize")) == 2
    for node in graph.of("Resize"):
        assert graph.before(node)[0] in ("Conv", "Add")
        (total,) = (other for other in graph.of("Add") if node.output[0] in other.input)
        assert sorted(graph.before(total)) == ["Conv", "Resize"]
    convolutions = graph.of("Conv")
    assert {graph.before(node)[0] for node in convolutions} == {"DequantizeLinear"}
    assert len({node.input[1] for node in convolutions}) == len(convolutions)
    assert compare(plain, path, samples) > 15


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"precision": "int3"}, "'int3'"),
        ({"precision": "int8", "calibration_method": "guess"}, "'guess'"),
        ({"precision": "fp8", "calibration_method": "minmax"}, "for fp8"),
        ({"precision": "int8", "calibration_count": 17}, "16"),
        ({"precision": "int8", "calibration_count": -1}, "-1"),
        ({"precision": "int8", "calibration_count": "lots"}, "'lots'"),
        ({"precision": "int8", "quantize_residuals": "false"}, "quantize_residuals"),
        ({"precision": "fp16", "half_inputs": "no"}, "half_inputs"),
        ({"precision": "int8", "input_scale": "some"}, "some"),
        ({"precision": "int8", "input_scale": "nan"}, "nan"),
        ({"precision": "int8", "input_scale": "inf"}, "inf"),
    ],
)
def test_settings_that_are_refused(plain: Path, tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(HarnessError, match=text) as caught:
        quantized(plain, tmp_path, **settings)
    assert caught.value.problem_class == "input"
    assert caught.value.fix


@pytest.mark.parametrize(
    ("precision", "half", "inner", "given"),
    [("fp16", False, HALF, FLOAT), ("fp16", True, HALF, HALF), ("bf16", False, BRAIN, FLOAT)],
)
def test_floats(plain: Path, tmp_path: Path, precision: str, half: bool, inner: int, given: int) -> None:
    path = floats.make_typed_model(plain, tmp_path, precision, half_inputs=half)
    model = onnx.load(str(path))
    onnx.checker.check_model(model, full_check=inner == HALF)
    assert floats.list_float_types(model) == {inner}
    assert model.graph.input[0].type.tensor_type.elem_type == given
    assert model.graph.output[0].type.tensor_type.elem_type == FLOAT


@pytest.mark.parametrize(
    ("model", "precision"),
    [
        *(("int8", other) for other in ("fp32", "fp16", "fp8")),
        *(("fp8", other) for other in ("fp32", "int8")),
        *(("fp16", other) for other in ("fp32", "bf16")),
        ("bf16", "fp16"),
    ],
)
def test_another_precision_is_refused(in_precision: Made, tmp_path: Path, model: str, precision: str) -> None:
    """Its engine would compute in one precision and be recorded in another."""
    made, _ = in_precision(model)
    with pytest.raises(
        HarnessError, match=f"the model is already {model}; cannot build an engine in {precision}"
    ) as caught:
        floats.make_typed_model(made, tmp_path, precision)
    assert caught.value.fix.startswith(f"set engine.precision: {model}")
    assert floats.make_typed_model(made, tmp_path, model) == made


def test_a_child_quantizes_compares_and_scores(tmp_path: Path) -> None:
    children, code = Children(tmp_path), Path(resnet.__file__)
    dataset = children.build("Dataset", benchmark=code, settings={"side": SIDE, "count": 24}).folder / "artifact"
    ended = children.build(
        "Model",
        benchmark=code,
        settings={"blocks": "1,1,1,1", "side": SIDE, "precision": "int8", "compare_count": 4, "score_count": 6},
        inputs={"dataset": str(dataset)},
        caches={"calibration": str(tmp_path / "cache")},
    )
    assert ended.result.done, ended.output
    reported = ended.result.values["quantization"]
    assert reported["comparison"]["samples"] == 4
    assert [set(metrics) for metrics in reported["scores"]] == [{"accuracy", "good", "total"}] * 2
    assert [metrics["total"] for metrics in reported["scores"]] == [6, 6]
    assert sorted(path.name for path in (ended.folder / "artifact").iterdir()) == ["model.onnx"]
    assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.fixture
def split(plain: Path, tmp_path: Path) -> Path:
    """The same model in two files with hard links, as the inputs of a build are."""
    (tmp_path / "made").mkdir()
    (tmp_path / "model").mkdir()
    onnx.save(onnx.load(str(plain)), tmp_path / "made/model.onnx", save_as_external_data=True, location="weights.bin")
    for path in (tmp_path / "made").iterdir():
        os.link(path, tmp_path / "model" / path.name)
    return tmp_path / "model/model.onnx"


def test_weights_next_to_a_model_are_read_through_hard_links(plain: Path, split: Path, tmp_path: Path) -> None:
    whole, read = onnx.load(str(plain)), onnx_files.load(split)
    assert [onnx.numpy_helper.to_array(t).tobytes() for t in read.graph.initializer] == [
        onnx.numpy_helper.to_array(t).tobytes() for t in whole.graph.initializer
    ]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    typed = [floats.make_typed_model(path, tmp_path / name, "fp16") for path, name in ((plain, "a"), (split, "b"))]
    assert typed[0].read_bytes() == typed[1].read_bytes()


def test_weights_that_are_not_there_are_named(split: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    shutil.copy(split, folder)
    with pytest.raises(HarnessError, match=r"weights in weights.bin, which does not exist") as caught:
        onnx_files.load(folder / "model.onnx")
    assert caught.value.problem_class == "missing"
    (folder / "weights.bin").write_bytes(b"few")
    with pytest.raises(HarnessError, match=r"weights.bin is too short for the weights"):
        onnx_files.load(folder / "model.onnx")


def test_weights_outside_of_the_folder_are_not_read(split: Path) -> None:
    model = onnx.load(str(split), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../made/weights.bin"
    path = split.parent / "other.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(HarnessError, match="outside its folder"):
        onnx_files.load(path)


@pytest.mark.parametrize(("content", "text"), [(b"\x08\x01garbage" * 9, "model.onnx is damaged"), (b"", "no output")])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes, text: str, precision: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(HarnessError, match=text) as caught:
        floats.make_typed_model(path, tmp_path, precision)
    assert caught.value.problem_class == "input"


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_a_backend_on_the_processor_takes_a_model_in_several_files(backend: str, split: Path, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    assert load_backend(backend).build(make_build_plan(split, tmp_path / "engine")).batch_size == 4
