"""The result of a machine's probe, as the fields of a system in a spec. Pure.

Values are text, as the checkers require: integers for nodes, processors and accelerators, "0" for no accelerator (a
bare 0 counts as empty), and "N/A" if something does not apply. ``is_network`` is never proposed, since only the network
division may contain it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

# The fields of systems/<name>.json that a spec may describe, in the order of the file, with their contents. Numbers of
# nodes, processors and accelerators must be integers. "N/A" is accepted if something does not apply; fields marked "may
# be empty" accept an empty text.
DESCRIPTION_FIELDS = {
    "system_name": "Name of the system, as the results table shows it.",
    "system_type_detail": "Kind of edge or datacenter system; may be empty.",
    "number_of_nodes": "Number of nodes, such as 1.",
    "host_processor_model_name": "CPU model, such as AMD EPYC 9654.",
    "host_processors_per_node": "CPU sockets per node, such as 2.",
    "host_processor_core_count": "Cores per CPU, such as 96.",
    "host_processor_frequency": "CPU frequency; may be empty.",
    "host_processor_caches": "CPU caches; may be empty.",
    "host_processor_interconnect": "Interconnect between CPUs; may be empty.",
    "host_memory_capacity": "Memory per node, such as 1.5 TB.",
    "host_memory_configuration": "Memory modules, such as 24x 64GB DDR5-4800.",
    "host_storage_capacity": "Storage per node, such as 7.68 TB.",
    "host_storage_type": "Kind of storage, such as NVMe SSD.",
    "host_networking": "Network, such as Ethernet, or N/A.",
    "host_networking_topology": "Topology of the network, or N/A.",
    "host_network_card_count": "Network cards per node, such as 2x 100GbE, or N/A.",
    "accelerators_per_node": 'Accelerators per node; "0" in quotes for none.',
    "accelerator_model_name": "Accelerator model, or N/A.",
    "accelerator_memory_capacity": "Memory per accelerator, such as 141 GB, or N/A.",
    "accelerator_memory_configuration": "Kind of accelerator memory, such as HBM3e, or N/A.",
    "accelerator_host_interconnect": "Link between host and accelerator, such as PCIe Gen5 x16, or N/A.",
    "accelerator_interconnect": "Link between accelerators, such as NVLink, or N/A.",
    "accelerator_interconnect_topology": "Topology of that link; may be empty.",
    "accelerator_frequency": "Accelerator frequency; may be empty.",
    "accelerator_on-chip_memories": "On-chip memories; may be empty.",
    "cooling": "Cooling, such as air or liquid.",
    "framework": "Inference framework with its version, such as ONNX Runtime 1.20.",
    "operating_system": "Operating system, such as Ubuntu 24.04.",
    "other_software_stack": "Other software, such as driver and library versions.",
    "hw_notes": "Notes on the hardware; may be empty.",
    "sw_notes": "Notes on the software; may be empty.",
    "power_management": "Power management settings.",
    "filesystem": "File system.",
    "boot_firmware_version": "Version of the boot firmware.",
    "management_firmware_version": "Version of the management firmware.",
    "other_hardware": "Other hardware.",
    "number_of_type_nics_installed": "Network cards installed, by type.",
    "nics_enabled_firmware": "Network cards enabled in the firmware.",
    "nics_enabled_os": "Network cards enabled in the operating system.",
    "nics_enabled_connected": "Network cards enabled and connected.",
    "network_speed_mbit": "Network speed in Mbit/s.",
    "power_supply_quantity_and_rating_watts": "Power supplies and their rating in watts.",
    "power_supply_details": "Details of the power supplies.",
    "disk_drives": "Disk drives.",
    "disk_controllers": "Disk controllers.",
}


NONE = "N/A"
_ACCELERATOR = (
    "accelerator_model_name",
    "accelerator_memory_capacity",
    "accelerator_memory_configuration",
    "accelerator_host_interconnect",
    "accelerator_interconnect",
)
# Fields that the file must contain; the others are declared for power submissions.
REQUIRED = tuple(DESCRIPTION_FIELDS)[: list(DESCRIPTION_FIELDS).index("power_management")]


class Proposal(Struct, frozen=True):
    """``hardware`` and ``description``: fields of the spec; ``unread``: fields that could not be read."""

    hardware: Mapping[str, Any]
    description: Mapping[str, str]
    unread: tuple[str, ...]


def propose(node: Mapping[str, Any], nodes: int = 1) -> Proposal:
    """Propose a system's fields. ``node``: the output of the first node's probe; ``nodes``: the number of nodes."""
    facts: Mapping[str, Any] = node["hardware"]
    gpus = _list_gpus(node)
    found = {
        "system_name": str(facts.get("product", "")),
        "number_of_nodes": str(nodes),
        **_describe_host(facts),
        **_describe_network(facts, nodes),
        **_describe_accelerators(gpus),
        "operating_system": str(facts.get("os", "")),
        "other_software_stack": _list_software(node, gpus),
        "boot_firmware_version": str(facts.get("firmware", "")),
    }
    description = {name: found[name] for name in DESCRIPTION_FIELDS if found.get(name)}
    unread = tuple(name for name in REQUIRED if name not in description)
    hardware: dict[str, Any] = {"accelerator": str(gpus[0].get("name", ""))} if gpus else {}
    hardware["count"] = len(gpus)
    cut = [{"profile": profile, "count": count} for profile, (count, _) in _count_slices(gpus).items()]
    if cut:
        hardware["mig"] = cut if len(cut) > 1 else cut[0]
    if not gpus and facts.get("cpu.model"):
        hardware["cpu"] = str(facts["cpu.model"])
    if nodes > 1:
        hardware["nodes"] = nodes
    return Proposal(hardware, description, unread)


def _list_gpus(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the GPUs that NVML lists, or else the GPU of a Tegra chip, which older drivers do not list."""
    listed: Sequence[Mapping[str, Any]] = node.get("accelerators", ())
    facts = node["hardware"]
    if not listed and facts.get("tegra"):
        return [{"name": f"{facts.get('product', 'NVIDIA Tegra')} integrated GPU", "integrated": True}]
    return listed or [{"name": name} for name in facts.get("gpus", ())]  # there is a driver, but no NVML


