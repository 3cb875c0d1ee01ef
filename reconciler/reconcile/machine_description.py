"""Read a system's machines and write the results into the spec."""

from __future__ import annotations

import platform
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.contract import ProbeRequest
from reconciler.errors import ReconcilerError
from reconciler.observed.machine import find_unlike, list_accelerators
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.resource.quantities import join_listing, show_count
from reconciler.resource.settings import Hardware, SystemSettings
from reconciler.spec.edit import EditError
from reconciler.spec.files import read_readable_sources
from reconciler.spec.proposal import Proposal, propose
from reconciler.spec.system_proposal import Described, describe, list_systems
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.launch.launcher import NO_PYTHON, Launcher
from reconciler.storage.launch.nodes import Node, find_differences, probe_nodes
from reconciler.storage.leftovers import open_temporary, sweep_siblings

# Differences between a machine's NUMA nodes and the guides' advice. Pure.
#
# The guides of NVIDIA's submissions (v2.1 and v5.1, "NUMA Configuration of the system") recommend nodes as small as
# memory distance allows, equal memory and lanes in each, and symmetry.

_QUADRANTS = 4  # quadrants of a large EPYC, each of which NPS4 makes a node
_UNLIKE = 1.1  # ratio of the largest node's memory to the smallest's


class _Layout(Struct, frozen=True):
    """A machine's NUMA layout. ``nodes``: those with processors; ``gpus``: the node of each, -1 if the firmware does
    not report it."""

    sockets: int
    nodes: Sequence[Mapping[str, int]]
    gpus: Sequence[int]

    def find_socket(self, node: int) -> int:
        """Return a node's socket; nodes are numbered socket by socket."""
        numbers = [each["node"] for each in self.nodes]
        return numbers.index(node) * self.sockets // len(numbers) if node in numbers else -1


def find_layout_advice(facts: Mapping[str, Any]) -> list[str]:
    """Return advice on the layout; empty if the machine reports too little. ``facts``: a probe's hardware facts."""
    layout = _Layout(
        int(facts.get("cpu.sockets", 0)),
        [node for node in facts.get("numa.layout", ()) if node["processors"]],
        facts.get("numa.gpus", ()),
    )
    offline = str(facts.get("cpu.offline", ""))
    found = [f"processors {offline} are offline: nothing computes on them"] if offline else []
    if not layout.nodes or not layout.sockets:
        return found
    found += _find_coarse(layout, str(facts.get("cpu.model", "")))
    if len(layout.nodes) > 1:
        found += [*_find_unequal(layout), *_find_far(layout)]
    return found


def _find_coarse(layout: _Layout, model: str) -> Iterator[str]:
    count = len(layout.nodes)
    if count < layout.sockets:
        yield (
            f"{layout.sockets} sockets are {show_count(count, 'NUMA node')}, so that memory is interleaved over them: "
            "enable NUMA (disable node interleaving) in the firmware"
        )
    elif "EPYC" in model and count < _QUADRANTS * layout.sockets:
        yield (
            f"{show_count(count // layout.sockets, 'NUMA node')} for each socket: set NPS{_QUADRANTS}, or as many "
            "nodes as this EPYC offers, in the firmware; a node is then one quadrant of the socket, with its own memory"
        )


def _find_unequal(layout: _Layout) -> Iterator[str]:
    memory = {node["node"]: node["memory_bytes"] for node in layout.nodes}
    if any(memory.values()):
        yield from (
            f"NUMA node {node} has processors and no memory: put modules into its channels"
            for node, size in memory.items()
            if not size
        )
        sizes = [size for size in memory.values() if size]
        if max(sizes) > _UNLIKE * min(sizes):
            listed = ", ".join(f"node {node} {size / 2**30:.0f} GiB" for node, size in memory.items())
            yield f"NUMA nodes differ in memory ({listed}): fill the channels of all nodes alike"
    processors = {node["node"]: node["processors"] for node in layout.nodes}
    if len(set(processors.values())) > 1:
        listed = ", ".join(f"node {node} {count}" for node, count in processors.items())
        yield f"NUMA nodes differ in processors ({listed}): the layout is not symmetric"


def _find_far(layout: _Layout) -> Iterator[str]:
    unknown = sum(node < 0 for node in layout.gpus)
    if unknown:
        yield (
            f"the firmware does not name the NUMA node of {show_count(unknown, 'GPU')} of {len(layout.gpus)}: "
            f"processes cannot be placed near {'it' if unknown == 1 else 'them'}"
        )
        return
    here = Counter(layout.find_socket(node) for node in layout.gpus)
    counts = [here[socket] for socket in range(layout.sockets)]
    if len(layout.gpus) >= layout.sockets and max(counts) - min(counts) > len(layout.gpus) % layout.sockets:
        listed = ", ".join(f"{count} on socket {socket}" for socket, count in enumerate(counts))
        yield f"GPUs are not spread evenly over the sockets ({listed}): see in which slots they are"


_NOT_COMPARED = ("system_name", "number_of_nodes")


class Detection(Struct, frozen=True):
    """The result of reading a system's machines. ``path``: the spec file that declares the system, with its text
    ``before``; None without a spec. ``unlike``: why this machine is not the one that the spec declares. ``described``:
    the edited spec. ``differences``: between the nodes; ``advice``: conflicts of the firmware's layout with the guides.
    ``is_assumed``: the system was chosen from several by its hardware."""

    system: str
    path: Path | None
    before: str
    nodes: tuple[Node, ...]
    proposal: Proposal
    described: Described | None
    unlike: str
    differences: Sequence[str]
    advice: Sequence[str]
    is_assumed: bool
    written: bool

    @property
    def changed(self) -> bool:
        return self.described is not None and self.described.text != self.before


