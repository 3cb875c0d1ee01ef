"""Nodes of made-up machines, and which of them the workers of a CPU backend get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.machine.facts import read_processor_limit
from harness.machine.numa import (
    Node,
    list_nodes,
    list_processors,
    list_usable,
    load_libnuma,
    pin_temporarily,
    pin_thread_near,
)
from harness.machine.placement import share_out
from tests.unit.harness.machines import files


def make_system(root: Path, **nodes: str) -> Path:
    """``node0="0-3"``: the processors of node 0 that are online."""
    return files(root, **{f"devices__system__node__{name}__cpulist": f"{listed}\n" for name, listed in nodes.items()})


def nodes(*sizes: int) -> list[Node]:
    """Node 0 has the first processors."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [
        Node(number, frozenset(range(end - size, end)))
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True))
    ]


def share(found: list[Node], workers: int, threads: int = 0, cores: int = 0) -> list[tuple[int, int]]:
    """(node, threads) of each worker."""
    usable = set().union(*(node.processors for node in found))
    return [(place.node, place.threads) for place in share_out(found, usable, cores or len(usable), workers, threads)]


def test_nodes_are_read_by_number(tmp_path: Path) -> None:
    system = make_system(tmp_path, node10="8-9", node2="4-7", node0="0-3")
    found = list_nodes(system, set(range(16)))
    assert [node.number for node in found] == [0, 2, 10]
    assert found[1] == Node(2, frozenset({4, 5, 6, 7}))


def test_processors_that_are_offline_or_not_allowed_are_not_used(tmp_path: Path) -> None:
    """The kernel lists only those online; a container was given 0 to 5."""
    system = make_system(tmp_path, node0="0-1,3", node1="4-7", node2="")
    found = list_nodes(system, set(range(6)))
    assert [(node.number, set(node.processors)) for node in found] == [(0, {0, 1, 3}), (1, {4, 5})]


def test_machine_without_nodes_has_none(tmp_path: Path) -> None:
    assert list_nodes(tmp_path, {0, 1}) == []
    assert share([], 2, cores=4) == [(-1, 2), (-1, 2)]


@pytest.mark.parametrize(
    ("sizes", "workers", "asked", "given"),
    [
        ((8, 8), 2, {}, [(0, 8), (1, 8)]),
        ((8, 8), 4, {}, [(0, 4), (1, 4), (0, 4), (1, 4)]),
        ((8, 8), 4, {"threads": 2}, [(0, 2), (1, 2), (0, 2), (1, 2)]),
        ((4, 4, 4), 4, {}, [(0, 2), (1, 4), (2, 4), (0, 2)]),
        ((6, 4, 2), 3, {}, [(0, 6), (1, 4), (2, 2)]),
        ((4,) * 5, 7, {"cores": 10}, [(0, 1), (1, 1), (2, 2), (3, 2), (4, 2), (0, 1), (1, 1)]),
        ((4, 4, 4), 2, {}, [(-1, 6)] * 2),  # over all nodes, so that all processors compute
        ((4, 4, 4), 2, {"threads": 4}, [(0, 4), (1, 4)]),
        ((8, 8), 1, {}, [(-1, 16)]),
        ((8, 8), 1, {"threads": 4}, [(0, 4)]),
        ((8, 8, 8, 8), 3, {}, [(-1, 10)] * 3),
    ],
)
def test_each_node_gets_its_part_of_the_workers(
    sizes: tuple[int, ...], workers: int, asked: dict[str, int], given: list[tuple[int, int]]
) -> None:
    assert share(nodes(*sizes), workers, **asked) == given


@pytest.mark.parametrize(
    ("tree", "limit"),
    [
        ({"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__cpu.max": "250000 100000\n"}, 2.5),
        (
            {
                "proc__self__cgroup": "0::/pod/box\n",
                "sys__fs__cgroup__pod__cpu.max": "400000 100000\n",
                "sys__fs__cgroup__pod__box__cpu.max": "max 100000\n",
            },
            4,
        ),
        (
            {
                "proc__self__cgroup": "5:cpu,cpuacct:/docker/1\n1:memory:/docker/1\n",
                "sys__fs__cgroup__cpu,cpuacct__cpu.cfs_quota_us": "150000\n",
                "sys__fs__cgroup__cpu,cpuacct__cpu.cfs_period_us": "100000\n",
                "sys__fs__cgroup__cpu,cpuacct__docker__1__cpu.cfs_quota_us": "-1\n",
                "sys__fs__cgroup__cpu,cpuacct__docker__1__cpu.cfs_period_us": "100000\n",
            },
            1.5,
        ),
        ({}, float("inf")),
    ],
    ids=["own group", "a group above", "version 1", "none"],
)
def test_least_limit_of_all_groups_counts(tree: dict[str, str], limit: float, tmp_path: Path) -> None:
    assert read_processor_limit(files(tmp_path, **tree)) == limit


def test_a_device_whose_node_was_not_given_is_served_from_anywhere(tmp_path: Path) -> None:
    """All processors of the node next to it are offline, or belong to somebody else."""
    usable = list_usable()
    system = make_system(tmp_path, node0=str(min(usable)), node1="4096-4099", node2="")
    assert list_processors(0, system) == {min(usable)}
    assert list_processors(1, system) == list_processors(2, system) == list_processors(-1, system) == usable


def test_a_thread_is_kept_while_asked_and_then_let_go() -> None:
    before = os.sched_getaffinity(0)
    one = {min(before)}
    with pin_temporarily(0, one):
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == before
    with pin_temporarily(-1, one):
        assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(load_libnuma() is None, reason="no libnuma, or no policy of memory is allowed here")
def test_memory_is_taken_from_the_node() -> None:
    pin_thread_near(0, list_usable())
    assert load_libnuma().numa_preferred() == 0
    load_libnuma().numa_set_localalloc()
