"""`doctor` and the advice of submitters' guides: each check reads this machine, and says nothing where it cannot."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.observed import machine
from reconciler.observed.machine import read_driver
from reconciler.reconcile import readiness
from reconciler.rules import benchmark_files
from tests.unit.cli.conftest import Reconcile

SPEC = """\
apiVersion: mlperf-reconciler/v1
kind: Submission
metadata: {name: acme}
spec:
  round: v6.1
  submitter: ACME
  systems:
    h200:
      category: datacenter
      status: available
      hardware: {accelerator: NVIDIA H200, count: 2}
  benchmarks:
    resnet50: {engine: {backend: tensorrt}}
  divisions: {open: {h200: {resnet50: {Offline: {target_qps: 1}}}}}
"""
GPU = {
    "name": "NVIDIA H200",
    "ecc": True,
    "persistence": True,
    "application_mhz": 1980,
    "default_mhz": 1980,
    "power_limit_watts": 700.0,
    "default_limit_watts": 700.0,
}
WHEELS = {"tensorrt": "10.13", "tensorrt-cu13": "10.13", "tensorrt-cu13-libs": "10.13"}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository for a system of two GPUs, on a machine without any, where nothing can be read."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/acme.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for module in (readiness, benchmark_files):
        monkeypatch.setattr(module, "SCRATCH_DEFAULTS", (str(tmp_path / "new"), str(tmp_path / "old")))
    monkeypatch.delenv("MLPERF_SCRATCH_PATH", raising=False)
    show(monkeypatch, [], driver="")
    return tmp_path


def show(monkeypatch: pytest.MonkeyPatch, gpus: list[Mapping[str, Any]], driver: str) -> None:
    """What the kernel, NVML in a probe, and Python's packages say of this machine."""
    names = [str(gpu["name"]) for gpu in gpus]
    for module in (readiness, machine):
        monkeypatch.setattr(module, "list_accelerators", lambda: names)
    monkeypatch.setattr(readiness, "probe_nodes", lambda *_: ({"accelerators": gpus},))
    monkeypatch.setattr(readiness, "read_driver", lambda: driver)


def look(reconcile: Reconcile) -> list[dict[str, Any]]:
    """Checks of this machine, but those that a machine without advice has too."""
    checks = reconcile.report("doctor")["checks"]
    usual = ("Python ", "LoadGen ")
    return [each for each in checks if each["topic"] == "Machine" and not each["text"].startswith(usual)]


def test_nothing_is_said_where_nothing_can_be_read(repository: Path, reconcile: Reconcile) -> None:
    assert look(reconcile) == []


def test_root_is_advised_against(repository: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (found,) = look(reconcile)
    assert (found["advice"], found["missing"], bool(found["fix"])) == (True, False, True)


def test_scratch_spaces_of_both_guides(repository: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_at_problems() -> list[dict[str, Any]]:
        return [each for each in look(reconcile) if each["advice"] or each["missing"]]

    (repository / "old").mkdir()
    assert look_at_problems() == []
    (repository / "new").mkdir()
    (found,) = look_at_problems()
    assert found["advice"]
    assert str(repository / "old") in found["text"]
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(repository / "old"))
    assert look_at_problems() == []
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(repository / "old"))
    (found,) = look_at_problems()
    assert (found["missing"], str(repository / "old") in found["fix"]) == (True, True)
    monkeypatch.setenv("MLPERF_SCRATCH_PATH", str(repository / "nowhere"))
    (found,) = look_at_problems()
    assert (found["missing"], found["advice"]) == (False, True)


@pytest.mark.parametrize(
    ("driver", "wheels", "missing"),
    [
        ("580.65.06", WHEELS, False),
        ("575.57.08", WHEELS, True),
        ("575.57.08", {"tensorrt-cu12": "10.13"}, False),
        ("470.1", {"tensorrt-cu12": "10.13", "tensorrt-cu12-libs": "10.13"}, True),
        ("", WHEELS, None),  # a driver that says nothing
        ("470.1", {}, None),  # no TensorRT
        ("470.1", {"tensorrt-cu99": "30.1"}, None),  # a CUDA that is not known
        ("470.1", {"tensorrt-rtx-cu13-bindings": "1.1"}, None),  # another library than the spec's
    ],
)
def test_driver_of_the_tensorrt_in_use(
    repository: Path,
    reconcile: Reconcile,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    wheels: dict[str, str],
    missing: bool | None,
) -> None:
    show(monkeypatch, [GPU, GPU], driver)
    monkeypatch.setattr(readiness, "list_installed", lambda: wheels)
    found = [each["missing"] for each in look(reconcile) if each["text"].startswith("driver ")]
    assert found == ([] if missing is None else [missing])


@pytest.mark.parametrize(
    ("modes", "word"),
    [
        ({}, ""),
        ({"ecc": False}, "ECC"),
        ({"persistence": False}, "persistence"),
        ({"application_mhz": 1200}, "clocks"),
        ({"power_limit_watts": 400.0}, "power limit"),
    ],
)
def test_modes_of_gpus(
    repository: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, modes: dict[str, Any], word: str
) -> None:
    show(monkeypatch, [GPU, {**GPU, **modes}], "580.65.06")
    found = [each for each in look(reconcile) if each["advice"]]
    assert [(word in each["text"], "1 of 2 GPUs" in each["text"]) for each in found] == [(True, True)] * bool(word)


def test_a_declared_limit_is_meant(repository: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> None:
    show(monkeypatch, [{**GPU, "power_limit_watts": 400.0}] * 2, "580.65.06")
    path = repository / "specs/acme.yaml"
    path.write_text(SPEC.replace("count: 2", "count: 2, power_limit: 400 W").replace("datacenter", "edge"))
    assert [each for each in look(reconcile) if each["advice"]] == []


def test_a_device_that_offers_nothing_is_not_judged(
    repository: Path, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(monkeypatch, [{"name": "NVIDIA H200"}] * 2, "580.65.06")
    assert [each for each in look(reconcile) if each["advice"]] == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n", "550.90.07"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build\n", "560.35.03"),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  535.54  Tue Jun\n", "535.54"),
        ("nothing\n", ""),
    ],
)
def test_the_version_that_the_driver_states(tmp_path: Path, text: str, version: str) -> None:
    (tmp_path / "version").write_text(text)
    assert read_driver(tmp_path / "version") == version
    assert read_driver(tmp_path / "absent") == ""
