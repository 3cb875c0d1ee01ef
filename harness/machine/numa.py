"""NUMA nodes: their processors and memory, and binding work to one of them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

Made = TypeVar("Made")

_SYSTEM = Path("/sys")
_LIBRARY = "libnuma.so.1"


@dataclass(frozen=True, slots=True)
class Node:
    """``processors``: its online processors that this process may use."""

    number: int
    processors: frozenset[int]


def list_nodes(system: Path = _SYSTEM, usable: set[int] | None = None) -> list[Node]:
    """List the nodes on which this process may compute, by number; none if the kernel does not support nodes. Nodes
    without usable processors (device memory, or a socket outside the container) are omitted."""
    allowed = list_usable() if usable is None else usable
    found = [Node(number, frozenset(processors & allowed)) for number, processors in read_processors(system)]
    return [node for node in found if node.processors]


def list_usable() -> set[int]:
    """List the processors that this process may use, by affinity and the cpusets of control groups."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def read_processors(system: Path = _SYSTEM) -> Iterator[tuple[int, set[int]]]:
    """Yield (node, its online processors), by number."""
    folders = (system / "devices/system/node").glob("node[0-9]*")
    for number, path in sorted((int(path.name.removeprefix("node")), path) for path in folders):
        with suppress(OSError, ValueError):
            yield number, parse_list((path / "cpulist").read_text(encoding="ascii"))


def read_memory(number: int, system: Path = _SYSTEM) -> int:
    """Read a node's memory in bytes; 0 if it has none, or it is unknown."""
    with suppress(OSError, ValueError, IndexError):
        text = (system / f"devices/system/node/node{number}/meminfo").read_text(encoding="ascii")
        line = next(line for line in text.splitlines() if "MemTotal:" in line)
        return int(line.split("MemTotal:")[1].split()[0]) * 1024
    return 0


def find_node(bus: str, system: Path = _SYSTEM) -> int:
    """Find the NUMA node of the device at this PCI address; -1 if it is unknown, as on most machines with one node."""
    with suppress(OSError, ValueError):
        return int((system / "bus/pci/devices" / bus / "numa_node").read_text(encoding="ascii"))
    return -1


def list_processors(node: int, system: Path = _SYSTEM) -> set[int]:
    """List the node's processors that this process may use; all usable ones if the node is unknown."""
    usable = list_usable()
    try:
        text = (system / f"devices/system/node/node{node}/cpulist").read_text(encoding="ascii")
    except OSError:
        return usable
    return (parse_list(text) & usable) or usable


def parse_list(text: str) -> set[int]:
    """Parse the kernel's list format: "0-3,8" is 0, 1, 2, 3 and 8."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def find_ranges(processors: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of neighbours."""
    found: list[tuple[int, int]] = []
    for number in sorted(processors):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def pin_thread(processors: set[int] | frozenset[int]) -> None:
    """Pin the calling thread to these processors, if the system allows it; a sandbox may not."""
    with suppress(OSError):
        os.sched_setaffinity(0, processors)


def pin_thread_near(node: int, processors: set[int] | frozenset[int]) -> None:
    """Pin the thread, and prefer the node for memory that it touches first; -1 means any node."""
    if node >= 0:
        pin_thread(processors)
        prefer_memory(node)


@contextmanager
def pin_temporarily(node: int, processors: set[int] | frozenset[int]) -> Iterator[None]:
    """Context that pins the calling thread, and the threads started within it."""
    before = list_usable()
    pin_thread_near(node, processors)
    try:
        yield
    finally:
        if node >= 0:
            pin_thread(before)
            prefer_memory(-1)


def run_on(processors: set[int], work: Callable[[], Made]) -> Made:
    """Run ``work`` on a thread pinned there, so that memory it touches first is on that node."""
    with ThreadPoolExecutor(1, initializer=pin_thread, initargs=(processors,)) as pool:
        return pool.submit(work).result()


def prefer_memory(node: int) -> None:
    """Prefer a node for the calling thread's memory; -1: wherever it runs. Without libnuma the kernel's default
    applies, the node of the processor that first touches the memory."""
    library = load_libnuma()
    if library is None:
        return
    if node < 0:
        library.numa_set_localalloc()
    else:
        library.numa_set_preferred(node)


@cache
def load_libnuma() -> Any:
    """Load libnuma; None if it is not installed, or the kernel allows no memory policy."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        return library if library.numa_available() >= 0 else None
    except (OSError, AttributeError):
        return None
