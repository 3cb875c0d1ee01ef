"""What is read of machines of several kinds, and of this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.contract import ProbeRequest, Result
from harness.cuda.nvml import Gpus
from harness.machine.gpus import list_computing, list_inventory, list_visible
from harness.machine.hardware import describe_hardware, parse_modules, parse_release
from harness.machine.telemetry import Telemetry, find_flags
from tests.unit.harness import machines
from tests.unit.harness.children import Children, command, environment


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (machines.XEON, ("Intel(R) Xeon(R) Platinum 8480C", 2, 56, 2, 3800, 2)),
        (machines.EPYC, ("AMD EPYC 9654 96-Core Processor", 2, 96, 2, 3708, 8)),
        (machines.GRACE, ("Neoverse-V2", 1, 72, 1, 3474, 9)),
        (machines.JETSON, ("Cortex-A78AE", 1, 12, 1, 2202, None)),
    ],
    ids=["xeon", "epyc", "grace", "jetson"],
)
def test_processors_by_lscpu(text: str, wanted: tuple[Any, ...], tmp_path: Path) -> None:
    found = describe_hardware(tmp_path, lscpu=text, modules="")
    names = ("model", "sockets", "cores_per_socket", "threads_per_core", "mhz")
    assert (*(found[f"cpu.{name}"] for name in names), found.get("numa.nodes")) == wanted


def test_processors_without_lscpu(tmp_path: Path) -> None:
    machines.files(tmp_path, proc__cpuinfo=machines.CPUINFO)
    found = describe_hardware(tmp_path, lscpu="", modules="")
    assert found["cpu.model"] == "Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz"
    assert (found["cpu.sockets"], found["cpu.cores_per_socket"]) == (2, 6)


def test_machine_without_any_file_says_nothing(tmp_path: Path) -> None:
    assert describe_hardware(tmp_path, lscpu="", modules="") == {}


def test_memory_and_its_modules(tmp_path: Path) -> None:
    machines.files(tmp_path, proc__meminfo="MemTotal:       2113417216 kB\nMemFree: 1 kB\n")
    found = describe_hardware(tmp_path, lscpu="", modules=machines.MODULES)
    assert found["memory.bytes"] == 2113417216 * 1024
    assert found["memory.modules"] == "2x 64 GB DDR5 4800 MT/s"
    assert parse_modules("# dmidecode 3.3\n/dev/mem: Permission denied\n") == ""


def test_disks_are_named_by_their_kind(tmp_path: Path) -> None:
    block = {
        "sys__block__nvme0n1__size": "15002931888\n",
        "sys__block__sda__size": "1000",
        "sys__block__sda__queue__rotational": "1",
        "sys__block__sdb__size": "1000",
        "sys__block__sdb__removable": "1",
        "sys__block__loop0__size": "1000",
        "sys__block__vda__size": "0",
    }
    machines.files(tmp_path, **block)
    disks = describe_hardware(tmp_path, lscpu="", modules="")["disks"]
    assert [(disk["name"], disk["kind"]) for disk in disks] == [("nvme0n1", "NVMe SSD"), ("sda", "HDD")]
    assert disks[0]["bytes"] == 15002931888 * 512


def test_network_cards_have_hardware_behind_them(tmp_path: Path) -> None:
    net = {
        "sys__class__net__eth0__type": "1",
        "sys__class__net__eth0__speed": "100000",
        "sys__class__net__eth0__device__vendor": "0x15b3",
        "sys__class__net__ib0__type": "32",
        "sys__class__net__ib0__speed": "-1",
        "sys__class__net__ib0__device__vendor": "0x15b3",
        "sys__class__net__docker0__type": "1",
    }
    machines.files(tmp_path, **net)
    cards = describe_hardware(tmp_path, lscpu="", modules="")["cards"]
    assert [(card["kind"], card["mbit"]) for card in cards] == [("Ethernet", 100000), ("InfiniBand", 0)]


def test_board_of_a_jetson(tmp_path: Path) -> None:
    board = {"model": "NVIDIA Jetson AGX Orin Developer Kit\0", "compatible": "nvidia,p3737\0nvidia,tegra234\0"}
    machines.files(tmp_path, **{f"proc__device-tree__{name}": text for name, text in board.items()})
    found = describe_hardware(tmp_path, lscpu=machines.JETSON, modules="")
    assert (found["product"], found["tegra"]) == ("NVIDIA Jetson AGX Orin Developer Kit", True)


def test_operating_system_by_its_pretty_name() -> None:
    assert parse_release('NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.1 LTS"\n') == "Ubuntu 24.04.1 LTS"
    assert parse_release("NAME=Yocto\nVERSION_ID=4.0\n") == "Yocto 4.0"


def test_this_machine(children: Children) -> None:
    ended = children.start(ProbeRequest(hardware=True), children.place())
    found = ended.result.values["hardware"]
    assert ended.result.done
    assert found["memory.bytes"] > 2**28
    assert ended.result.values["rank"] == {"all": 0, "local": 0}


def test_processes_of_a_launcher_leave_a_result_each(tmp_path: Path) -> None:
    ProbeRequest(hardware=True).write(tmp_path / "request.json")
    answers = tmp_path / "answers"
    answers.mkdir()
    line = [*command(), "probe", str(tmp_path / "request.json"), str(answers)]
    started = [
        subprocess.Popen(line, env={**environment(), "SLURM_PROCID": str(rank)}, cwd=tmp_path) for rank in range(3)
    ]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    ranks = [Result.read(path).values["rank"]["all"] for path in answers.glob("*.json")]
    assert sorted(ranks) == [0, 1, 2]


class NoNvmlError(Exception):
    """What NVML raises for what a device does not offer."""


def refuse(*_: object) -> Any:
    raise NoNvmlError


# What a driver may be asked of a running device.
READINGS = (
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetMemoryInfo",
)


def nvml(**more: Any) -> Any:
    """A driver of one device that offers little, as old ones do."""
    little = {
        "NVMLError": NoNvmlError,
        "NVML_CLOCK_SM": 1,
        "nvmlSystemGetDriverVersion": lambda: b"580.159.03",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: "NVIDIA H200",
        "nvmlDeviceGetMigMode": refuse,
    }
    return SimpleNamespace(**little, **more)


def test_devices_leave_out_what_they_do_not_offer() -> None:
    assert list_inventory(nvml()) == [{"name": "NVIDIA H200", "driver": "580.159.03"}]


def test_links_between_devices_are_counted() -> None:
    states = {0: 1, 1: 1, 2: 0}
    module = nvml(
        nvmlDeviceGetNvLinkState=lambda _, link: states[link] if link in states else refuse(),
        nvmlDeviceGetNvLinkVersion=lambda *_: 4,
        nvmlDeviceGetEccMode=lambda _: (1, 1),
    )
    device = list_inventory(module)[0]
    assert (device["nvlink"], device["ecc"]) == ({"links": 2, "version": 4}, True)


def test_computing_processes_by_device() -> None:
    module = nvml(nvmlDeviceGetComputeRunningProcesses=lambda _: [SimpleNamespace(pid=77)])
    assert list(list_computing(module, 8)) == [(0, 77)]
    assert list(list_computing(nvml(), 8)) == []


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-b, 0", [1, 0]),
        ("1,7,0", [1]),
        ("GPU-", []),  # fits several
        ("MIG-GPU-b/1/0", [1]),  # of a driver before 470
        ("MIG-c", []),  # there is no slice
    ],
)
def test_devices_that_cuda_shows(chosen: str | None, found: list[int]) -> None:
    uuids = ["GPU-a0", "GPU-b1", "GPU-c2"]
    module = nvml(
        nvmlDeviceGetUUID=lambda index: uuids[index].encode(),
        nvmlDeviceGetComputeRunningProcesses=lambda index: [SimpleNamespace(pid=70 + index)],
    )
    module.nvmlDeviceGetCount = lambda: 3
    assert list_visible(module, chosen) == found
    assert list(list_computing(module, 1, chosen)) == [(index, 70 + index) for index in found[:1]]


def test_heat_flags_a_run_and_the_power_cap_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = iter([0x4, 0x40 | 0x80, 0x40])
    driver = nvml(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus: bus,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _: next(reasons),
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        **dict.fromkeys(READINGS, refuse),
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    gpus = Gpus(("0000:01:00.0",))
    assert list(gpus.read()) == []
    assert gpus.flags() == {}
    assert list(gpus.read()) == list(gpus.read()) == []
    assert gpus.flags() == {"gpu.throttled.thermal_hardware": 2, "gpu.throttled.power_brake": 1}


def test_flagged_run_carries_a_mark() -> None:
    assert find_flags({"marks": ["synthetic"]}, {}) == {"marks": ["synthetic"]}
    flags = {"telemetry.cpu_throttled": 3}
    assert find_flags({"marks": ["synthetic"]}, flags) == {"marks": ["synthetic", "throttled"], "flags": flags}


def test_throttling_of_processors_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tmp_path / "cpu0/thermal_throttle/core_throttle_count"
    counter.parent.mkdir(parents=True)
    counter.write_text("40\n")
    monkeypatch.setattr("harness.machine.telemetry.PROCESSORS", tmp_path)
    with Telemetry() as telemetry:
        counter.write_text("43\n")
    assert telemetry.flags() == {"telemetry.cpu_throttled": 3}
    assert telemetry.facts()["telemetry.cpu_throttled"].value == 3