def detect_system(
    paths: RepositoryPaths | None,
    specs: Sequence[str],
    system: str | None,
    *,
    launcher: str = "",
    write: bool = False,
    overwrite: bool = False,
) -> Detection:
    """Probe each node that the launcher reaches, by default the declared one, and edit the spec if ``write``.

    ``paths``: None outside a repository; ``specs``: relative to its root, none for all. Raises ReconcilerError.
    """
    path, text, name, is_assumed = _find_spec(paths, specs, system)
    declared = (list_systems(text).get(name) if path else None) or {}
    through = Launcher(tuple(shlex.split(launcher))) if launcher else _find_launcher(path, name, declared)
    seen = (paths.root.resolve(),) if paths is not None else ()
    with nullcontext(paths.work) if paths is not None else open_temporary("probe") as shared:
        nodes = probe_nodes(ProbeRequest(hardware=True), through, shared, seen)
    unlike = "" if through.words else _explain_unlike(declared)
    if unlike and write and not overwrite:
        fix = "run it there, name the launcher that reaches it, or write anyway: --overwrite"
        raise ReconcilerError(f"this machine is not {name}: {unlike}", fix=fix)
    proposal = propose(nodes[0], len(nodes))
    try:
        described = describe(text, name, proposal, overwrite=overwrite) if path else None
    except EditError as error:
        raise ReconcilerError(f"{path}: {error}", fix="change the spec by hand: reconcile detect --json") from None
    if write and path is None:
        raise ReconcilerError("there is no spec to write to", fix="`reconcile init` makes one")
    written = bool(write and path and described and described.text != text)
    if written and described and path:
        sweep_siblings(path)
        replace(path, described.text.encode())
    differences = find_differences(nodes, _describe_for_comparison)
    advice = _list_advice(nodes)
    return Detection(
        name,
        path,
        text,
        nodes,
        proposal,
        described,
        unlike,
        differences,
        advice,
        is_assumed=is_assumed,
        written=written,
    )


def _find_spec(
    paths: RepositoryPaths | None, specs: Sequence[str], system: str | None
) -> tuple[Path | None, str, str, bool]:
    """Return (path, text, system, whether that is assumed) for the file that declares the system; for a new system, the
    first file that declares any."""
    if paths is None or not (specs or (paths.root / "specs").is_dir()):
        return None, "", system or _make_machine_name(), False
    sources = read_readable_sources(list_spec_paths(paths, list(specs)), paths.root)
    declared = {name: source for source in sources for name in list_systems(source.text)}
    is_assumed = system is None and len(declared) > 1
    if is_assumed:
        system = _find_own({name: each for source in sources for name, each in list_systems(source.text).items()})
    chosen = system or next(iter(declared), _make_machine_name())
    source = declared.get(chosen) or next(iter(declared.values()), sources[0])
    return paths.root / source.name, source.text, chosen, is_assumed


def _find_own(systems: Mapping[str, object]) -> str:
    """Return the one system with this machine's hardware, compared by the number of accelerators if necessary. Raises
    ReconcilerError unless exactly one matches."""
    declared = {name: hardware for name, each in systems.items() if (hardware := _read_hardware(each)) is not None}
    here = list_accelerators()
    fitting = [
        name
        for name, hardware in declared.items()
        if find_unlike(hardware) is None and (hardware.accelerator or hardware.cpu or not here)
    ]
    counts = {name: declared[name].count or bool(declared[name].accelerator) for name in fitting}
    exact = [name for name in fitting if counts[name] == len(here)]
    if len(found := exact or fitting) != 1:
        what = (
            f"has the hardware of {join_listing(found)}" if found else f"does not match {join_listing(list(systems))}"
        )
        raise ReconcilerError(f"this machine {what}", fix="choose the system: --system NAME")
    return found[0]


def _make_machine_name() -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", platform.node().lower()).strip("-._") or "this-machine"


def _find_launcher(path: Path | None, name: str, declared: object) -> Launcher:
    """Return the launcher that the spec declares for the system, or else this machine."""
    words = declared.get("launcher") if isinstance(declared, dict) else None
    if not words or not isinstance(declared, dict) or declared.get("python") == NO_PYTHON:
        return Launcher()
    if not isinstance(words, list):
        raise ReconcilerError(f"{path}: {name}: launcher is not a list of words", fix="reconcile validate")
    return Launcher(tuple(map(str, words)), str(declared.get("python", "")))


def _explain_unlike(declared: object) -> str:
    """Explain why this machine is not the one that the spec declares; "" if nothing contradicts it."""
    hardware = _read_hardware(declared)
    found = find_unlike(hardware) if hardware is not None else None
    return found.message if found is not None else ""


def _read_hardware(system: object) -> Hardware | None:
    """Return a system's declared hardware; None if it declares none that can be read."""
    declared = system.get("hardware") if isinstance(system, dict) else None
    if not isinstance(declared, dict):
        return None
    values = {f"hardware.{name}": value for name, value in declared.items() if name in ("accelerator", "cpu", "count")}
    return SystemSettings(values).hardware if str(values.get("hardware.count", 0)).isdecimal() else None


def _describe_for_comparison(node: Node) -> Mapping[str, str]:
    return {name: value for name, value in propose(node).description.items() if name not in _NOT_COMPARED}


def _list_advice(nodes: Sequence[Node]) -> list[str]:
    """List advice on the firmware's layout, with the host's name if there are several."""
    found = [(str(node["hardware"].get("host", "")), find_layout_advice(node["hardware"])) for node in nodes]
    return [f"{host}: {line}" if len(nodes) > 1 else line for host, lines in found for line in lines]
