"""Report a session: ``python -m tests.gpu.report FILE…`` prints figures next to their goals, then the JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Where a figure is in a shape's document, and its goal; the first that is found counts.
GOALS: tuple[tuple[str, tuple[str, str], str, float], ...] = (
    ("Offline from host memory over the bare engine", ("offline", "host_over_bare"), ">=", 0.98),
    ("Offline from device memory over the bare engine", ("offline", "device_over_bare"), ">=", 0.99),
    ("SingleStream added latency, us", ("single", "added_us"), "<=", 40),
    ("Tokens: Offline in the process over LLM.generate", ("offline", "over_bare"), ">=", 0.98),
    ("Tokens: Offline over HTTP over LLM.generate", ("http", "over_bare"), ">=", 0.98),
    ("GPUs: Offline scaling", ("scaling", "ratio"), ">=", 0.97),
    ("Pipeline without an engine over LoadGen alone", ("ceiling", "ratio"), ">=", 0.8),
)
SERVER = 0.90
# What is stated without a goal.
STATED = (
    ("Offline samples/s from host memory", ("offline", "rates", "host")),
    ("Offline samples/s of the bare engine", ("offline", "rates", "bare")),
    ("Server queries/s, confirmed", ("server", "highest_valid_qps")),
    ("Processor seconds per 100k samples", ("offline", "cpu_seconds_per_100k_samples")),
    ("Joules per sample (unofficial)", ("offline", "telemetry", "telemetry.gpu.joules_per_sample_unofficial")),
    ("Plain loop over the bare engine", ("plain", "over_bare")),
)


def lines(name: str, found: dict[str, Any]) -> Iterator[str]:
    for title, (part, figure), sign, goal in GOALS:
        value = found.get(part, {}).get(figure)
        if value is not None:
            yield line(name, title, float(value), sign, goal)
    server = found.get("server", {})
    if "over_offline" in server:
        bound = f" ({server['bound_ms']} ms)" if "bound_ms" in server else ""  # of tokens, the round's two
        title = f"Server{bound}, confirmed, over Offline samples/s"
        yield line(name, title, server["over_offline"], ">=", SERVER)
    for title, path in STATED:
        value: Any = found
        for key in path:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        if value != {}:
            yield f"    {name:24} {title:58} {value}"


def line(name: str, title: str, value: float, sign: str, goal: float) -> str:
    holds = value >= goal if sign == ">=" else value <= goal
    return f"{'ok ' if holds else 'NOT'} {name:24} {title:58} {value:8.3f} {sign} {goal}"


def main(paths: list[str]) -> None:
    documents: dict[str, Any] = {}
    for path in paths:
        for name, found in json.loads(Path(path).read_text()).items():
            documents.setdefault(name, {}).update(found)
    for name, found in documents.items():
        shaped = {name: found} if name in ("ceiling", "copies_gb_per_s") else found
        print(*lines(name, shaped), sep="\n")
    print(json.dumps(documents, indent=1, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
