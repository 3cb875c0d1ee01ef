"""ONNX Runtime's CUDA provider where there is no GPU: engines are made, runs are refused with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.shared import need

need("onnx")
ort = pytest.importorskip("onnxruntime")

from harness.backends import BackendEngine, BuildPlan, LoadPlan  # noqa: E402
from harness.contract import Counter  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from tests.gpu import bert, resnet  # noqa: E402
from tests.unit.harness import fake_cuda  # noqa: E402

fake_cuda.provide()

from harness.backends import onnxruntime_cuda  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    resnet.export(path, [1, 1, 1, 1], 32, resnet.SLIM)
    return path


def build(model: Path, output: Path, precision: str = "fp16", **options: Any) -> BackendEngine:
    made = onnxruntime_cuda.build(
        BuildPlan(
            model=model,
            output=output,
            batch_size=4,
            precision=precision,
            options=options,
            counter=Counter(output / "counter"),
        )
    )
    made.write(output)
    return made


def plan(folder: Path, batch_size: int = 4) -> LoadPlan:
    return LoadPlan(
        engine=folder,
        scenario="Offline",
        batch_size=batch_size,
        streams=1,
        threads=0,
        outputs=(),
        options={},
        completed=lambda *_: None,
        failed=lambda *_: None,
    )


@pytest.mark.parametrize(("half", "dtype"), [(False, "float32"), (True, "float16")])
def test_an_engine_is_the_model_in_its_type(model: Path, tmp_path: Path, half: bool, dtype: str) -> None:
    made = build(model, tmp_path, half_inputs=half)
    assert [(t.name, t.shape, t.dtype) for t in made.inputs] == [("image", (3, 32, 32), dtype)]
    assert [(t.name, t.shape, t.dtype) for t in made.outputs] == [("scores", (1000,), "float32")]
    assert BackendEngine.read(tmp_path, "onnxruntime-cuda") == made
    assert ort.InferenceSession(str(tmp_path / made.file), providers=["CPUExecutionProvider"])


def test_free_axes_stay_free(tmp_path: Path) -> None:
    bert.export(tmp_path / "bert.onnx", 1, 64)
    made = build(tmp_path / "bert.onnx", tmp_path, "fp32")
    assert [t.shape for t in (*made.inputs, *made.outputs)] == [(-1,), (-1,), (-1, 2)]


def test_a_runtime_without_cuda_is_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    build(model, tmp_path)
    with pytest.raises(HarnessError, match="has no CUDA provider") as caught:
        onnxruntime_cuda.load(plan(tmp_path))
    assert caught.value.problem_class == "missing"
    assert "mlperf-reconciler[cuda]" in caught.value.fix


def test_a_batch_that_does_not_fit_is_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    build(model, tmp_path)
    with pytest.raises(HarnessError, match="batches of 5, it takes 4"):
        onnxruntime_cuda.load(plan(tmp_path, 5))
