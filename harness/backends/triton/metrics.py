"""Counters of a server's work, as notes of a record: its metrics in Prometheus' words, and batches by size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from harness.backends.triton.connection import get
from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.backends.triton.server import TritonServer

_LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)")
_LIMIT = 10.0  # seconds
_COUNTED = "nv_inference_"  # counters of a model; durations in us
_GAUGES = ("nv_gpu_utilization", "nv_gpu_power_usage", "nv_pinned_memory_pool_used_bytes", "nv_cpu_utilization")


@dataclass(frozen=True, slots=True)
class Metrics:
    """``counters``: of the model, by name without prefix. ``batches``: size -> how many were computed. ``gauges``: of
    the machine as the server sees it."""

    counters: Mapping[str, float] = field(default_factory=dict)
    batches: Mapping[int, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


def read_metrics(server: TritonServer) -> Metrics:
    """Read the metrics as far as the server gives them: nothing is lost where it does not."""
    text, batches = "", {}
    if server.metrics:
        with suppress(OSError):
            status, answer = get(server.host, server.metrics, "/metrics", _LIMIT)
            text = answer if status == 200 else ""
    with suppress(HarnessError, KeyError, ValueError, TypeError, IndexError):
        stats = server.ask(f"/v2/models/{quote(server.model, safe='')}/stats")["model_stats"][0]
        batches = {int(item["batch_size"]): int(item["compute_infer"]["count"]) for item in stats["batch_stats"]}
        if not text:
            return Metrics(count_statistics(stats), batches)
    counters, gauges = parse_metrics(text, server.model)
    return Metrics(counters, batches, gauges)


def parse_metrics(text: str, model: str) -> tuple[dict[str, float], dict[str, float]]:
    """Counters of a model, summed over its versions and causes, and gauges of the machine, over devices."""
    counters: dict[str, float] = {}
    gauges: dict[str, list[float]] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if line.startswith("#") or found is None:
            continue
        name, labels, value = found["name"], found["labels"] or "", _read_number(found["value"])
        if name.startswith(_COUNTED) and f'model="{model}"' in labels:
            short = name.removeprefix(_COUNTED)
            counters[short] = counters.get(short, 0.0) + value
        elif name in _GAUGES:
            gauges.setdefault(name.removeprefix("nv_"), []).append(value)
    return counters, {name: sum(values) / len(values) for name, values in gauges.items()}


def _read_number(text: str) -> float:
    with suppress(ValueError):
        number = float(text)
        return number if isfinite(number) else 0.0
    return 0.0


def count_statistics(stats: Mapping[str, Any]) -> dict[str, float]:
    """The same counters from the statistics of a server whose metrics are at no known address."""
    said, ns = stats["inference_stats"], 1000
    names = {"queue": "queue", "compute_input": "compute_input", "compute_infer": "compute_infer"}
    durations = {f"{name}_duration_us": int(said[key]["ns"]) / ns for name, key in names.items()}
    return {
        "request_success": float(said["success"]["count"]),
        "request_failure": float(said["fail"]["count"]),
        "count": float(stats["inference_count"]),
        "exec_count": float(stats["execution_count"]),
        **durations,
        "compute_output_duration_us": int(said["compute_output"]["ns"]) / ns,
    }


def describe_work(before: Metrics, after: Metrics) -> dict[str, Any]:
    """Describe the work that was counted between the two."""
    counters = {
        f"server.{name}": round(value - before.counters.get(name, 0.0), 1) for name, value in after.counters.items()
    }
    made = {size: count - before.batches.get(size, 0) for size, count in sorted(after.batches.items())}
    batches = {str(size): count for size, count in made.items() if count}
    gauges = {f"server.{name}": round(value, 3) for name, value in after.gauges.items()}
    return {**counters, **({"server.batches": batches} if batches else {}), **gauges}
