"""ONNX models whose weights lie in files of their own, fixed batches, and files that are no good."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from harness.backends import BuildPlan, load_backend  # noqa: E402
from harness.contract import Counter  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.quantization import floats, onnx_files  # noqa: E402
from harness.quantization.calibrating import change_precision  # noqa: E402
from harness.quantization.comparing import compared  # noqa: E402
from tests.gpu import resnet  # noqa: E402
from tests.unit.harness.children import Children  # noqa: E402

SIDE = 32
BENCHMARK = f"""
from tests.gpu.resnet import *
from tests.gpu import resnet

def build_model(source, settings, inputs, output, counter):
    import onnx
    resnet.export(output / "model.onnx", [1, 1, 1, 1], {SIDE}, resnet.SLIM)
    model = output / "model.onnx"
    onnx.save(onnx.load(model), model, save_as_external_data=True, location="weights.bin")
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "model.onnx"
    resnet.export(path, [1, 1, 1, 1], SIDE, resnet.SLIM)
    return path


@pytest.fixture
def split(plain: Path, tmp_path: Path) -> Path:
    """The same model in two files with hard links, as the inputs of a build are."""
    (tmp_path / "made").mkdir()
    (tmp_path / "model").mkdir()
    onnx.save(onnx.load(str(plain)), tmp_path / "made/model.onnx", save_as_external_data=True, location="weights.bin")
    for path in (tmp_path / "made").iterdir():
        os.link(path, tmp_path / "model" / path.name)
    return tmp_path / "model/model.onnx"


def images(count: int = 16) -> dict[str, np.ndarray]:
    return {"image": np.random.default_rng(2).standard_normal((count, 3, SIDE, SIDE), dtype=np.float32)}


def fixed(plain: Path, path: Path, batch: int) -> Path:
    model = onnx.load(str(plain))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    onnx.save(model, path)
    return path


def test_weights_beside_a_model_are_read_through_hard_links(plain: Path, split: Path, tmp_path: Path) -> None:
    whole, read = onnx.load(str(plain)), onnx_files.load(split)
    assert [onnx.numpy_helper.to_array(t).tobytes() for t in read.graph.initializer] == [
        onnx.numpy_helper.to_array(t).tobytes() for t in whole.graph.initializer
    ]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    typed = [floats.typed_model(path, tmp_path / name, "fp16") for path, name in ((plain, "a"), (split, "b"))]
    assert typed[0].read_bytes() == typed[1].read_bytes()


def test_a_model_is_gathered_into_one_file(split: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(split.parent, tmp_path / "own"))
    onnx_files.gather(folder / "model.onnx")
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]
    onnx.checker.check_model(onnx.load(str(folder / "model.onnx")))


def test_a_large_model_has_the_same_bytes_each_time(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_files, "_MOST_IN_ONE_FILE", 1000)
    written = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        for _ in range(2):  # over what was there
            onnx_files.save(onnx.load(str(plain)), tmp_path / name / "model.onnx")
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]
    assert written[0].keys() == {"model.onnx", "model.onnx.data"}
    (tmp_path / "copy").mkdir()
    copied = onnx_files.copy(tmp_path / "first/model.onnx", tmp_path / "copy")
    assert onnx_files.load(copied).graph.node == onnx.load(str(plain)).graph.node


def test_weights_that_are_not_there_are_named(split: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    folder.mkdir()
    shutil.copy(split, folder)
    with pytest.raises(HarnessError, match=r"weights in weights.bin, which is not there") as caught:
        onnx_files.load(folder / "model.onnx")
    assert caught.value.problem_class == "missing"
    (folder / "weights.bin").write_bytes(b"few")
    with pytest.raises(HarnessError, match=r"weights.bin ends before the weights"):
        onnx_files.load(folder / "model.onnx")


def test_weights_outside_of_the_folder_are_not_read(split: Path) -> None:
    model = onnx.load(str(split), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../made/weights.bin"
    path = split.parent / "other.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(HarnessError, match="outside of its folder"):
        onnx_files.load(path)


@pytest.mark.parametrize(("content", "text"), [(b"\x08\x01garbage" * 9, "model.onnx is damaged"), (b"", "no output")])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes, text: str, precision: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(HarnessError, match=text) as caught:
        floats.typed_model(path, tmp_path, precision)
    assert caught.value.problem_class == "input"


def test_an_input_that_is_no_batch_is_named(plain: Path, tmp_path: Path) -> None:
    model = onnx.load(str(plain))
    model.graph.input.append(onnx.helper.make_tensor_value_info("factor", onnx.TensorProto.FLOAT, []))
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(HarnessError, match="factor of the model has no batch axis"):
        floats.tensors_of(tmp_path / "model.onnx")


@pytest.mark.parametrize("batch", [1, 3])
def test_a_fixed_batch_is_calibrated_in_full_batches(plain: Path, tmp_path: Path, batch: int) -> None:
    model, before = (fixed(plain, tmp_path / name, batch) for name in ("model.onnx", "before.onnx"))
    settings = {"precision": "int8", "calibration_count": 6}
    made = change_precision(model, settings, images(), Counter(tmp_path / "counter"))
    assert made["samples"] == 6
    told = compared(before, model, images(), lambda outputs: outputs[0].argmax(axis=1))
    assert told["samples"] == 16 - 16 % batch


def test_samples_that_fill_no_batch_are_refused(plain: Path, tmp_path: Path) -> None:
    model = fixed(plain, tmp_path / "model.onnx", 3)
    with pytest.raises(HarnessError, match="16 calibration samples make no full batches of 3") as caught:
        change_precision(model, {"precision": "int8"}, images(), Counter(tmp_path / "counter"))
    assert "multiple of 3" in caught.value.fix


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_child_quantizes_a_model_in_several_files(tmp_path: Path, precision: str) -> None:
    children, code = Children(tmp_path), tmp_path / "split.py"
    code.write_text(BENCHMARK, encoding="utf-8")
    dataset = children.build("Dataset", benchmark=code, settings={"side": SIDE, "count": 24}).folder / "artifact"
    ended = children.build(
        "Model",
        benchmark=code,
        settings={"precision": precision, "compare_count": 4},
        inputs={"dataset": str(dataset)},
    )
    assert ended.result.done, ended.output
    assert ended.result.values["quantization"]["comparison"]["samples"] == 4
    assert [path.name for path in (ended.folder / "artifact").iterdir()] == ["model.onnx"]


def test_a_quantized_model_has_the_same_bytes_in_every_process(plain: Path, tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, pathlib\n"
        "from harness.contract import Counter\n"
        "from harness.quantization.calibrating import change_precision\n"
        "model = pathlib.Path(sys.argv[1])\n"
        f"x = np.random.default_rng(2).standard_normal((8, 3, {SIDE}, {SIDE}), dtype=np.float32)\n"
        "change_precision(model, {'precision': 'int8'}, {'image': x}, Counter(model.parent / 'counter'))\n"
    )
    written: set[bytes] = set()
    for seed in ("0", "4711"):
        model = tmp_path / f"{seed}.onnx"
        shutil.copy(plain, model)
        subprocess.run(
            [sys.executable, "-c", code, str(model)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            timeout=120,
        )
        written.add(model.read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_a_backend_on_the_processor_takes_a_model_in_several_files(backend: str, split: Path, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    output = tmp_path / "engine"
    output.mkdir()
    options: dict[str, Any] = {}
    plan = BuildPlan(
        model=split,
        output=output,
        batch_size=4,
        precision="fp32",
        options=options,
        counter=Counter(tmp_path / "counter"),
    )
    assert load_backend(backend).build(plan).batch_size == 4
