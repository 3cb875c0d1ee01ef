"""Which processors stand beside a device, and work that stays on them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")

_SYSTEM = Path("/sys")


def node_of(bus: str, system: Path = _SYSTEM) -> int:
    """NUMA node of the device at this PCI address; -1 where the machine does not say, as most with one node."""
    try:
        return int((system / "bus/pci/devices" / bus / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -1


def processors_of(node: int, system: Path = _SYSTEM) -> set[int]:
    """Those of the node that this process may use; all that it may use where the node is not known."""
    usable = os.sched_getaffinity(0)
    try:
        text = (system / f"devices/system/node/node{node}/cpulist").read_text(encoding="ascii")
    except OSError:
        return usable
    return (parse_list(text) & usable) or usable


def parse_list(text: str) -> set[int]:
    """The kernel's list form: "0-3,8" is 0, 1, 2, 3 and 8."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def stay_on(processors: set[int]) -> None:
    """Keep the calling thread there, where the system lets it: a sandbox may not, and it works anywhere."""
    with suppress(OSError):
        os.sched_setaffinity(0, processors)


def done_on(processors: set[int], work: Callable[[], Made]) -> Made:
    """What ``work`` gives on a thread that stays there: memory that it touches first is on that node."""
    with ThreadPoolExecutor(1, initializer=stay_on, initargs=(processors,)) as pool:
        return pool.submit(work).result()
