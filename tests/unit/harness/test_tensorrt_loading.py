"""What is loaded beside an engine, and shapes that no buffer can be made for, without TensorRT."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from harness.backends import MODULES, Tensor, load_backend
from harness.errors import HarnessError
from tests.unit.harness import fake_cuda

fake_cuda.provide()
pytest.importorskip("onnxruntime")

from harness.backends.tensorrt import building, configuring, execution  # noqa: E402
from harness.backends.tensorrt.versions import Flavour  # noqa: E402
from harness.cuda.driver import DeviceMemoryError  # noqa: E402


class Registry:
    """Refuses a library that it holds, as TensorRT's does."""

    def __init__(self) -> None:
        self.libraries: list[str] = []

    def load_library(self, path: str) -> object | None:
        if path in self.libraries:
            return None
        self.libraries.append(path)
        return object()


def library(registry: Registry) -> Any:
    return types.SimpleNamespace(
        __version__="8.6.1",
        __name__="fake",
        init_libnvinfer_plugins=lambda _logger, _namespace: None,
        get_plugin_registry=lambda: registry,
        HardwareCompatibilityLevel=types.SimpleNamespace(NONE=0, AMPERE_PLUS=1),
    )


def test_a_plugin_is_loaded_once_for_all_devices(tmp_path: Path) -> None:
    registry, log = Registry(), types.SimpleNamespace(logger=None, last=lambda: "")
    flavour = Flavour("tensorrt", library(registry))
    (tmp_path / "one.so").write_bytes(b"one")
    (tmp_path / "two.so").write_bytes(b"two")
    options = {"plugins": f"{tmp_path}/one.so:{tmp_path}/two.so"}
    told = [building.load_plugins(flavour, log, options) for _device in range(2)]  # type: ignore[arg-type]
    assert told[0] == told[1]
    assert told[0].keys() == {"one.so", "two.so"}
    assert registry.libraries == [f"{tmp_path}/one.so", f"{tmp_path}/two.so"]


def test_an_output_whose_shape_depends_on_the_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = object.__new__(execution.TensorRTEngine)
    context = types.SimpleNamespace(get_tensor_shape=lambda _name: (1, -1, 4))
    monkeypatch.setattr(engine, "_outputs", (Tensor("boxes", (-1, 4), "float32"),), raising=False)
    monkeypatch.setattr(engine, "profile", lambda *_: 0)
    monkeypatch.setattr(engine, "context", lambda *_: context)
    monkeypatch.setattr(engine, "shape", lambda *_: None)
    with pytest.raises(HarnessError, match=r"shape of output boxes depends on .*: \[1, -1, 4\]"):
        engine.outputs([(3, 8, 8)])


@pytest.mark.parametrize(("free", "kind"), [(1 << 20, DeviceMemoryError), (1 << 30, HarnessError)])
def test_a_context_that_a_full_device_refuses_is_told_as_out_of_memory(free: int, kind: type[Exception]) -> None:
    """What TensorRT then says names a handle, and no memory."""
    engine: Any = object.__new__(execution.TensorRTEngine)
    said = "Error Code 1: Cuda Runtime (invalid resource handle)"
    engine._log = types.SimpleNamespace(errors=[said], last=lambda: said)
    engine._flavour, engine._engine = types.SimpleNamespace(new_context=lambda _engine: None), None
    engine._device = types.SimpleNamespace(free_memory=lambda: free)
    with pytest.raises(kind, match="invalid resource handle"):
        engine.context(0, None)


def test_a_level_that_a_version_does_not_know_is_named() -> None:
    flavour = Flavour("tensorrt", library(Registry()))
    with pytest.raises(
        HarnessError, match=r"TensorRT 8\.6\.1 does not know hardware_compatibility same_compute_capability"
    ):
        configuring.set_compatibility(flavour, types.SimpleNamespace(), "same_compute_capability")
    config = types.SimpleNamespace()
    configuring.set_compatibility(flavour, config, "ampere_plus")
    assert config.hardware_compatibility_level == 1


@pytest.mark.parametrize("error", ["OSError('libnvinfer.so.10: cannot open shared object file')", "RuntimeError('no')"])
def test_a_library_that_does_not_load_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    (tmp_path / "does_not_load.py").write_text(f"raise {error}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(MODULES, "tensorrt", "does_not_load")
    with pytest.raises(HarnessError, match="backend tensorrt cannot be loaded") as caught:
        load_backend("tensorrt")
    assert caught.value.problem_class == "missing"
    assert "mlperf-reconciler[tensorrt]" in caught.value.fix
