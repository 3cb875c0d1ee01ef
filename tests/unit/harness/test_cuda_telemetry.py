"""What NVML tells of a run, read from a module that stands for NVML."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from harness.cuda.nvml import Gpus
from harness.machine.telemetry import Telemetry


class Error(Exception):
    pass


class Event:
    def __init__(self, data: int) -> None:
        self.eventData = data


class Nvml(ModuleType):
    """One device that used 500 J, throttled, and reported Xid 79."""

    NVMLError = Error
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.joules = iter((1000.0, 1500.0))
        self.errors = iter((2, 3))
        self.events = [Event(79)]

    def nvmlInit(self) -> None:  # noqa: N802
        return None

    def nvmlDeviceGetHandleByPciBusId(self, bus: bytes) -> str:  # noqa: N802
        return bus.decode()

    def nvmlDeviceGetPowerUsage(self, _handle: str) -> int:  # noqa: N802
        return 650_000

    def nvmlDeviceGetTotalEnergyConsumption(self, _handle: str) -> float:  # noqa: N802
        return next(self.joules) * 1000

    def nvmlDeviceGetTotalEccErrors(self, _handle: str, _kind: int, _counter: int) -> int:  # noqa: N802
        return next(self.errors)

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: str) -> int:  # noqa: N802
        return 0x4 | 0x20

    def nvmlDeviceGetEnforcedPowerLimit(self, _handle: str) -> int:  # noqa: N802
        return 700_000

    def nvmlEventSetCreate(self) -> str:  # noqa: N802
        return "events"

    def nvmlDeviceRegisterEvents(self, *_: Any) -> None:  # noqa: N802
        return None

    def nvmlEventSetWait_v2(self, _events: str, _timeout: int) -> Event:  # noqa: N802
        if not self.events:
            raise Error
        return self.events.pop()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDeviceGet") or "EventReasons" in name:
            raise AttributeError(name)

        def unsupported(*_: Any) -> None:
            raise Error(name)

        return unsupported


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    made = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    return made


def test_a_run_tells_power_energy_throttling_and_errors(nvml: Nvml) -> None:
    with Telemetry(["0000:3b:00.0"]) as telemetry:
        pass
    assert telemetry.faults() == "; the driver reported Xid 79"
    told = telemetry.facts(samples=100_000)
    assert {fact.role for fact in told.values()} == {"note"}
    facts = {name: fact.value for name, fact in told.items() if ".gpu." in name}
    assert facts.pop("telemetry.gpu.power_watts")["mean"] == 650
    assert facts == {
        "telemetry.gpu.throttled": {"power": 1, "thermal_software": 1},
        "telemetry.gpu.power_limit_watts": [700.0],
        "telemetry.gpu.energy_joules": 500.0,
        "telemetry.gpu.joules_per_sample_unofficial": 0.005,
        "telemetry.gpu.uncorrected_memory_errors": [1],
        "telemetry.gpu.xid": [79],
    }


def test_nothing_is_told_where_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for gpus in (Gpus(["0000:3b:00.0"]), Gpus([])):
        gpus.begin()
        assert list(gpus.read()) == []
        assert gpus.summary(1) == {}
        assert gpus.look_for_faults() == []
