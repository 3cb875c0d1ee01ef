"""What is read of machines of several kinds, and of this one."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.contract import ProbeRequest, Result
from harness.cuda.nvml import Gpus
from harness.machine import clocks
from harness.machine.clocks import CLOCK_SET, ClockWatch
from harness.machine.facts import describe_hardware, list_computing, list_inventory, list_visible, parse_modules
from harness.machine.telemetry import Telemetry
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


def test_links_between_devices_are_counted() -> None:
    states = {0: 1, 1: 1, 2: 0}
    module = nvml(
        nvmlDeviceGetNvLinkState=lambda _, link: states[link] if link in states else refuse(),
        nvmlDeviceGetNvLinkVersion=lambda *_: 4,
        nvmlDeviceGetEccMode=lambda _: (1, 1),
    )
    device = list_inventory(module)[0]
    assert (device["nvlink"], device["ecc"]) == ({"links": 2, "version": 4}, True)


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
    assert [device["uuid"] for device in list_inventory(module, chosen)] == [uuids[index] for index in found]
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
    assert gpus.list_flags() == {}
    assert list(gpus.read()) == list(gpus.read()) == []
    assert gpus.list_flags() == {"gpu.throttled.thermal_hardware": 2, "gpu.throttled.power_brake": 1}


def test_throttling_of_processors_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tmp_path / "cpu0/thermal_throttle/core_throttle_count"
    counter.parent.mkdir(parents=True)
    counter.write_text("40\n")
    monkeypatch.setattr("harness.machine.telemetry.PROCESSORS", tmp_path)
    with Telemetry() as telemetry:
        counter.write_text("43\n")
    assert telemetry.list_flags() == {"telemetry.cpu_throttled": 3}
    assert telemetry.facts()["telemetry.cpu_throttled"].value == 3


def test_a_run_is_described_by_power_energy_throttling_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """One device that used 500 J, throttled, and reported Xid 79."""
    joules, errors, events = iter((1000.0, 1500.0)), iter((2, 3)), [SimpleNamespace(eventData=79)]
    offers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByPciBusId": lambda bus: bus,
        "nvmlDeviceGetPowerUsage": lambda _: 650_000,
        "nvmlDeviceGetTotalEnergyConsumption": lambda _: next(joules) * 1000,
        "nvmlDeviceGetTotalEccErrors": lambda *_: next(errors),
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 0x4 | 0x20,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
        "nvmlEventSetCreate": lambda: "events",
        "nvmlDeviceRegisterEvents": lambda *_: None,
        "nvmlEventSetWait_v2": lambda *_: events.pop() if events else refuse(),
        "nvmlEventTypeXidCriticalError": 8,
    }
    driver = nvml(NVML_CLOCK_MEM=2, NVML_TEMPERATURE_GPU=0, **{**dict.fromkeys(READINGS, refuse), **offers})
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    with Telemetry(["0000:3b:00.0"]) as telemetry:
        pass
    assert "Xid 79" in telemetry.describe_faults()
    found = telemetry.facts(samples=100_000)
    assert {fact.role for fact in found.values()} == {"note"}
    facts = {name: fact.value for name, fact in found.items() if ".gpu." in name}
    assert facts.pop("telemetry.gpu.power_watts")["mean"] == 650
    assert facts == {
        "telemetry.gpu.throttled": {"power": 1, "thermal_software": 1},
        "telemetry.gpu.power_limit_watts": [700.0],
        "telemetry.gpu.energy_joules": 500.0,
        "telemetry.gpu.joules_per_sample_unofficial": 0.005,
        "telemetry.gpu.uncorrected_memory_errors": [1],
        "telemetry.gpu.xid": [79],
    }


def count_from(monkeypatch: pytest.MonkeyPatch, *apart: float, lost: float = 0.0) -> None:
    """Both clocks go on by a microsecond with each reading; the time of day is ``apart``, more once for each further
    watch. Once in five readings the processor is ``lost`` between two of them."""
    ticks, days = itertools.count(), itertools.count()

    def monotonic() -> float:
        tick = next(ticks)
        return tick * 1e-6 + lost * (tick // 10)

    def now() -> float:
        return 1.7e9 + monotonic() + apart[min(next(days) // 5, len(apart) - 1)]

    monkeypatch.setattr(clocks, "time", SimpleNamespace(monotonic=monotonic, time=now))


@pytest.mark.parametrize("seconds", [3600.0, -12.5, 0.1])
def test_a_clock_that_was_set_is_said_with_its_direction(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    count_from(monkeypatch, 0.0, seconds)
    assert ClockWatch().describe() == {CLOCK_SET: pytest.approx(seconds, abs=0.001)}


@pytest.mark.parametrize("lost", [0.0, 7.0])
def test_a_clock_that_no_one_set_says_nothing(lost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    count_from(monkeypatch, 0.0, 0.001, lost=lost)
    assert ClockWatch().describe() == {}
