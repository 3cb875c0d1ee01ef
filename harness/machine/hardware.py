"""Hardware of this machine, from lscpu, /proc and /sys. Everything is optional: unreadable values are left out."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.machine.numa import find_node, read_memory, read_processors

_LIMIT = 10.0  # seconds that a program may take to describe the machine
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")
_CACHES = ("L1d", "L1i", "L2", "L3")
_ETHERNET, _INFINIBAND = "1", "32"  # /sys/class/net/*/type
_SECTOR = 512  # bytes; /sys/block/*/size counts these, whatever the disk's own are


def describe_hardware(
    root: Path = Path("/"), *, lscpu: str | None = None, modules: str | None = None
) -> dict[str, Any]:
    """Facts by name, such as ``cpu.model``, ``memory.bytes`` or ``disks``.

    ``lscpu`` and ``modules``: what lscpu and ``dmidecode -t memory`` print; None asks them.
    """
    listed = parse_lscpu(_said("lscpu") if lscpu is None else lscpu)
    found: dict[str, Any] = {**_processors(root, listed), **_memory(root), **_board(root)}
    found["memory.modules"] = parse_modules(_said("dmidecode", "-t", "memory") if modules is None else modules)
    found["disks"] = list(_disks(root / "sys/block"))
    known = (parse_lscpu(read(path)) for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")))
    found["gpus"] = [fields["Model"] for fields in known if "Model" in fields]
    found["cards"] = list(_cards(root / "sys/class/net"))
    found |= _nodes(root)
    return {name: value for name, value in found.items() if value not in ("", None, 0, [])}


def parse_lscpu(text: str) -> dict[str, str]:
    """``name: value`` lines; the indented ones of newer versions too."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and value.strip() not in ("", "-")}


def parse_modules(text: str) -> str:
    """Installed memory modules from dmidecode, such as "24x 64 GB DDR5 4800 MT/s"; "" when there are none to see."""
    counted: dict[str, int] = {}
    for block in text.split("\n\n"):
        fields = parse_lscpu(block)
        if not re.match(r"[0-9]", fields.get("Size", "")):
            continue
        words = (
            fields["Size"],
            fields.get("Type", ""),
            fields.get("Configured Memory Speed") or fields.get("Speed", ""),
        )
        name = " ".join(word for word in words if word and word != "Unknown")
        counted[name] = counted.get(name, 0) + 1
    return ", ".join(f"{count}x {name}" for name, count in counted.items())


def _processors(root: Path, listed: Mapping[str, str]) -> dict[str, Any]:
    blocks = [parse_lscpu(block) for block in read(root / "proc/cpuinfo").split("\n\n")]
    first = blocks[0] if blocks else {}
    sockets = _number(listed.get("Socket(s)")) or len({b["physical id"] for b in blocks if "physical id" in b})
    cores = _number(listed.get("Core(s) per socket")) or _number(first.get("cpu cores"))
    if not cores and _number(listed.get("Core(s) per cluster")):
        cores = _number(listed.get("Core(s) per cluster")) * max(1, _number(listed.get("Cluster(s)")))
    return {
        "cpu.model": listed.get("Model name") or first.get("model name", ""),
        "cpu.architecture": listed.get("Architecture", ""),
        "cpu.sockets": sockets or (1 if cores else 0),
        "cpu.cores_per_socket": cores,
        "cpu.threads_per_core": _number(listed.get("Thread(s) per core")),
        "cpu.mhz": _frequency(root, listed),
        "cpu.caches": ", ".join(f"{name} {listed[f'{name} cache']}" for name in _CACHES if f"{name} cache" in listed),
        "numa.nodes": _number(listed.get("NUMA node(s)")) or len(list(root.glob("sys/devices/system/node/node[0-9]*"))),
    }


def _nodes(root: Path) -> dict[str, Any]:
    """NUMA nodes, memory-only ones too; the node of each NVIDIA GPU; processors that are offline."""
    system = root / "sys"
    buses = [path.parent.name for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information"))]
    return {
        "numa.layout": [
            {"node": number, "processors": len(processors), "memory_bytes": read_memory(number, system)}
            for number, processors in read_processors(system)
        ],
        "numa.gpus": [find_node(bus, system) for bus in buses],
        "cpu.offline": read(system / "devices/system/cpu/offline"),
    }


def _frequency(root: Path, listed: Mapping[str, str]) -> int:
    """The highest frequency in MHz; 0 where it is hidden, as in most virtual machines."""
    khz = read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if khz.isdecimal():
        return round(int(khz) / 1000)
    try:
        return round(float(listed.get("CPU max MHz", "0").replace(",", ".")))
    except ValueError:
        return 0


def _memory(root: Path) -> dict[str, Any]:
    total = parse_lscpu(read(root / "proc/meminfo")).get("MemTotal", "").removesuffix(" kB")
    return {"memory.bytes": int(total) * 1024 if total.isdecimal() else 0}


def _board(root: Path) -> dict[str, Any]:
    """Who made the machine: from the firmware of a server, or the device tree of a board such as Jetson."""
    board = read(root / "proc/device-tree/model").rstrip("\0")
    names = [read(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    compatible = read(root / "proc/device-tree/compatible")
    return {
        "product": board or " ".join(dict.fromkeys(name for name in names if name)),
        "firmware": read(root / "sys/class/dmi/id/bios_version"),
        "tegra": "nvidia,tegra" in compatible,
        "os": parse_release(read(root / "etc/os-release")),
        "kernel": read(root / "proc/sys/kernel/osrelease"),
    }


def parse_release(text: str) -> str:
    """The name of the operating system from os-release, such as "Ubuntu 24.04.1 LTS"."""
    pairs = (line.partition("=") for line in text.splitlines())
    values = {name: value.strip("\"'") for name, _, value in pairs}
    return values.get("PRETTY_NAME") or " ".join(filter(None, (values.get("NAME"), values.get("VERSION_ID"))))


def _disks(block: Path) -> Iterator[dict[str, Any]]:
    for disk in sorted(block.glob("*")):
        size = read(disk / "size")
        if disk.name.startswith(_NOT_DISKS) or not size.isdecimal() or not int(size) or read(disk / "removable") == "1":
            continue
        yield {"name": disk.name, "bytes": int(size) * _SECTOR, "kind": _kind_of(disk)}


def _kind_of(disk: Path) -> str:
    if disk.name.startswith("nvme"):
        return "NVMe SSD"
    if disk.name.startswith(("vd", "xvd")):
        return "virtual disk"
    if disk.name.startswith("mmcblk"):
        return "eMMC"
    return {"0": "SSD", "1": "HDD"}.get(read(disk / "queue/rotational"), "")


def _cards(net: Path) -> Iterator[dict[str, Any]]:
    """Network interfaces that have hardware behind them."""
    for card in sorted(net.glob("*")):
        kind = {_ETHERNET: "Ethernet", _INFINIBAND: "InfiniBand"}.get(read(card / "type"))
        if kind is None or not (card / "device").exists():
            continue
        speed = read(card / "speed")  # -1, or unreadable, where no cable is in
        yield {"name": card.name, "kind": kind, "mbit": int(speed) if speed.isdecimal() else 0}


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def read(path: Path) -> str:
    """A file's text without white space around it; "" where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _said(*command: str) -> str:
    program = shutil.which(command[0])
    if program is None:
        return ""
    try:
        ended = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, errors="replace", timeout=_LIMIT, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout
