"""Assign each worker of a CPU backend a node and a number of threads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.machine.facts import count_usable_cores
from harness.machine.numa import Node, list_nodes, list_usable


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """The place of a worker. ``node`` -1: it may use all ``processors``, whatever their nodes."""

    node: int
    processors: frozenset[int]
    threads: int


def place_workers(workers: int, threads: int) -> list[WorkerPlace]:
    """Place workers on this machine, within the limits of control groups. ``threads``: per worker, 0 for its share."""
    return share_out(list_nodes(), list_usable(), count_usable_cores(), workers, threads)


def share_out(nodes: Sequence[Node], usable: set[int], cores: int, workers: int, threads: int) -> list[WorkerPlace]:
    """Return one place per worker, in the order of the workers.

    A worker stays on one node, and each node has workers in proportion to its processors, but at least one. With fewer
    workers than nodes, or more threads per worker than processors on the smallest node, binding would leave processors
    idle or crowd them, so none is bound. ``cores``: the limit on processor time.
    """
    anywhere = WorkerPlace(-1, frozenset(usable), threads or max(1, cores // workers))
    smallest = min((len(node.processors) for node in nodes), default=0)
    bound = len(nodes) > 1 and threads <= smallest and (workers >= len(nodes) or threads)
    if not bound:
        return [anywhere] * workers
    chosen: list[Node] = []
    taken: Counter[int] = Counter()
    for left in range(workers, 0, -1):
        idle = [node for node in nodes if not taken[node.number]]
        offered = idle if left == len(idle) else nodes  # the last workers use idle nodes
        best = max(offered, key=lambda node: (len(node.processors) / (taken[node.number] + 1), -node.number))
        taken[best.number] += 1
        chosen.append(best)
    allowed = min(1.0, cores / sum(len(node.processors) for node in nodes))
    return [
        WorkerPlace(
            node.number,
            node.processors,
            threads or max(1, math.floor(len(node.processors) * allowed / taken[node.number])),
        )
        for node in chosen
    ]
