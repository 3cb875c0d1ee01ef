"""What `init` writes into the starter spec about this machine."""

from __future__ import annotations

import platform
from pathlib import Path

import psutil

from reconciler.observed.machine import accelerators, cpu_model
from reconciler.spec.starter import MachineFacts


def machine_facts() -> MachineFacts:
    sockets = _sockets()
    cores = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    here = accelerators()
    return MachineFacts(
        cpu=cpu_model(),
        sockets=sockets,
        cores=max(1, cores // sockets),
        memory=f"{round(psutil.virtual_memory().total / 2**30)} GiB",
        operating_system=_operating_system(),
        accelerator=here[0] if here else "",
        accelerators=len(here),
    )


def _sockets(cpuinfo: Path = Path("/proc/cpuinfo")) -> int:
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return 1
    return len({line for line in lines if line.startswith("physical id")}) or 1


def _operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
