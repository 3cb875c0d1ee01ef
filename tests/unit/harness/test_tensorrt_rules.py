"""What is decided of TensorRT engines without TensorRT: profiles, what fits, what the inspector reports, the cache."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest

from harness.backends import BackendEngine, Tensor, load_backend
from harness.backends.tensorrt.building import Profile, TimingCache, find_profile, inspect, plan_profiles
from harness.backends.tensorrt.versions import Flavour, Here, refuse_misfit
from harness.catalog import BACKENDS, TensorrtEngineOptions
from harness.errors import HarnessError
from tests.unit.harness import fake_cuda

fake_cuda.provide()

from harness.backends.tensorrt import building  # noqa: E402

IMAGE = {"image": (-1, 3, 224, 224)}
TOKENS = {"ids": (-1, -1), "mask": (-1, -1)}


@pytest.mark.parametrize(
    ("inputs", "options", "named"),
    [
        ({"image": (8, 3, 4, 4)}, {}, "256"),
        (TOKENS, {}, "axis"),
        (IMAGE, {"profiles": "1,64"}, "256"),
        (IMAGE, {"profiles": "256,64"}, "256,64"),
        (TOKENS, {"sequence_lengths": "many"}, "many"),
        ({"image": (256, 3, 4, 4)}, {"profiles": "1,256"}, "1,256"),
        ({"ids": (256, -1)}, {"profiles": "1,256", "sequence_lengths": "9"}, "1,256"),
    ],
)
def test_what_cannot_be_planned(inputs: dict[str, Any], options: dict[str, Any], named: str) -> None:
    with pytest.raises(HarnessError, match=named):
        plan_profiles(inputs, 256, TensorrtEngineOptions(options))


def test_the_tightest_profile_is_taken() -> None:
    profiles = (Profile(1, 128), Profile(64, 128), Profile(1, 384), Profile(64, 384))
    shapes = list(TOKENS.values())

    def chosen(batch: int, length: int) -> int:
        return find_profile(profiles, batch, shapes, [(length,), (length,)])

    assert [chosen(1, 100), chosen(2, 128), chosen(1, 129), chosen(64, 384)] == [0, 1, 2, 3]
    assert [chosen(65, 128), chosen(1, 385)] == [-1, -1]
    assert find_profile((Profile(8),), 8, [(-1, 3, 4, 4)], [(3, 4, 5)]) == -1


def engine(version: str = "10.3.0", **made: Any) -> BackendEngine:
    settings = {"tensorrt": {"flavour": "tensorrt", "compute_capability": [9, 0], **made}}
    return BackendEngine(
        backend="tensorrt",
        version=version,
        file="model.plan",
        precision="fp16",
        batch_size=64,
        batch_sizes=(),
        inputs=(Tensor("image", (3, 224, 224), "float16"),),
        outputs=(),
        settings=settings,
    )


def here(version: str = "10.3.0", capability: tuple[int, int] = (9, 0), flavour: str = "tensorrt") -> Here:
    return Here(flavour, version, capability, "NVIDIA H200")


@pytest.mark.parametrize(
    ("made", "machine"),
    [
        (engine(), here()),
        (engine(version_compatible=True), here("10.16.1.11")),
        (engine(hardware_compatibility="ampere_plus"), here(capability=(12, 0))),
        (engine(compute_capability=[]), here(capability=(8, 9))),
    ],
)
def test_an_engine_fits(made: BackendEngine, machine: Here) -> None:
    refuse_misfit(made, machine, 64)


@pytest.mark.parametrize(
    ("made", "machine", "batch", "text"),
    [
        (engine(), here("10.4.0"), 64, "10.3.0.*10.4.0"),
        (engine(version_compatible=True), here("11.0.0"), 64, "11.0.0"),
        (engine(version_compatible=True), here("10.2.0"), 64, "10.2.0"),
        (engine(), here(capability=(8, 9)), 64, "9.0.*8.9"),
        (engine(hardware_compatibility="same_compute_capability"), here(capability=(9, 2)), 64, "9.2"),
        (engine(hardware_compatibility="ampere_plus"), here(capability=(7, 5)), 64, "7.5"),
        (engine(flavour="tensorrt-rtx"), here(), 64, "tensorrt-rtx.*tensorrt"),
        (engine(), here(), 65, "65.*64"),
    ],
)
def test_an_engine_that_does_not_fit(made: BackendEngine, machine: Here, batch: int, text: str) -> None:
    with pytest.raises(HarnessError, match=text) as caught:
        refuse_misfit(made, machine, batch)
    assert caught.value.fix


# As TensorRT 8.6 prints it: names of fused layers are joined by a control character.
LAYERS = """{"Layers": [
 {"Name": "conv0 + relu1", "LayerType": "CaskConvolution", "ConvWeights": {"Type": "Int8", "Count": 9408},
  "Outputs": [{"Name": "a", "Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format"}],
  "Metadata": "[ONNX Layer: conv0]\x1e[ONNX Layer: relu1]"},
 {"Name": "fc", "LayerType": "gemm", "Outputs": [{"Name": "b", "Format/Datatype": "Row major linear FP32"}]},
 {"Name": "conv1", "LayerType": "CaskConvolution", "ConvWeights": {"Type": "Half", "Count": 3},
  "Outputs": [{"Name": "c", "Format/Datatype": "N/A due to dynamic shapes"}]}
], "Bindings": ["image", "scores"]}"""


class FakeInspector:
    execution_context: Any = None

    def get_engine_information(self, _format: Any) -> str:
        assert self.execution_context == "context"
        return LAYERS


def test_the_inspector_is_summed_up() -> None:
    fake_trt = types.SimpleNamespace(LayerInformationFormat=types.SimpleNamespace(JSON=1))
    fake_engine = types.SimpleNamespace(create_engine_inspector=FakeInspector)
    assert inspect(fake_trt, fake_engine, "context") == {
        "layers": 3,
        "types": {"CaskConvolution": 2, "gemm": 1},
        "outputs": {"FP32": 1, "Half": 1, "Int8": 1},
        "precisions": {"conv0 + relu1": "Int8", "fc": "FP32", "conv1": "Half"},
    }


class Cache:
    """Represents TensorRT's: entries as JSON; bytes that are none raise."""

    def __init__(self, content: bytes) -> None:
        self.entries: dict[str, int] = json.loads(content) if content else {}

    def combine(self, other: Cache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        self.entries = {**other.entries, **self.entries}
        return True

    def serialize(self) -> bytes:
        return json.dumps(self.entries, sort_keys=True).encode()


class Config:
    def __init__(self) -> None:
        self.cache: Cache | None = None

    def create_timing_cache(self, content: bytes) -> Cache:
        return Cache(content)

    def set_timing_cache(self, cache: Cache, ignore_mismatch: bool) -> bool:
        assert not ignore_mismatch
        self.cache = cache
        return True

    def get_timing_cache(self) -> Cache | None:
        return self.cache


def built(path: Path, measured: dict[str, int], concurrent: dict[str, int] | None = None) -> TimingCache:
    timing, config = TimingCache(path, "8.6.1"), Config()
    timing.attach(config)
    assert config.cache is not None
    config.cache.entries |= measured
    if concurrent:
        built(path, concurrent)
    timing.keep(config)
    return timing


def test_the_timing_cache_is_kept_and_merged(tmp_path: Path) -> None:
    path = tmp_path / "caches" / "timing-tensorrt.cache"
    first = built(path, {"a": 1})
    assert (first.before, len(first.after)) == ("", 64)
    second = built(path, {"b": 2}, concurrent={"c": 3})
    assert second.before == first.after != second.after
    file = tmp_path / "caches" / "timing-tensorrt-8.6.1.cache"
    assert json.loads(file.read_bytes()) == {"a": 1, "b": 2, "c": 3}
    assert not list(file.parent.glob("*.partial"))


def test_a_damaged_timing_cache_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "timing-8.6.1.cache"
    file.write_bytes(b"{damaged")
    assert built(tmp_path / "timing.cache", {"a": 1}).before == ""
    assert json.loads(file.read_bytes()) == {"a": 1}


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
    options = TensorrtEngineOptions({"plugins": f"{tmp_path}/one.so:{tmp_path}/two.so"})
    reported = [building.load_plugins(flavour, log, options) for _device in range(2)]  # type: ignore[arg-type]
    assert reported[0] == reported[1]
    assert reported[0].keys() == {"one.so", "two.so"}
    assert registry.libraries == [f"{tmp_path}/one.so", f"{tmp_path}/two.so"]


@pytest.mark.parametrize("error", ["OSError('libnvinfer.so.10: cannot open shared object file')", "RuntimeError('no')"])
def test_a_library_that_does_not_load_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    (tmp_path / "does_not_load.py").write_text(f"raise {error}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(BACKENDS, "tensorrt", BACKENDS["tensorrt"]._replace(module="does_not_load"))
    with pytest.raises(HarnessError, match="backend tensorrt cannot be loaded") as caught:
        load_backend("tensorrt")
    assert caught.value.problem_class == "missing"
    assert "mlperf-reconciler[tensorrt]" in caught.value.fix
