"""Facts about this machine for a record, read from the operating system and, where there is one, from NVML."""

from __future__ import annotations

import contextlib
import math
import os
import platform
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import psutil

from harness.child.cgroups import read_processor_limit
from harness.contract import Fact
from harness.machine.gpus import list_computing, list_inventory
from harness.machine.numa import list_usable


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory in bytes, kernel, operating system and Python, by fact name."""
    return {
        "machine.cpu": _cpu_model(),
        "machine.architecture": platform.machine(),
        "machine.cores.physical": psutil.cpu_count(logical=False) or 0,
        "machine.cores.logical": psutil.cpu_count() or 0,
        "machine.cores.usable": count_usable_cores(),
        "machine.memory_bytes": psutil.virtual_memory().total,
        "machine.host": platform.node(),
        "machine.kernel": f"{platform.system()} {platform.release()}",
        "machine.os": _operating_system(),
        "machine.governor": _first_line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "python.version": platform.python_version(),
    }


def collect_machine_notes() -> dict[str, Fact]:
    """The same as facts of a record. They are notes: that a system matches is decided by its declared hardware."""
    return {name: Fact(value=value, role="note") for name, value in describe_machine().items()}


def count_usable_cores() -> int:
    """Logical cores that this process may use; containers and taskset make them fewer than the machine has, and so does
    a limit of processor time."""
    return max(1, math.ceil(min(len(list_usable()), read_processor_limit())))


def find_distribution_version(*names: str) -> str:
    """The version of the first of these distributions that is installed, "" when none is."""
    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def list_accelerators() -> list[dict[str, Any]]:
    """NVIDIA devices through NVML: see ``harness.machine.gpus``; empty without nvidia-ml-py or a driver."""
    with _opened() as nvml:
        return list_inventory(nvml) if nvml is not None else []


def list_computing_on(count: int) -> list[tuple[int, int]]:
    """(device, process id) of what computes on the first ``count`` NVIDIA devices that CUDA shows here."""
    with _opened() as nvml:
        return list(list_computing(nvml, count, os.environ.get("CUDA_VISIBLE_DEVICES"))) if nvml is not None else []


@contextlib.contextmanager
def _opened() -> Iterator[Any]:
    """NVML, or None where it is not installed or finds no driver."""
    try:
        nvml: Any = import_module("pynvml")
    except ImportError:
        yield None
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model")))
    return next(names, "") or platform.processor()  # which asks another process


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.platform(terse=True)


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
