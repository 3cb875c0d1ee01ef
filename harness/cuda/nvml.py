"""NVML readings of the devices during a run: name and driver, power, clocks, heat, throttling, energy, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from harness.contract import Fact, as_evidence
from harness.machine.facts import describe_devices, list_accelerators

# Fact -> query of a handle. Queries that a device does not support are omitted.
_READINGS: dict[str, Callable[[Any, Any], float]] = {
    "power_watts": lambda nvml, h: nvml.nvmlDeviceGetPowerUsage(h) / 1e3,
    "load_percent": lambda nvml, h: nvml.nvmlDeviceGetUtilizationRates(h).gpu,
    "sm_clock_mhz": lambda nvml, h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda nvml, h: nvml.nvmlDeviceGetClockInfo(h, nvml.NVML_CLOCK_MEM),
    "temperature_celsius": lambda nvml, h: nvml.nvmlDeviceGetTemperature(h, nvml.NVML_TEMPERATURE_GPU),
    "memory_bytes": lambda nvml, h: nvml.nvmlDeviceGetMemoryInfo(h).used,
}
# NVML has renamed this function.
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
# Reasons for a lower clock other than idleness.
_THROTTLES = {
    "power": 0x4,
    "hardware": 0x8,
    "sync_boost": 0x10,
    "thermal_software": 0x20,
    "thermal_hardware": 0x40,
    "power_brake": 0x80,
}
# At full load the power cap is normal; these mean that the machine slowed the device down.
_FLAGGED = ("hardware", "thermal_software", "thermal_hardware", "power_brake")


def collect_device_evidence() -> dict[str, Fact]:
    """Collect the devices and the driver, which must be equal in all runs of a cell."""
    return as_evidence({"gpu.name": [], "gpu.driver": "", **describe_devices(list_accelerators())})


class Gpus:
    """The devices of a run, by their PCI addresses; none without NVML."""

    def __init__(self, buses: Sequence[str]) -> None:
        self._nvml, self._handles = _open_devices(buses)
        self._throttled: dict[str, int] = {}
        self._energy: list[float | None] = []
        self._errors: list[int | None] = []
        self._settings: dict[str, Any] = {}
        self._events: Any = None
        self.xids: list[int] = []

    def begin(self) -> None:
        self._watch_for_xids()
        self._energy, self._errors = self._read_joules(), self._count_uncorrected()
        self._settings = dict(self._read_settings())

    def read(self) -> Iterator[tuple[str, float]]:
        """Yield each reading of each device, under the name of its fact."""
        for handle in self._handles:
            for name, ask in _READINGS.items():
                with suppress(self._nvml.NVMLError):
                    yield f"gpu.{name}", float(ask(self._nvml, handle))
            for name in _REASONS:
                reasons = self._ask(name, handle)
                if reasons is not None:
                    for reason in (reason for reason, bit in _THROTTLES.items() if int(reasons) & bit):
                        self._throttled[reason] = self._throttled.get(reason, 0) + 1
                    break

    def look_for_faults(self) -> list[int]:
        """Return the Xid errors that the driver has reported since the run began."""
        while self._events is not None:
            try:
                self.xids.append(int(self._nvml.nvmlEventSetWait_v2(self._events, 0).eventData))
            except self._nvml.NVMLError:
                break
        return self.xids

    def _watch_for_xids(self) -> None:
        if not self._handles:
            return
        with suppress(self._nvml.NVMLError, AttributeError):
            events = self._nvml.nvmlEventSetCreate()
            for handle in self._handles:
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, events)
            self._events = events

    def summarise(self, samples: int) -> dict[str, Any]:
        """Summarise the run: throttling (readings with each reason), energy, errors and current limits."""
        found: dict[str, Any] = {"gpu.throttled": self._throttled, **self._settings} if self._handles else {}
        now = self._read_joules()
        used = [after - before for before, after in zip(self._energy, now, strict=True) if before and after]
        if used and len(used) == len(self._handles):
            found["gpu.energy_joules"] = round(sum(used), 1)
            if samples:
                found["gpu.joules_per_sample_unofficial"] = round(sum(used) / samples, 9)
        pairs = zip(self._errors, self._count_uncorrected(), strict=True)
        errors = [after - before for before, after in pairs if before is not None and after is not None]
        if any(errors):
            found["gpu.uncorrected_memory_errors"] = errors
        if self.look_for_faults():
            found["gpu.xid"] = self.xids
        return found

    def list_flags(self) -> dict[str, int]:
        """Return reasons to flag a run, as fact → number of readings with it."""
        return {f"gpu.throttled.{name}": self._throttled[name] for name in _FLAGGED if name in self._throttled}

    def _read_joules(self) -> list[float | None]:
        return [self._ask("nvmlDeviceGetTotalEnergyConsumption", handle, scale=1e-3) for handle in self._handles]

    def _count_uncorrected(self) -> list[int | None]:
        found = [self._ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0) for handle in self._handles]
        return [None if count is None else int(count) for count in found]

    def _read_settings(self) -> Iterator[tuple[str, Any]]:
        for name, function in (
            ("gpu.power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit"),
            ("gpu.persistence_mode", "nvmlDeviceGetPersistenceMode"),
            ("gpu.compute_mode", "nvmlDeviceGetComputeMode"),
        ):
            scale = 1e-3 if name.endswith("watts") else 1
            values = [self._ask(function, handle, scale=scale) for handle in self._handles]
            if None not in values and values:
                yield name, values

    def _ask(self, function: str, handle: Any, *arguments: Any, scale: float = 1) -> float | None:
        try:
            return float(getattr(self._nvml, function)(handle, *arguments)) * scale
        except (self._nvml.NVMLError, AttributeError):
            return None


def _open_devices(buses: Sequence[str]) -> tuple[Any, list[Any]]:
    try:
        nvml = import_module("pynvml") if buses else None
    except ImportError:
        nvml = None
    if nvml is None:
        return None, []
    try:
        nvml.nvmlInit()
        return nvml, [nvml.nvmlDeviceGetHandleByPciBusId(bus.encode()) for bus in buses]
    except nvml.NVMLError:
        return nvml, []
