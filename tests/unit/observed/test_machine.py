"""Whether this machine is the declared one."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.observed import machine, observe
from reconciler.observed.installed_backends import find_backend_version, list_installed
from reconciler.observed.machine import find_unlike, list_accelerators, read_cpu_model
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import Settings

H200 = ["NVIDIA H200"] * 8


@pytest.mark.parametrize(
    ("hardware", "gpus", "said"),
    [
        ({}, [], None),
        ({"hardware.count": 0}, H200, None),
        ({"hardware.accelerator": "none"}, [], None),
        ({"hardware.accelerator": "NVIDIA H200", "hardware.count": 8}, H200, None),
        ({"hardware.accelerator": "h200"}, H200, None),
        ({"hardware.accelerator": "NVIDIA H200", "hardware.count": 8}, H200[:4], "4 x NVIDIA H200"),
        ({"hardware.accelerator": "NVIDIA H200"}, [], "no NVIDIA GPU"),
        ({"hardware.accelerator": "NVIDIA B200"}, H200, "8 x NVIDIA H200"),
        ({"hardware.accelerator": "A100", "hardware.mig": "7x 1g.10gb"}, [], "1 x A100 cut into 7x 1g.10gb; this"),
        ({"hardware.cpu": "xeon"}, [], None),
        ({"hardware.cpu": "AMD EPYC 9654"}, [], "Intel(R) Xeon(R)"),
    ],
)
def test_declared_hardware(
    monkeypatch: pytest.MonkeyPatch, hardware: dict[str, object], gpus: list[str], said: str | None
) -> None:
    monkeypatch.setattr(machine, "list_accelerators", lambda: gpus)
    monkeypatch.setattr(machine, "read_cpu_model", lambda: "Intel(R) Xeon(R) Platinum")
    found = find_unlike(Settings(hardware).hardware)
    assert (found is None) == (said is None)
    if found is not None and said is not None:
        assert said in found.message
        assert found.fix


@pytest.mark.parametrize(
    ("backend", "gpus", "kind", "anywhere"),
    [
        ("tensorrt-rtx", [], Kind.ENGINE, True),
        ("tensorrt-rtx", [], Kind.RUN, False),
        ("tensorrt-rtx", H200, Kind.ENGINE, False),  # it would be made for this GPU
        ("tensorrt", [], Kind.ENGINE, False),
        ("", [], Kind.ENGINE, False),
    ],
)
def test_an_engine_that_needs_no_device_is_built_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, backend: str, gpus: list[str], kind: Kind, anywhere: bool
) -> None:
    monkeypatch.setattr(observe, "list_accelerators", lambda: gpus)
    address = Address(kind, "open/box/tiny/Offline")
    assert observe.can_build_anywhere(address, {"backend": backend}) is anywhere
    assert not observe.can_build_anywhere(address, {"backend": backend, "harness.build.command": "here"})


def test_cpu_is_read_from_the_kernel(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nmodel name\t: AMD EPYC 9654: 96 cores\n", encoding="utf-8")
    assert read_cpu_model(info) == "AMD EPYC 9654: 96 cores"
    assert read_cpu_model(tmp_path / "missing")


def test_gpus_are_read_from_the_driver(tmp_path: Path) -> None:
    for number in range(2):
        folder = tmp_path / f"0000:{number}"
        folder.mkdir()
        (folder / "information").write_text("Model: \t NVIDIA H200\nIRQ: 4\n", encoding="utf-8")
    assert list_accelerators(tmp_path) == ["NVIDIA H200"] * 2
    assert list_accelerators(tmp_path / "missing") == []


def test_the_gpu_of_a_tegra_chip_has_the_name_of_its_board(tmp_path: Path) -> None:
    (tmp_path / "compatible").write_text("nvidia,p3737-0000\0nvidia,tegra234\0")
    (tmp_path / "model").write_text("NVIDIA Jetson AGX Orin Developer Kit\0")
    assert list_accelerators(tmp_path / "none", tmp_path) == ["NVIDIA Jetson AGX Orin Developer Kit integrated GPU"]
    assert list_accelerators(tmp_path / "none", tmp_path / "none") == []


def test_installed_reads_names_and_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Onnx_Runtime.GPU-1.20.1.dist-info", "openvino-2024.4.0.dist-info", "no-version"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path), str(tmp_path / "missing"), ""])
    assert list_installed() == {"onnx-runtime-gpu": "1.20.1", "openvino": "2024.4.0"}
    assert find_backend_version("openvino", list_installed()) == "2024.4.0"
    assert find_backend_version("onnxruntime", list_installed()) is None
    assert find_backend_version("null", {}) == ""
    assert find_backend_version("no such backend", {}) is None
