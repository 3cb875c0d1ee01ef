"""Launch a captured graph back to back, and list the kernels of some work with their times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch


class Launched(NamedTuple):
    """Launches/s of all and of the last third, and their number."""

    rate: float
    last_third: float
    count: int


def repeat_graph(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, seconds: float) -> Launched:
    each = max(1, round(20 / launch(graph, stream, 20)))  # launches of about one second
    taken: list[float] = []
    while sum(taken) < seconds:
        taken.append(launch(graph, stream, each))
    rates = [each / spent for spent in taken]
    count = each * len(taken)
    return Launched(count / sum(taken), float(np.mean(rates[-(len(rates) // 3) :])), count)


def launch(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, count: int) -> float:
    """Return the seconds of ``count`` launches."""
    began = time.perf_counter()
    with torch.cuda.stream(stream):
        for number in range(count):
            graph.replay()
            if number % 8 == 7:
                stream.synchronize()
    stream.synchronize()
    return time.perf_counter() - began


def time_kernels(work: Callable[[], object]) -> dict[str, float]:
    """Return kernel -> seconds, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        work()
    spent: dict[str, float] = {}
    for event in seen.key_averages():
        spent[event.key[:90]] = spent.get(event.key[:90], 0) + event.self_device_time_total / 1e6
    return dict(sorted(spent.items(), key=lambda item: -item[1]))
