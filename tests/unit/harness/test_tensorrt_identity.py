"""What makes a TensorRT engine stale, and what does not."""

from __future__ import annotations

import pytest

from harness.contract import BACKENDS
from reconciler.desired.compile import compile_desired
from reconciler.desired.state import Pins
from reconciler.execute.requests import select_engine_settings, select_run_settings
from reconciler.resource.pins import Pin, PinKind
from reconciler.resource.settings import CellSettings
from reconciler.spec.declared import Declared
from tests.unit.desired.test_inputs import BUILT, HERE, RULES, RUNS, Value, declare

ENGINE_AND_AFTER = {"Engine", *RUNS}


def on_gpu(accelerator: str = "NVIDIA H200", **changes: object) -> Declared:
    changes = {"engine__backend": "tensorrt", "engine__version": None, "engine__precision": "fp16", **changes}
    declared = declare("Server", **changes)
    system = declared.systems["box"]
    system.settings["hardware.accelerator"] = Value(accelerator, HERE)  # type: ignore[index]
    system.settings["hardware.count"] = Value(1, HERE)  # type: ignore[index]
    return declared


def stale(before: Declared, after: Declared, *versions: str) -> set[str]:
    first, last = versions or ("10.16.1.11", "10.16.1.11")
    looks = []
    for declared, version in ((before, first), (after, last)):
        pins = {Pin(PinKind.VERSION, backend, "box"): version for backend in ("tensorrt", "tensorrt-rtx")}
        looks.append(compile_desired(declared, RULES, Pins(dict(pins)))[0])
    old, new = looks
    changed = {r.address.label for r in new.resources if old.by_address[r.address].key != r.key}
    return changed - {"Submission"}


@pytest.mark.parametrize("option", sorted(BACKENDS["tensorrt"].engine))
def test_each_builder_setting_is_part_of_the_engine(option: str) -> None:
    assert stale(on_gpu(), on_gpu(**{f"engine__options__{option}": "changed"})) == ENGINE_AND_AFTER


@pytest.mark.parametrize("option", sorted(set(BACKENDS["tensorrt"].run) - {"streams"}))
def test_a_run_setting_is_no_part_of_the_engine(option: str) -> None:
    assert stale(on_gpu(), on_gpu(**{f"run__options__{option}": "changed"})) == RUNS


def test_another_version_makes_the_engine_stale() -> None:
    assert stale(on_gpu(), on_gpu(), "10.16.1.11", "11.4.0.106") == ENGINE_AND_AFTER


def test_another_device_makes_the_engine_stale() -> None:
    assert stale(on_gpu(), on_gpu("NVIDIA L40S")) == ENGINE_AND_AFTER


def test_another_flavour_makes_the_engine_stale() -> None:
    assert stale(on_gpu(), on_gpu(engine__backend="tensorrt-rtx")) == ENGINE_AND_AFTER


def test_a_target_makes_no_engine_stale() -> None:
    assert stale(on_gpu(), on_gpu(target_qps="200")) == {"Run performance", "Result"}


def test_quantizing_the_model_makes_everything_built_of_it_stale() -> None:
    assert stale(on_gpu(), on_gpu(model__settings__precision="int8")) == BUILT


def test_what_a_build_is_told() -> None:
    settings = CellSettings({"engine.precision": "int8", "engine.batch_size": 256, "engine.options.profiles": "1,256"})
    assert select_engine_settings(settings) == {
        "precision": "int8",
        "batch_size": 256,
        "profiles": "1,256",
    }


def test_a_run_uses_the_devices_of_the_system_unless_it_says_otherwise() -> None:
    settings = {"hardware.count": 8, "engine.batch_size": 256, "run.streams": 2, "run.options.lanes": 3}
    assert select_run_settings(CellSettings(settings)) == {"devices": 8, "batch_size": 256, "streams": 2, "lanes": 3}
    assert select_run_settings(CellSettings({**settings, "run.options.devices": 1}))["devices"] == 1
    assert "devices" not in select_run_settings(CellSettings({"hardware.count": 0}))
