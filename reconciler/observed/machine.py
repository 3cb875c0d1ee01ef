"""What this machine is, as far as a declared system must match it; read from the kernel's files, so it costs
nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.observed.state import Obstacle

_NONE = {"", "none", "n/a", "0"}


def read_cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        for line in cpuinfo.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return value.strip()
    except OSError:
        pass
    return os.uname().machine


def list_accelerators(proc: Path = Path("/proc/driver/nvidia/gpus")) -> list[str]:
    """Model names of the NVIDIA GPUs that the kernel driver knows, one entry each."""
    names = []
    for information in sorted(proc.glob("*/information")):
        for line in information.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Model":
                names.append(value.strip())
    return names


def find_unlike(hardware: Mapping[str, Any]) -> Obstacle | None:
    """Why this machine is not the declared one; None when nothing declared contradicts it."""
    wanted = str(hardware.get("hardware.accelerator", ""))
    here = list_accelerators()
    if wanted.lower() not in _NONE:
        matching = [name for name in here if wanted.lower() in name.lower()]
        count = int(hardware.get("hardware.count", 1) or 1)
        if len(matching) < count:
            have = f"{len(here)} x {here[0]}" if here else "no NVIDIA GPU"
            return Obstacle(
                f"the system declares {count} x {wanted}; this machine has {have}", "run it on that machine"
            )
    cpu = str(hardware.get("hardware.cpu", ""))
    if cpu.lower() not in _NONE and cpu.lower() not in read_cpu_model().lower():
        return Obstacle(
            f"the system declares the CPU {cpu!r}; this machine has {read_cpu_model()!r}", "run it on that machine"
        )
    return None
