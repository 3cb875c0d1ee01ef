"""Facts about this machine for a record, from the operating system and, if available, from NVML."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import psutil

from harness.catalog import write_slices
from harness.contract import Fact, as_evidence, as_notes
from harness.machine.numa import find_node, list_usable, read_memory, read_processors


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory in bytes, kernel, operating system and Python, by fact name."""
    return {
        "machine.cpu": _read_cpu_model(),
        "machine.architecture": platform.machine(),
        "machine.cores.physical": psutil.cpu_count(logical=False) or 0,
        "machine.cores.logical": psutil.cpu_count() or 0,
        "machine.cores.usable": count_usable_cores(),
        "machine.memory_bytes": psutil.virtual_memory().total,
        "machine.host": platform.node(),
        "machine.kernel": f"{platform.system()} {platform.release()}",
        "machine.os": _read_system(),
        "machine.governor": read(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "python.version": platform.python_version(),
    }


def collect_machine_notes() -> dict[str, Fact]:
    """Return these facts for a record. They are notes, since the declared hardware decides whether a system matches."""
    return as_notes(describe_machine())


def count_usable_cores() -> int:
    """Count the logical cores that this process may use, as limited by containers, taskset and processor quotas."""
    return max(1, math.ceil(min(len(list_usable()), read_processor_limit())))


def find_distribution_version(*names: str) -> str:
    """Return the version of whichever of these distributions would be imported, the first on the path; "" if none is
    installed."""
    for folder in sys.path:
        for name in names:
            for found in metadata.distributions(name=name, path=[folder]):
                return found.version
    return ""


def list_accelerators() -> list[dict[str, Any]]:
    """List the NVIDIA devices visible to CUDA by ``list_inventory``; empty without nvidia-ml-py or a driver. Devices
    hidden by CUDA_VISIBLE_DEVICES are another run's."""
    with _open_nvml() as nvml:
        return list_inventory(nvml, os.environ.get(VISIBLE)) if nvml is not None else []


def describe_devices(devices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Describe what must be equal in all runs of a cell, by ``list_accelerators``; empty without devices."""
    if not devices:
        return {}
    names = sorted({str(device.get("name", "")) for device in devices})
    return {"gpu.name": names, "gpu.driver": str(devices[0].get("driver", ""))}


def list_computing_on(count: int) -> list[tuple[int, int]]:
    """List (device, process id) of the processes on the first ``count`` NVIDIA devices visible to CUDA."""
    with _open_nvml() as nvml:
        return list(list_computing(nvml, count, os.environ.get(VISIBLE))) if nvml is not None else []


@contextlib.contextmanager
def _open_nvml() -> Iterator[Any]:
    """Open NVML; None if it is not installed or finds no driver."""
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


def _read_cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model")))
    return next(names, "") or platform.processor()  # platform.processor() starts a process


def _read_system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.platform(terse=True)


_ROOT = Path("/")


def read_processor_limit(root: Path = _ROOT) -> float:
    """Read the processor limit, which is the lowest of all groups above this process; infinite if there is none."""
    limits = (_read_limit(folder) for folder in _list_groups(root))
    return min(limits, default=float("inf"))


def _list_groups(root: Path) -> Iterator[Path]:
    """List the groups of this process, up to the topmost visible one, which in a container is the container's own."""
    mounted = root / "sys/fs/cgroup"
    text = ""
    with suppress(OSError):
        text = (root / "proc/self/cgroup").read_text(encoding="utf-8")
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        top = mounted if number == "0" else mounted / controllers
        if number != "0" and "cpu" not in controllers.split(","):
            continue
        here = top / path.strip("/")
        yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(top))


def _read_limit(folder: Path) -> float:
    """Read a limit: version 2 has quota and period in one file, version 1 in two; "max" and -1 mean no limit."""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return int(quota) / int(period)
    with suppress(OSError, ValueError):
        quota, period = (
            (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii").strip() for name in ("quota", "period")
        )
        return int(quota) / int(period) if int(quota) > 0 else float("inf")
    return float("inf")


# Devices of an idle machine, from NVML: inventory, and the processes that compute on them.
#
# Every function takes the module ``pynvml`` after ``nvmlInit``; facts that a device or driver does not support are
# omitted.

_MOST_LINKS = 32
_ENABLED = 1
_MIB = 2**20
_PROFILE = re.compile(r" MIG (?P<profile>\S+)$")  # ends the name of a slice

# Fact -> query of a handle.
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
    "default_limit_watts": lambda nvml, h: nvml.nvmlDeviceGetPowerManagementDefaultLimit(h) / 1e3,
    "persistence": lambda nvml, h: int(nvml.nvmlDeviceGetPersistenceMode(h)) == _ENABLED,
    "application_mhz": lambda nvml, h: int(nvml.nvmlDeviceGetApplicationsClock(h, nvml.NVML_CLOCK_SM)),
    "default_mhz": lambda nvml, h: int(nvml.nvmlDeviceGetDefaultApplicationsClock(h, nvml.NVML_CLOCK_SM)),
    "nvlink": lambda nvml, h: _describe_links(nvml, h),
    "most_slices": lambda nvml, h: int(nvml.nvmlDeviceGetMaxMigDeviceCount(h)) or None,
    "slices": lambda nvml, h: [_describe_slice(nvml, part) for part in _list_slices(nvml, h)] or None,
}


def list_inventory(nvml: Any, chosen: str | None = None) -> list[dict[str, Any]]:
    """List one entry per device that ``list_visible`` lists."""
    driver = _try(nvml, lambda: decode_text(nvml.nvmlSystemGetDriverVersion()))
    version = _try(nvml, lambda: int(nvml.nvmlSystemGetCudaDriverVersion()))
    found = {"driver": driver, "cuda": f"{version // 1000}.{version % 1000 // 10}" if version else None}
    shared = {name: value for name, value in found.items() if value is not None}
    return [{**_describe_device(nvml, index), **shared} for index in list_visible(nvml, chosen)]


def _describe_device(nvml: Any, index: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    asked = {name: _try(nvml, ask, nvml, handle) for name, ask in _ASKED.items()}
    return {name: value for name, value in asked.items() if value is not None}


def _describe_links(nvml: Any, handle: Any) -> dict[str, int] | None:
    """Return the number of active NVLinks and their generation; None if the device has none."""
    active, version = 0, 0
    for link in range(_MOST_LINKS):
        try:
            if int(nvml.nvmlDeviceGetNvLinkState(handle, link)) == _ENABLED:
                active += 1
                version = version or int(nvml.nvmlDeviceGetNvLinkVersion(handle, link))
        except nvml.NVMLError:
            break
    return {"links": active, "version": version} if active else None


def _list_slices(nvml: Any, handle: Any) -> list[Any]:
    """List the handles of a device's slices (MIG), in NVML's order, which has gaps."""
    most = _try(nvml, lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0
    found = (_try(nvml, lambda n=n: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, n)) for n in range(most))
    return [part for part in found if part is not None]


def _describe_slice(nvml: Any, part: Any) -> dict[str, Any]:
    uuid = _try(nvml, lambda: decode_text(nvml.nvmlDeviceGetUUID(part)))
    memory = _try(nvml, lambda: int(nvml.nvmlDeviceGetMemoryInfo(part).total))
    instance = _try(nvml, lambda: int(nvml.nvmlDeviceGetGpuInstanceId(part)))
    found = {"uuid": uuid or "", "profile": _find_profile(nvml, part), "memory_bytes": memory or 0}
    return found if instance is None else {**found, "instance": instance}


def _find_profile(nvml: Any, part: Any) -> str:
    """Find the profile in the name, such as "NVIDIA H100 80GB HBM3 MIG 1g.10gb", or construct it from the slice's
    properties."""
    named = _PROFILE.search(_try(nvml, lambda: decode_text(nvml.nvmlDeviceGetName(part))) or "")
    if named:
        return named["profile"]
    has = _try(nvml, lambda: nvml.nvmlDeviceGetAttributes(part))
    if has is None:
        return ""
    instance, compute = int(has.gpuInstanceSliceCount), int(has.computeInstanceSliceCount)
    own = f"{compute}c." if compute != instance else ""
    return f"{own}{instance}g.{-(-int(has.memorySizeMB) * _MIB // 2**30)}gb"


def list_computing(nvml: Any, count: int, chosen: str | None = None) -> Iterator[tuple[int, int]]:
    """List (device, process id) of the processes on the first ``count`` devices visible to CUDA, each process once.
    ``chosen``: the variable CUDA_VISIBLE_DEVICES. On a partitioned device, processes on any slice count, since slices
    share clocks and power."""
    for index in list_visible(nvml, chosen)[:count]:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        # Only the administrator of a partitioned device sees all slices at once.
        parts = (handle, *_list_slices(nvml, handle))
        for pid in dict.fromkeys(int(process.pid) for part in parts for process in _list_processes(nvml, part)):
            yield index, pid


def list_visible(nvml: Any, chosen: str | None) -> list[int]:
    """List NVML's numbers of the devices visible to CUDA, in CUDA's order. All are visible unless some are chosen by
    numbers or by prefixes of their UUIDs. A name that matches no device ends the list, as in CUDA. A slice (MIG)
    means its device, which is listed once."""
    here = list(range(nvml.nvmlDeviceGetCount()))
    if chosen is None:
        return here
    found: list[int] = []
    for word in chosen.split(","):
        fits = [number for number in here if _matches(nvml, number, word.strip())]
        if len(fits) != 1:
            break
        found += fits
    return list(dict.fromkeys(found))


def _matches(nvml: Any, number: int, word: str) -> bool:
    if word.isdecimal():
        return int(word) == number
    handle = nvml.nvmlDeviceGetHandleByIndex(number)
    handles, owner = [handle], word
    if word.startswith("MIG-GPU-"):  # slice names of drivers before 470: the device, then two numbers
        owner = word.removeprefix("MIG-").partition("/")[0]
    elif word.startswith("MIG-"):
        handles = _list_slices(nvml, handle)
    uuids = [_try(nvml, lambda h=h: decode_text(nvml.nvmlDeviceGetUUID(h))) for h in handles]
    return any(owner and uuid and uuid.startswith(owner) for uuid in uuids)


def decode_text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _list_processes(nvml: Any, handle: Any) -> Sequence[Any]:
    return _try(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ()


def _try(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except (nvml.NVMLError, AttributeError, ValueError):
        return None


# Slices of GPUs (MIG): parts of a GPU that act as separate GPUs. A process can use at most one: the first whose UUID
# the variable lists.

VISIBLE = "CUDA_VISIBLE_DEVICES"
MIG = "MIG-"  # prefix of a slice's UUID

Slice = Mapping[str, Any]
"""``uuid``, ``profile`` and ``memory_bytes`` of the slice; ``gpu`` (NVML's number), ``bus`` and ``gpu_uuid`` of its
GPU."""


def list_slices(accelerators: Sequence[Mapping[str, Any]]) -> list[Slice]:
    """List the slices of all devices, in their order; ``accelerators``: see ``list_accelerators``."""
    return [
        {**part, "gpu": number, "bus": device.get("bus", ""), "gpu_uuid": device.get("uuid", "")}
        for number, device in enumerate(accelerators)
        for part in device.get("slices", ())
    ]


def list_taken() -> list[str]:
    """List the UUIDs of this process's slices."""
    return [word for word in os.environ.get(VISIBLE, "").split(",") if word.startswith(MIG)]


def collect_slice_evidence() -> dict[str, Fact]:
    """Return the profiles of this process's slices as evidence; nothing for whole devices."""
    taken = list_taken()
    if not taken:
        return {}
    profiles = {part["uuid"]: str(part["profile"]) for part in list_slices(list_accelerators())}
    found = write_slices(profiles.get(uuid, uuid) for uuid in taken)
    return as_evidence({"gpu.slices": found})


# Hardware of this machine, from lscpu, /proc and /sys. Everything is optional: unreadable values are left out.

_LIMIT = 10.0  # seconds that a program has to describe the machine
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")
_CACHES = ("L1d", "L1i", "L2", "L3")
_ETHERNET, _INFINIBAND = "1", "32"  # /sys/class/net/*/type
_SECTOR = 512  # the unit of /sys/block/*/size for any disk


def describe_hardware(
    root: Path = Path("/"), *, lscpu: str | None = None, modules: str | None = None
) -> dict[str, Any]:
    """Return facts by name, such as ``cpu.model``, ``memory.bytes`` or ``disks``.

    ``lscpu`` and ``modules``: outputs of lscpu and ``dmidecode -t memory``; None runs them.
    """
    listed = parse_lscpu(_run_program("lscpu") if lscpu is None else lscpu)
    found: dict[str, Any] = {**_describe_processors(root, listed), **_describe_memory(root), **_describe_board(root)}
    found["memory.modules"] = parse_modules(_run_program("dmidecode", "-t", "memory") if modules is None else modules)
    found["disks"] = list(_list_disks(root / "sys/block"))
    known = (parse_lscpu(read(path)) for path in sorted(root.glob("proc/driver/nvidia/gpus/*/information")))
    found["gpus"] = [fields["Model"] for fields in known if "Model" in fields]
    found["cards"] = list(_list_cards(root / "sys/class/net"))
    found |= _describe_nodes(root)
    return {name: value for name, value in found.items() if value not in ("", None, 0, [])}


def parse_lscpu(text: str) -> dict[str, str]:
    """Parse ``name: value`` lines, including the indented ones of newer versions."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in pairs if colon and value.strip() not in ("", "-")}


def parse_modules(text: str) -> str:
    """Parse the installed memory modules from dmidecode, such as "24x 64 GB DDR5 4800 MT/s"; "" if none are visible."""
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


def _describe_processors(root: Path, listed: Mapping[str, str]) -> dict[str, Any]:
    blocks = [parse_lscpu(block) for block in read(root / "proc/cpuinfo").split("\n\n")]
    first = blocks[0] if blocks else {}
    sockets = _parse_int(listed.get("Socket(s)")) or len({b["physical id"] for b in blocks if "physical id" in b})
    cores = _parse_int(listed.get("Core(s) per socket")) or _parse_int(first.get("cpu cores"))
    if not cores and _parse_int(listed.get("Core(s) per cluster")):
        cores = _parse_int(listed.get("Core(s) per cluster")) * max(1, _parse_int(listed.get("Cluster(s)")))
    nodes = root.glob("sys/devices/system/node/node[0-9]*")
    return {
        "cpu.model": listed.get("Model name") or first.get("model name", ""),
        "cpu.architecture": listed.get("Architecture", ""),
        "cpu.sockets": sockets or (1 if cores else 0),
        "cpu.cores_per_socket": cores,
        "cpu.threads_per_core": _parse_int(listed.get("Thread(s) per core")),
        "cpu.mhz": _find_frequency(root, listed),
        "cpu.caches": ", ".join(f"{name} {listed[f'{name} cache']}" for name in _CACHES if f"{name} cache" in listed),
        "numa.nodes": _parse_int(listed.get("NUMA node(s)")) or len(list(nodes)),
    }


def _describe_nodes(root: Path) -> dict[str, Any]:
    """Return NUMA nodes, including memory-only ones, the node of each NVIDIA GPU, and offline processors."""
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


def _find_frequency(root: Path, listed: Mapping[str, str]) -> int:
    """Return the highest frequency in MHz; 0 if it is hidden, as in most virtual machines."""
    khz = read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if khz.isdecimal():
        return round(int(khz) / 1000)
    try:
        return round(float(listed.get("CPU max MHz", "0").replace(",", ".")))
    except ValueError:
        return 0


def _describe_memory(root: Path) -> dict[str, Any]:
    total = parse_lscpu(read(root / "proc/meminfo")).get("MemTotal", "").removesuffix(" kB")
    return {"memory.bytes": int(total) * 1024 if total.isdecimal() else 0}


def _describe_board(root: Path) -> dict[str, Any]:
    """Return the manufacturer, from a server's firmware or the device tree of a board such as Jetson."""
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
    """Parse the name of the operating system from os-release, such as "Ubuntu 24.04.1 LTS"."""
    pairs = (line.partition("=") for line in text.splitlines())
    values = {name: value.strip("\"'") for name, _, value in pairs}
    return values.get("PRETTY_NAME") or " ".join(filter(None, (values.get("NAME"), values.get("VERSION_ID"))))


def _list_disks(block: Path) -> Iterator[dict[str, Any]]:
    for disk in sorted(block.glob("*")):
        size = read(disk / "size")
        if disk.name.startswith(_NOT_DISKS) or not size.isdecimal() or not int(size) or read(disk / "removable") == "1":
            continue
        yield {"name": disk.name, "bytes": int(size) * _SECTOR, "kind": _find_kind(disk)}


def _find_kind(disk: Path) -> str:
    if disk.name.startswith("nvme"):
        return "NVMe SSD"
    if disk.name.startswith(("vd", "xvd")):
        return "virtual disk"
    if disk.name.startswith("mmcblk"):
        return "eMMC"
    return {"0": "SSD", "1": "HDD"}.get(read(disk / "queue/rotational"), "")


def _list_cards(net: Path) -> Iterator[dict[str, Any]]:
    """List hardware network interfaces."""
    for card in sorted(net.glob("*")):
        kind = {_ETHERNET: "Ethernet", _INFINIBAND: "InfiniBand"}.get(read(card / "type"))
        if kind is None or not (card / "device").exists():
            continue
        speed = read(card / "speed")  # without a cable it is -1 or unreadable
        yield {"name": card.name, "kind": kind, "mbit": int(speed) if speed.isdecimal() else 0}


def _parse_int(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def read(path: Path) -> str:
    """Read a file's text without surrounding whitespace; "" if it is unreadable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _run_program(*command: str) -> str:
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
