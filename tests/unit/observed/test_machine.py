"""Whether this machine is the declared one, and what a probe's machines contradict of a declared system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.observed import machine, observe
from reconciler.observed.installed_backends import find_backend_version, list_installed
from reconciler.observed.machine import find_unlike, list_accelerators, read_cpu_model
from reconciler.observed.observe import find_unlike_systems, list_installed_for
from reconciler.observed.probed_nodes import (
    NodeFacts,
    find_unlike_nodes,
    name_nodes,
    needs_probe,
    read_probed_nodes,
    summarise_node,
    write_probed_nodes,
)
from reconciler.resource.kinds import Address, Kind
from reconciler.resource.settings import Settings, SystemSettings
from reconciler.storage.files import RepositoryPaths

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


SRUN = {"system.launcher": ["srun", "-N", "2"]}


def node(host: str = "n0", gpus: int = 2, **gpu: Any) -> dict[str, Any]:
    device = {"name": "NVIDIA H200", "power_limit_watts": 700.0, "driver": "580.1", "uuid": "GPU-1", **gpu}
    machine = {"machine.host": host, "machine.cpu": "AMD EPYC 9654", "machine.kernel": "Linux 6.8"}
    return {"machine": machine, "accelerators": [device] * gpus, "backends": {"tensorrt": "10.1"}, "loadgen": "5.1"}


def seen(*nodes: dict[str, Any]) -> NodeFacts:
    return NodeFacts(tuple(map(summarise_node, nodes)))


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ({}, ()),
        ({"hardware.accelerator": "H200", "hardware.count": 2, "hardware.nodes": 2}, ()),
        ({"hardware.accelerator": "H200", "hardware.count": 8}, ("8 x H200", "n0", "2 x NVIDIA H200")),
        ({"hardware.accelerator": "B200"}, ("1 x B200", "n0", "2 x NVIDIA H200")),
        ({"hardware.nodes": 4}, ("4 nodes", "2 nodes")),
        ({"hardware.cpu": "Xeon"}, ("n0", "AMD EPYC 9654")),
        ({"hardware.count": 2, "hardware.power_limit": 700_000}, ()),
        ({"hardware.count": 2, "hardware.power_limit": 700_400}, ()),
        ({"hardware.count": 2, "hardware.power_limit": 500_000}, ("500 W", "GPU 0", "n0", "700 W")),
    ],
)
def test_nodes_that_are_not_what_is_declared(declared: dict[str, Any], named: tuple[str, ...]) -> None:
    check(Settings({**SRUN, **declared}), seen(node(), node("n1")), *named)


def check(declared: Settings, there: NodeFacts, *named: str) -> None:
    """``named``: what is said of the difference; there is none where nothing is."""
    found = find_unlike_nodes(declared, there)
    assert (found is None) == (named == ())
    if found is not None:
        assert [part for part in named if part not in found.message] == []
        assert found.fix


def test_one_node_of_many_is_enough() -> None:
    declared = Settings({**SRUN, "hardware.accelerator": "H200", "hardware.count": 2})
    check(declared, seen(node(), node("n7", 1)), "n7", "1 x NVIDIA H200")


def test_power_limit_of_this_machine() -> None:
    """It needs no launcher: nothing but a probe reads it."""
    declared = Settings({"hardware.count": 1, "hardware.power_limit": 300_000})
    assert needs_probe(declared)
    assert not needs_probe(Settings({"hardware.count": 1}))
    check(declared, seen(node()), "300 W", "GPU 0", "this machine", "700 W")
    check(declared, seen(node(power_limit_watts=None)), "cannot be read")
    check(declared, seen(node(gpus=0)), "no GPU")


SLICED = {"hardware.accelerator": "A100", "hardware.count": 1, "hardware.mig": "1x 3g.40gb, 2x 1g.10gb"}


def cut(*profiles: str, mig: bool | None = True) -> dict[str, Any]:
    parts = {"slices": [{"uuid": f"MIG-{n}", "profile": profile} for n, profile in enumerate(profiles)]}
    return node(gpus=1, name="NVIDIA A100", **(parts if profiles else {}), **({} if mig is None else {"mig": mig}))


@pytest.mark.parametrize(
    ("there", "named"),
    [
        (cut("1g.10gb", "3g.40gb", "1g.10gb"), ()),
        (cut("1g.10gb", "3g.40gb", "1g.10gb", "1g.10gb"), ()),
        (cut("1g.10gb", "3g.40gb"), ("n0", "1x 3g.40gb, 1x 1g.10gb")),
        (cut("7g.80gb"), ("n0", "1x 7g.80gb")),
        (cut(), ("n0", "no slices")),
        (cut(mig=False), ("n0", "undivided")),
        (cut(mig=None), ("n0", "without MIG")),
    ],
)
def test_a_node_must_offer_the_declared_slices(there: dict[str, Any], named: tuple[str, ...]) -> None:
    check(Settings({**SRUN, **SLICED}), seen(there), *named)
    assert needs_probe(Settings(SLICED))


def test_what_was_seen_is_kept_by_launcher(tmp_path: Path) -> None:
    paths = RepositoryPaths(tmp_path)
    assert read_probed_nodes(paths) == {}
    here, there = name_nodes(Settings()), name_nodes(Settings(SRUN))
    kept = {there: seen(node()), here: NodeFacts(problem="no answer", fix="ask again")}
    write_probed_nodes(paths, kept)
    assert read_probed_nodes(paths) == kept
    assert there != name_nodes(Settings({**SRUN, "system.python": "python3.12"})) != here


def test_nodes_that_no_one_has_looked_at_are_believed_and_their_versions_unknown() -> None:
    systems = {"far": SystemSettings({**SRUN, "hardware.accelerator": "H200"}), "here": SystemSettings()}
    assert find_unlike_systems(systems, {}) == {}
    assert list_installed_for(systems, {}, {"tensorrt": "9"}) == {"far": None, "here": {"tensorrt": "9"}}
    reached = {name_nodes(Settings(SRUN)): seen(node())}
    found = list_installed_for(systems, reached, {})
    assert found["far"] == {"tensorrt": "10.1", "mlcommons-loadgen": "5.1"}


def test_nodes_out_of_reach_are_an_obstacle() -> None:
    systems = {"far": SystemSettings(SRUN)}
    found = find_unlike_systems(
        systems, {name_nodes(Settings(SRUN)): NodeFacts(problem="no such partition", fix="correct it")}
    )
    assert (found["far"].message, found["far"].fix) == ("no such partition", "correct it")
