"""Advice about the firmware's layout of NUMA nodes, from made-up machines as `detect` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.machine.facts import describe_hardware
from reconciler.reconcile.machine_description import find_layout_advice
from tests.unit.harness.machines import files

EPYC, XEON = "AMD EPYC 9654 96-Core Processor", "Intel(R) Xeon(R) Platinum 8480C"


def advise(
    root: Path, model: str, sockets: int, nodes: Sequence[tuple[str, int]], gpus: Sequence[int] = (), offline: str = ""
) -> list[str]:
    """``nodes``: processors of each and its memory in GiB; ``gpus``: the node of each."""
    tree = {"sys__devices__system__cpu__offline": f"{offline}\n"}
    for number, (listed, memory) in enumerate(nodes):
        node = f"sys__devices__system__node__node{number}"
        tree |= {f"{node}__cpulist": f"{listed}\n", f"{node}__meminfo": f"Node {number} MemTotal: {memory << 20} kB\n"}
    for number, node in enumerate(gpus):
        bus = f"0000:{number:02x}:00.0"
        tree |= {
            f"proc__driver__nvidia__gpus__{bus}__information": "Model: NVIDIA H100\n",
            f"sys__bus__pci__devices__{bus}__numa_node": f"{node}\n",
        }
    lscpu = f"Model name: {model}\nSocket(s): {sockets}\nCore(s) per socket: 8\n"
    return find_layout_advice(describe_hardware(files(root, **tree), lscpu=lscpu, modules=""))


EIGHT = [(f"{4 * number}-{4 * number + 3}", 96) for number in range(8)]
PAIR = [("0-15", 512), ("16-31", 512)]


def test_layout_that_the_guides_ask_for_needs_no_advice(tmp_path: Path) -> None:
    assert advise(tmp_path / "epyc", EPYC, 2, EIGHT, gpus=(0, 1, 2, 3, 4, 5, 6, 7)) == []
    assert advise(tmp_path / "xeon", XEON, 2, PAIR, gpus=(0, 0, 1, 1)) == []
    assert advise(tmp_path / "desktop", XEON, 1, [("0-7", 64)]) == []


@pytest.mark.parametrize(
    ("model", "sockets", "nodes", "gpus", "said"),
    [
        (XEON, 2, [("0-31", 1024)], (), "2 sockets are 1 NUMA node, so that memory is interleaved"),
        (EPYC, 2, PAIR, (), "1 NUMA node for each socket: set NPS4"),
        (EPYC, 1, PAIR, (), "2 NUMA nodes for each socket: set NPS4"),
        (XEON, 2, [("0-15", 512), ("16-31", 0)], (), "NUMA node 1 has processors and no memory"),
        (XEON, 2, [("0-15", 512), ("16-31", 256)], (), "differ in memory (node 0 512 GiB, node 1 256 GiB)"),
        (XEON, 2, [("0-15", 512), ("16-27", 512)], (), "differ in processors (node 0 16, node 1 12)"),
        (XEON, 2, PAIR, (0, 0, 0, 0), "not spread evenly over the sockets (4 on socket 0, 0 on socket 1)"),
        (XEON, 2, PAIR, (0, -1), "the NUMA node of 1 GPU of 2"),
    ],
)
def test_layout_that_contradicts_the_guides_is_named(
    model: str, sockets: int, nodes: Sequence[tuple[str, int]], gpus: Sequence[int], said: str, tmp_path: Path
) -> None:
    (found,) = advise(tmp_path, model, sockets, nodes, gpus)
    assert said in found


def test_machine_that_says_nothing_gets_no_advice() -> None:
    assert find_layout_advice({}) == []
