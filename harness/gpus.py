"""What NVML says of the devices of a machine while nothing runs: inventory, and the processes that compute on them.

Every function takes the module ``pynvml`` after ``nvmlInit``; what a device or driver does not offer is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

_MOST_LINKS = 32
_ENABLED = 1

# Fact -> how a handle is asked.
_ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda nvml, h: decode_text(nvml.nvmlDeviceGetName(h)),
    "uuid": lambda nvml, h: decode_text(nvml.nvmlDeviceGetUUID(h)),
    "bus": lambda nvml, h: decode_text(nvml.nvmlDeviceGetPciInfo(h).busId),
    "memory_bytes": lambda nvml, h: int(nvml.nvmlDeviceGetMemoryInfo(h).total),
    "compute_capability": lambda nvml, h: list(nvml.nvmlDeviceGetCudaComputeCapability(h)),
    "memory_bus_bits": lambda nvml, h: int(nvml.nvmlDeviceGetMemoryBusWidth(h)),
    "ecc": lambda nvml, h: int(nvml.nvmlDeviceGetEccMode(h)[0]) == _ENABLED,
    "mig": lambda nvml, h: int(nvml.nvmlDeviceGetMigMode(h)[0]) == _ENABLED,
    "pcie_generation": lambda nvml, h: int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(h)),
    "pcie_width": lambda nvml, h: int(nvml.nvmlDeviceGetMaxPcieLinkWidth(h)),
    "sm_mhz": lambda nvml, h: int(nvml.nvmlDeviceGetMaxClockInfo(h, nvml.NVML_CLOCK_SM)),
    "power_limit_watts": lambda nvml, h: nvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3,
    "nvlink": lambda nvml, h: _links(nvml, h),
}


def list_inventory(nvml: Any) -> list[dict[str, Any]]:
    """One entry for each device, in NVML's order."""
    driver = _try(nvml, lambda: decode_text(nvml.nvmlSystemGetDriverVersion()))
    version = _try(nvml, lambda: int(nvml.nvmlSystemGetCudaDriverVersion()))
    found = {"driver": driver, "cuda": f"{version // 1000}.{version % 1000 // 10}" if version else None}
    shared = {name: value for name, value in found.items() if value is not None}
    return [{**_device(nvml, index), **shared} for index in range(nvml.nvmlDeviceGetCount())]


def _device(nvml: Any, index: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    asked = {name: _try(nvml, ask, nvml, handle) for name, ask in _ASKED.items()}
    return {name: value for name, value in asked.items() if value is not None}


def _links(nvml: Any, handle: Any) -> dict[str, int] | None:
    """Active NVLinks and their generation; None where the device has none."""
    active, version = 0, 0
    for link in range(_MOST_LINKS):
        try:
            if int(nvml.nvmlDeviceGetNvLinkState(handle, link)) == _ENABLED:
                active += 1
                version = version or int(nvml.nvmlDeviceGetNvLinkVersion(handle, link))
        except nvml.NVMLError:
            break
    return {"links": active, "version": version} if active else None


def list_computing(nvml: Any, count: int, chosen: str | None = None) -> Iterator[tuple[int, int]]:
    """(device, process id) of what computes on the first ``count`` devices that CUDA shows; ``chosen``: the variable
    CUDA_VISIBLE_DEVICES."""
    for index in list_visible(nvml, chosen)[:count]:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        for process in _processes(nvml, handle):
            yield index, int(process.pid)


def list_visible(nvml: Any, chosen: str | None) -> list[int]:
    """NVML's numbers of the devices that CUDA shows, in CUDA's order: all of them unless some are chosen, by numbers or
    by the beginnings of their UUIDs. What fits no device ends the list, as for CUDA; parts of devices (MIG) are not
    told apart, so that all devices count."""
    here = list(range(nvml.nvmlDeviceGetCount()))
    if chosen is None or "MIG-" in chosen:
        return here
    found: list[int] = []
    for word in chosen.split(","):
        fits = [number for number in here if _is(nvml, number, word.strip())]
        if len(fits) != 1:
            break
        found += fits
    return found


def _is(nvml: Any, number: int, word: str) -> bool:
    if word.isdecimal():
        return int(word) == number
    uuid = _try(nvml, lambda: decode_text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(number))))
    return bool(word and uuid and uuid.startswith(word))


def decode_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _processes(nvml: Any, handle: Any) -> Sequence[Any]:
    return _try(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()


def _try(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except (nvml.NVMLError, AttributeError, ValueError):
        return None
