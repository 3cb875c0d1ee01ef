"""The last probes of machines: the nodes behind a launcher, power limits.

A probe may have to wait in a queue, so a plan uses the results of the last pass with work there. Disposable.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from harness.catalog import BACKENDS, write_slices
from reconciler.observed.state import Obstacle
from reconciler.resource.codec import CodecError, decode_json, encode_json
from reconciler.resource.quantities import join_counted
from reconciler.resource.settings import Hardware, Settings
from reconciler.storage.files import RepositoryPaths, hash_bytes, read_checked, write_checked

_FILE = "nodes.json"
_MILLIWATTS = 1000
_TOLERANCE = 500  # milliwatts: drivers round


class NodeFacts(Struct, frozen=True):
    """The facts of each node, in the order of their ranks; or the reason why there are none."""

    nodes: tuple[Mapping[str, Any], ...] = ()
    problem: str = ""
    fix: str = ""


ProbedNodes = Mapping[str, NodeFacts]


def needs_probe(settings: Settings) -> bool:
    """Return True if only a probe can show that a system is the declared one. No probe reaches a machine that only a
    queue allocates."""
    if settings.is_queued:
        return False
    hardware = settings.hardware
    return bool(settings.launcher.words) or (settings.runs_here and bool(hardware.power_limit or hardware.slices))


def name_nodes(settings: Settings) -> str:
    """Return the name under which a system's probe is stored: a shared folder may serve several machines."""
    launcher = settings.launcher
    words = [f"here {platform.node()}"] if settings.runs_here else [*launcher.words, launcher.python]
    return hash_bytes(json.dumps(words).encode())[:16]


def read_probed_nodes(paths: RepositoryPaths) -> ProbedNodes:
    try:
        found: ProbedNodes = decode_json(read_checked(paths.index / _FILE) or b"{}", dict[str, NodeFacts])
    except CodecError:
        return {}
    return found


def write_probed_nodes(paths: RepositoryPaths, reached: ProbedNodes) -> None:
    write_checked(paths.index / _FILE, encode_json(reached))


def note_facts(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts about a node that a record keeps in addition to the first node's, which each run has anyway."""
    return {name: value for name, value in node.items() if name not in ("backends", "loadgen")}


def summarise_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """Select the facts of a node that count."""
    machine = node.get("machine", {})
    kept = ("name", "driver", "power_limit_watts", "memory_bytes")
    gpus = [{name: gpu[name] for name in kept if name in gpu} | _summarise_slices(gpu) for gpu in _list_gpus(node)]
    return {
        "host": machine.get("machine.host", ""),
        "kernel": machine.get("machine.kernel", ""),
        "cpu": machine.get("machine.cpu", ""),
        "cores": machine.get("machine.cores.physical", 0),
        "memory_bytes": machine.get("machine.memory_bytes", 0),
        "gpus": gpus or [{"name": name} for name in node.get("hardware", {}).get("gpus", ())],
        "backends": dict(node.get("backends", {})),
        "loadgen": node.get("loadgen", ""),
    }


def _list_gpus(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = node.get("accelerators", ())
    return found


def _summarise_slices(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Summarise whether the GPU may be partitioned, and the profiles of its slices."""
    found = {"mig": gpu["mig"]} if "mig" in gpu else {}
    return {**found, "slices": [part["profile"] for part in gpu["slices"]]} if gpu.get("slices") else found


def list_distributions_there(seen: NodeFacts) -> dict[str, str]:
    """List the packages in the interpreter there, limited to backends and LoadGen, by their usual names."""
    node = seen.nodes[0] if seen.nodes else {}
    backends: Mapping[str, str] = node.get("backends", {})
    found = {name: version for b, version in backends.items() if version for name in BACKENDS[b].distributions[:1]}
    return found | ({"mlcommons-loadgen": node["loadgen"]} if node.get("loadgen") else {})


def find_unlike_nodes(settings: Settings, seen: NodeFacts) -> Obstacle | None:
    """Return why these nodes are not the declared system; None if no declaration contradicts them."""
    if seen.problem:
        return Obstacle(seen.problem, seen.fix)
    declared = settings.hardware.nodes
    if "hardware.nodes" in settings and declared != len(seen.nodes):
        have = f"{len(seen.nodes)} node{'s' if len(seen.nodes) != 1 else ''}"
        return Obstacle(f"the system declares {declared} nodes; its launcher reaches {have}", "fix one of them")
    checks = (find_unlike_gpus, _find_unlike_slices, find_unlike_cpu, _find_unlike_power)
    named = ((node, "this machine" if settings.runs_here else f"node {node['host']}") for node in seen.nodes)
    found = (check(settings.hardware, node, where) for node, where in named for check in checks)
    return next((obstacle for obstacle in found if obstacle is not None), None)


def find_unlike_gpus(hardware: Hardware, node: Mapping[str, Any], where: str) -> Obstacle | None:
    wanted = hardware.accelerator
    if not wanted:
        return None
    count = hardware.count or 1
    names = [str(gpu.get("name", "")) for gpu in node["gpus"]]
    if sum(wanted.lower() in name.lower() for name in names) >= count:
        return None
    have = join_counted(names) or "no NVIDIA GPU"
    cut = f" cut into {write_slices(hardware.slices)}" if hardware.slices else ""
    return Obstacle(f"the system declares {count} x {wanted}{cut}; {where} has {have}", "run it on that machine")


def _find_unlike_slices(hardware: Hardware, node: Mapping[str, Any], where: str) -> Obstacle | None:
    """Compare slices. A profile may have more slices than declared: others may run there."""
    here = Counter(profile for gpu in node["gpus"] for profile in gpu.get("slices", ()))
    wanted = Counter(hardware.slices)
    if wanted <= here:
        return None
    have = write_slices(here.elements())
    if not have:
        modes = {gpu.get("mig") for gpu in node["gpus"]}
        have = "no slices" if True in modes else "undivided GPUs" if False in modes else "GPUs without MIG"
    declared = f"the system declares {write_slices(hardware.slices)} MIG slices"
    return Obstacle(f"{declared}; {where} has {have}", "create them there: `reconcile mig create`; or run elsewhere")


def find_unlike_cpu(hardware: Hardware, node: Mapping[str, Any], where: str) -> Obstacle | None:
    wanted = hardware.cpu
    if not wanted or wanted.lower() in str(node["cpu"]).lower():
        return None
    return Obstacle(f"the system declares the CPU {wanted!r}; {where} has {node['cpu']!r}", "run it on that machine")


def _find_unlike_power(hardware: Hardware, node: Mapping[str, Any], where: str) -> Obstacle | None:
    wanted = hardware.power_limit
    taken: Sequence[Mapping[str, Any]] = node["gpus"][: hardware.count or 1]
    declared = f"the system declares a power limit of {wanted / _MILLIWATTS:g} W"
    if wanted and not taken:
        return Obstacle(f"{declared}; {where} has no GPU that can be queried", "run it on that machine")
    for number, gpu in enumerate(taken if wanted else ()):
        watts = gpu.get("power_limit_watts")
        if watts is None:
            return Obstacle(
                f"{declared}; the limit of GPU {number} of {where} cannot be read", "pip install nvidia-ml-py"
            )
        if abs(watts * _MILLIWATTS - wanted) > _TOLERANCE:
            fix = f"set it there: nvidia-smi --power-limit {wanted / _MILLIWATTS:g}"
            return Obstacle(f"{declared}; GPU {number} of {where} has {watts:g} W", fix)
    return None
