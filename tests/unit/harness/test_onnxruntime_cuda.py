"""ONNX Runtime's CUDA provider where there is no GPU: engines are made, runs are refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.shared import need

need("onnx")
ort = pytest.importorskip("onnxruntime")

from harness.backends import BackendEngine, LoadPlan  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from tests.gpu import resnet  # noqa: E402
from tests.unit.harness import fake_cuda  # noqa: E402

fake_cuda.provide()

from harness.backends import onnxruntime_cuda  # noqa: E402
from harness.cuda.driver import Device, DeviceMemory  # noqa: E402
from tests.unit.harness.plans import make_build_plan, make_load_plan  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    resnet.export(path, [1, 1, 1, 1], 32, resnet.SLIM)
    return path


def build(model: Path, output: Path, precision: str = "fp16", **options: Any) -> BackendEngine:
    made = onnxruntime_cuda.build(make_build_plan(model, output, precision=precision, **options))
    made.write(output)
    return made


def plan(folder: Path, batch_size: int = 4) -> LoadPlan:
    return make_load_plan(engine=folder, batch_size=batch_size)


@pytest.mark.parametrize(("half", "dtype"), [(False, "float32"), (True, "float16")])
def test_an_engine_is_the_model_in_its_type(model: Path, tmp_path: Path, half: bool, dtype: str) -> None:
    made = build(model, tmp_path, half_inputs=half)
    assert [(t.name, t.shape, t.dtype) for t in made.inputs] == [("image", (3, 32, 32), dtype)]
    assert [(t.name, t.shape, t.dtype) for t in made.outputs] == [("scores", (1000,), "float32")]
    assert BackendEngine.read(tmp_path, "onnxruntime-cuda") == made
    assert ort.InferenceSession(str(tmp_path / made.file), providers=["CPUExecutionProvider"])


def test_a_runtime_without_cuda_is_refused(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: ["CPUExecutionProvider"])
    build(model, tmp_path)
    with pytest.raises(HarnessError, match="has no CUDA provider") as caught:
        onnxruntime_cuda.load(plan(tmp_path))
    assert caught.value.problem_class == "missing"
    assert "mlperf-reconciler[cuda]" in caught.value.fix


class Opened:
    """Represents a session on a GPU; keeps what it was opened with and every batch that it ran."""

    made: list[Opened]

    def __init__(self, _path: str, _options: Any, providers: list[tuple[str, dict[str, str]]]) -> None:
        self.choices = providers[0][1]
        self.ran: list[tuple[int, ...]] = []
        self.made.append(self)

    def get_providers(self) -> list[str]:
        return ["CUDAExecutionProvider"]

    def io_binding(self) -> Binding:
        return Binding()

    def run_with_iobinding(self, binding: Binding, _options: Any) -> None:
        self.ran.append(binding.shape)


class Binding:
    def bind_input(self, _name: str, _kind: str, _device: int, _dtype: Any, shape: tuple[int, ...], _at: int) -> None:
        self.shape = shape

    def bind_output(self, *_arguments: Any) -> None:
        """Outputs are left as they are."""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Opened]:
    monkeypatch.setattr(Opened, "made", [], raising=False)
    monkeypatch.setattr(ort, "InferenceSession", Opened)
    return Opened.made


def loaded(model: Path, folder: Path, precision: str = "fp16", **options: Any) -> onnxruntime_cuda.LoadedModel:
    made = build(model, folder, precision)
    return onnxruntime_cuda.LoadedModel(made, replace(plan(folder), options=options), Device(0))


def bind(found: onnxruntime_cuda.LoadedModel) -> onnxruntime_cuda.BoundModel:
    return found.open([(3, 32, 32)], [DeviceMemory(64, 1)], [DeviceMemory(128, 1)], Device(0).stream())


@pytest.mark.parametrize(
    ("precision", "options", "choice", "value"),
    [
        ("fp32", {}, "use_tf32", "0"),
        ("fp32", {"tf32": True}, "use_tf32", "1"),
        ("fp16", {}, "use_tf32", "1"),  # without it no convolution would use tensor cores
        ("fp16", {}, "fuse_conv_bias", None),
        ("fp16", {"fused_bias": True}, "fuse_conv_bias", "1"),
        ("fp16", {}, "enable_cuda_graph", None),
        ("fp16", {"capture": True}, "enable_cuda_graph", "1"),
    ],
)
def test_a_session_is_opened_as_the_run_says(
    precision: str, options: Any, choice: str, value: str | None, model: Path, tmp_path: Path, opened: list[Opened]
) -> None:
    bind(loaded(model, tmp_path, precision, **options)).prepare(4)
    assert [session.choices.get(choice) for session in opened] == [value]


@pytest.mark.parametrize(("graphs", "sessions"), [(False, 1), (True, 2)])
def test_each_size_that_is_captured_has_a_session_of_its_own(
    graphs: bool, sessions: int, model: Path, tmp_path: Path, opened: list[Opened]
) -> None:
    found = loaded(model, tmp_path, capture=graphs)
    assert found.capturable is graphs
    bound = bind(found)
    for size in (1, 4, 1):
        bound.prepare(size)()
    assert len(opened) == sessions
    sizes = [{shape[0] for shape in session.ran} for session in opened]
    assert sizes == ([{1}, {4}] if graphs else [{1, 4}])
