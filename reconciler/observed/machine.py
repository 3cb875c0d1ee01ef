"""Facts of this machine for matching a declared system, read from the kernel's files, which takes almost no time."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from harness.catalog import show_install
from reconciler.observed.probed_nodes import find_unlike_cpu, find_unlike_gpus
from reconciler.observed.state import Obstacle
from reconciler.resource.queues import QueueFacts
from reconciler.resource.settings import Hardware


def read_cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        for line in cpuinfo.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return value.strip()
    except OSError:
        pass
    return os.uname().machine


def list_accelerators(
    proc: Path = Path("/proc/driver/nvidia/gpus"), board: Path = Path("/proc/device-tree")
) -> list[str]:
    """Return the model names of the NVIDIA GPUs that the kernel driver lists, one entry each; or else of the GPU in a
    Tegra chip, named after its board as in `detect`."""
    names = []
    for information in sorted(proc.glob("*/information")):
        for line in information.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Model":
                names.append(value.strip())
    if not names and "nvidia,tegra" in _read(board / "compatible"):
        names.append(f"{_read(board / 'model')} integrated GPU")
    return names


def read_driver(path: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Return the version of NVIDIA's kernel driver, such as 550.90.07; "" if there is none."""
    found = re.search(r"Kernel Module\D*(?:x86_64|aarch64)?\s+(\d+(?:\.\d+)+)", _read(path))
    return found[1] if found else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip("\0\n ")
    except OSError:
        return ""


def find_missing_queue(queue: QueueFacts) -> Obstacle | None:
    """Return why this machine cannot submit jobs to a queue; None if nothing is known to prevent it."""
    import shutil

    if queue.program and shutil.which(queue.program) is None:
        problem = f"{queue.title} is not available on this machine: {queue.program} not found"
        return Obstacle(problem, "run the pass on its login node")
    if queue.library and importlib.util.find_spec(queue.library) is None:
        return Obstacle(f"{queue.library} is not installed here", show_install(queue.name))
    return None


def find_unlike(hardware: Hardware) -> Obstacle | None:
    """Return why this machine is not the declared one; None if no declaration contradicts it."""
    node = {"gpus": [{"name": name} for name in list_accelerators()], "cpu": read_cpu_model() if hardware.cpu else ""}
    return find_unlike_gpus(hardware, node, "this machine") or find_unlike_cpu(hardware, node, "this machine")
