"""Contradictions of a machine's NUMA nodes to the guides' advice. Pure.

The guides of NVIDIA's submissions (v2.1 and v5.1, "NUMA Configuration of the system") ask for nodes as small as the
distance to memory allows, for as much memory and as many lanes in each, and for symmetry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

_QUADRANTS = 4  # of a large EPYC: NPS4 makes each a node
_UNLIKE = 1.1  # memory of the largest node over that of the smallest


class _Layout(Struct, frozen=True):
    """``nodes``: those with processors; ``gpus``: the node of each, -1 where the firmware does not say."""

    sockets: int
    nodes: Sequence[Mapping[str, int]]
    gpus: Sequence[int]

    def find_socket(self, node: int) -> int:
        """Nodes are numbered socket by socket."""
        numbers = [each["node"] for each in self.nodes]
        return numbers.index(node) * self.sockets // len(numbers) if node in numbers else -1


def find_layout_advice(facts: Mapping[str, Any]) -> list[str]:
    """``facts``: what a probe read of the hardware. Nothing where the machine says too little of itself."""
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
            f"{layout.sockets} sockets are {_count(count, 'NUMA node')}, so that memory is interleaved over them: "
            "enable NUMA (disable node interleaving) in the firmware"
        )
    elif "EPYC" in model and count < _QUADRANTS * layout.sockets:
        yield (
            f"{_count(count // layout.sockets, 'NUMA node')} for each socket: set NPS{_QUADRANTS}, or as many nodes "
            "as this EPYC offers, in the firmware; a node is then one quadrant of the socket, with its own memory"
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
            f"the firmware does not name the NUMA node of {_count(unknown, 'GPU')} of {len(layout.gpus)}: "
            f"processes cannot be placed near {'it' if unknown == 1 else 'them'}"
        )
        return
    here = Counter(layout.find_socket(node) for node in layout.gpus)
    counts = [here[socket] for socket in range(layout.sockets)]
    if len(layout.gpus) >= layout.sockets and max(counts) - min(counts) > len(layout.gpus) % layout.sockets:
        listed = ", ".join(f"{count} on socket {socket}" for socket, count in enumerate(counts))
        yield f"GPUs are not spread evenly over the sockets ({listed}): see in which slots they are"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