def _count_slices(gpus: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Return the number of slices (MIG) of all GPUs by profile, with the memory of one in bytes, largest first."""
    parts = [part for gpu in gpus for part in gpu.get("slices", ())]
    sizes = {str(part["profile"]): int(part["memory_bytes"]) for part in parts}
    counted = Counter(str(part["profile"]) for part in parts)
    return {profile: (counted[profile], sizes[profile]) for profile in sorted(counted, reverse=True)}


def _describe_host(facts: Mapping[str, Any]) -> dict[str, str]:
    disks = facts.get("disks", ())
    kinds = dict.fromkeys(str(disk["kind"]) for disk in disks if disk["kind"])
    sockets, numa, memory = facts.get("cpu.sockets", 0), facts.get("numa.nodes", 0), facts.get("memory.bytes", 0)
    mhz, nodes = facts.get("cpu.mhz", 0), f"{numa} NUMA nodes" if numa > 1 else ""
    size = sum(int(disk["bytes"]) for disk in disks)
    storage = f"{size / 1e12:.2f} TB" if size >= 10**12 else f"{size / 1e9:.0f} GB"  # as makers of disks count
    return {
        "host_processor_model_name": str(facts.get("cpu.model", "")),
        "host_processors_per_node": str(sockets or ""),
        "host_processor_core_count": str(facts.get("cpu.cores_per_socket", "")),
        "host_processor_frequency": f"{mhz} MHz maximum" if mhz else "",
        "host_processor_caches": str(facts.get("cpu.caches", "")),
        "host_processor_interconnect": NONE if sockets == 1 else "",
        "host_memory_capacity": f"{round(memory / 2**30)} GiB" if memory else "",
        "host_memory_configuration": _join_parts(str(facts.get("memory.modules", "")), nodes),
        "host_storage_capacity": storage if size else "",
        "host_storage_type": ", ".join(kinds),
    }


def _join_parts(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _describe_network(facts: Mapping[str, Any], nodes: int) -> dict[str, str]:
    cards = facts.get("cards", ())
    kinds = dict.fromkeys(str(card["kind"]) for card in cards)
    counted = Counter(_describe_card(card) for card in cards)
    return {
        "host_networking": ", ".join(kinds) or NONE,
        "host_network_card_count": ", ".join(f"{count}x {name}" for name, count in counted.items()) or NONE,
        "host_networking_topology": "" if nodes > 1 else NONE,
    }


def _describe_card(card: Mapping[str, Any]) -> str:
    mbit = int(card["mbit"])
    speed = f"{mbit // 1000}Gb/s " if mbit >= 1000 else f"{mbit}Mb/s " if mbit else ""
    return f"{speed}{card['kind']}"


def _describe_accelerators(gpus: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    if not gpus:
        return {"accelerators_per_node": "0", **dict.fromkeys(_ACCELERATOR, NONE)}
    gpu = gpus[0]
    names = dict.fromkeys(str(item.get("name", "")) for item in gpus)
    memory, width, mhz = gpu.get("memory_bytes", 0), gpu.get("memory_bus_bits", 0), gpu.get("sm_mhz", 0)
    shared = "shared with the host" if gpu.get("integrated") else ""
    ecc, mig = {True: "ECC on", False: "ECC off", None: ""}[gpu.get("ecc")], "MIG on" if gpu.get("mig") else ""
    capacity = f"{round(memory / 2**30)} GiB" if memory else shared
    pcie = NONE if gpu.get("integrated") else ""
    if "pcie_generation" in gpu and "pcie_width" in gpu:
        pcie = f"PCIe Gen{gpu['pcie_generation']} x{gpu['pcie_width']}"
    cut = _count_slices(gpus)
    parts = ", ".join(f"{count}x {profile}" for profile, (count, _) in cut.items())
    each = ", ".join(f"{size / 2**30:.1f} GiB in {profile}" for profile, (_, size) in cut.items() if size)
    return {
        "accelerators_per_node": str(len(gpus)),
        "accelerator_model_name": ", ".join(names) + (f" (MIG {parts})" if parts else ""),
        "accelerator_memory_capacity": f"{capacity} ({each})" if each and capacity else capacity,
        "accelerator_memory_configuration": _join_parts(f"{width}-bit bus" if width else "", ecc, mig),
        "accelerator_host_interconnect": pcie,
        "accelerator_interconnect": _describe_interconnect(gpus),
        "accelerator_frequency": f"{mhz} MHz maximum" if mhz else "",
    }


def _describe_interconnect(gpus: Sequence[Mapping[str, Any]]) -> str:
    link = gpus[0].get("nvlink")
    if len(gpus) == 1:
        return NONE
    if link:
        return f"NVLink {link['version']}, {link['links']} links per GPU"
    return "PCIe" if "uuid" in gpus[0] else ""


def _list_software(node: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]]) -> str:
    """Return kernel, driver, CUDA, LoadGen and Python versions; the framework depends on the cells."""
    gpu = gpus[0] if gpus else {}
    named = (
        ("Linux", node["hardware"].get("kernel")),
        ("NVIDIA driver", gpu.get("driver")),
        ("CUDA", gpu.get("cuda")),
        ("LoadGen", node.get("loadgen")),
        ("Python", node.get("machine", {}).get("python.version")),
    )
    return ", ".join(f"{name} {version}" for name, version in named if version)
