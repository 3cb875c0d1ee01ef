"""What keeps an action from being done: libraries of a benchmark, as far as a machine reports what it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.observed.installed_backends import PROJECT
from reconciler.observed.observe import find_obstacle, find_wrong_source
from reconciler.resource.kinds import Address, Kind

HERE = {PROJECT: "1", "onnxruntime": "1", "mlcommons-loadgen": "6", "scipy": "1"}
LOCATIONS = {"benchmark.code": "unet3d", "backend": "onnxruntime"}


@pytest.mark.parametrize("kind", [Kind.DATASET, Kind.RUN, Kind.SCORE])
def test_libraries_that_are_missing_are_named_with_the_extra_that_brings_them(tmp_path: Path, kind: Kind) -> None:
    address = Address(kind, "3d-unet-99")
    found = find_obstacle(address, LOCATIONS, tmp_path, HERE)
    assert found is not None
    assert "nibabel" in found.message
    assert "scipy" not in found.message
    assert "mlperf-reconciler[unet3d]" in found.fix
    fewer = {name: version for name, version in HERE.items() if name != "scipy"}
    several = find_obstacle(address, LOCATIONS, tmp_path, fewer)
    assert several is not None
    assert "nibabel, scipy" in several.message
    assert find_obstacle(address, LOCATIONS, tmp_path, {**HERE, "nibabel": "5"}) is None


def test_any_of_several_packages_will_do(tmp_path: Path) -> None:
    locations, address = {"benchmark.code": "resnet50"}, Address(Kind.DATASET, "resnet")
    assert find_obstacle(address, locations, tmp_path, {**HERE, "opencv-python": "4"}) is None
    assert "opencv-python-headless" in str(find_obstacle(address, locations, tmp_path, HERE))


def test_a_machine_that_only_reports_its_backends_finds_out_itself(tmp_path: Path) -> None:
    there = {"onnxruntime": "1", "mlcommons-loadgen": "6"}
    assert find_obstacle(Address(Kind.RUN, "3d-unet-99"), LOCATIONS, tmp_path, there) is None


def test_a_users_own_code_brings_its_own(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.touch()
    locations = {**LOCATIONS, "benchmark.path": str(own)}
    assert find_obstacle(Address(Kind.DATASET, "3d-unet-99"), locations, tmp_path, HERE) is None


@pytest.mark.parametrize("kind", [Kind.RUN, Kind.COMPLIANCE_TEST])
def test_runs_of_a_round_without_a_loadgen_are_refused_but_for_a_command_s(tmp_path: Path, kind: Kind) -> None:
    address, there = Address(kind, "3d-unet-99"), {**HERE, "nibabel": "5"}
    found = find_obstacle(address, LOCATIONS, tmp_path, there, "v1.0")
    assert found is not None
    assert "v1.0" in found.message
    assert "reconcile adopt" in found.fix
    assert find_obstacle(address, LOCATIONS, tmp_path, there, "v4.1") is None
    own = {"harness.command": "./run"}
    assert find_obstacle(address, own, tmp_path, there, "v1.0") is None


def test_a_source_without_a_place_is_not_looked_for(tmp_path: Path) -> None:
    """Its place would be the whole repository, with everything that passes left in it."""

    def refuse(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    for location, declared in (("", "0" * 64), ("net.onnx", None), ("", None)):
        assert find_wrong_source(Kind.MODEL, location, declared, tmp_path, refuse) is None
    assert find_wrong_source(Kind.MODEL, "net.onnx", "0" * 64, tmp_path, lambda _: "1" * 64) is not None
