"""Run the parts of a measurement one after the other, and report each when it ends, even if others fail."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.contract import TELEMETRY

Figures = dict[str, Any]
SECONDS = float(os.environ.get("SECONDS", "62"))
REPEATS = int(os.environ.get("REPEATS", "3"))


def make_parser(description: str | None, parts: Iterable[str], usual: Iterable[str]) -> argparse.ArgumentParser:
    """Make a parser with --only and --json. ``usual``: the parts measured by default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(usual), help=", ".join(parts))
    parser.add_argument("--json", type=Path)
    return parser


def measure_parts(
    program: str,
    title: str,
    parts: Mapping[str, Callable[..., Figures]],
    options: argparse.Namespace,
    *given: Any,
    facts: Figures | None = None,
) -> None:
    """``program``: the started module. ``title``: of the document in options.json, which begins with ``facts``.
    ``given``: the arguments of each part."""
    found: Figures = {"command": f"python -m {program} {' '.join(sys.argv[1:])}", **(facts or {})}
    for name in options.only.split(","):
        began = time.monotonic()
        try:
            found[name] = parts[name](*given)
        except Exception as error:  # the other parts are still worth their time
            found[name] = {"failed": f"{type(error).__name__}: {str(error)[-3000:]}"}
        found[name]["seconds"] = round(time.monotonic() - began, 1)
        print(json.dumps({name: found[name]}), flush=True)
        if options.json:
            options.json.write_text(json.dumps({title: found}, indent=1) + "\n")


def repeat_offline(
    run: Callable[[dict[str, int | float]], Figures],
    count: int,
    *,
    lasting: bool,
    over: Mapping[str, float],
    stated: Figures,
    target: float = 1,
) -> Figures:
    """Run Offline $REPEATS times. ``run``: run with lines of user.conf, and return the detail log. ``lasting``: ask for
    $SECONDS, of which ``count`` samples take slightly more. ``over``: rates that the median rate is divided by."""
    runs: list[Figures] = []
    for _ in range(REPEATS):
        duration = round(1000 * min(SECONDS, 60)) if lasting else 0
        log = run({"min_duration": duration, "min_query_count": count, "target_qps": target})
        rate = float(log["result_samples_per_second"])
        lines = Path(log["folder"], TELEMETRY).read_text(encoding="utf-8").splitlines()
        runs.append(
            {
                "rate": rate,
                "verdict": log["result_validity"],
                "samples": count,
                "last_third_over_mean": find_last_third([json.loads(line) for line in lines], rate),
                "telemetry": {name: value for name, value in log.items() if name.startswith("telemetry.")},
                "backend": {name: value for name, value in log.items() if name.startswith("backend.")},
            }
        )
        print(json.dumps(runs[-1]), flush=True)
    rates = [one["rate"] for one in runs]
    median = statistics.median(rates)
    ratios = {name: round(median / other, 4) for name, other in over.items() if other}
    return {
        "rate": median,
        "spread": round((max(rates) - min(rates)) / median, 4),
        **ratios,
        **stated,
        "runs": runs,
    }


def find_last_third(readings: list[Figures], rate: float) -> float:
    """Return samples/s of the last third of a run, relative to those of the complete run."""
    seen = [(line["seconds"], line["done"]) for line in readings if line.get("done")]
    if len(seen) < 6:
        return 0.0
    first, last = seen[-1 - len(seen) // 3], seen[-1]
    return round(float((last[1] - first[1]) / (last[0] - first[0]) / rate), 4)


def serve(run: Callable[[dict[str, int | float]], Figures], bound: float, rate: float, seconds: float) -> Figures:
    """Run Server. ``run``: see ``repeat_offline``; ``bound``: the latency limit in ms."""
    conf = {"min_duration": round(1000 * seconds), "min_query_count": 1000, "target_qps": round(rate, 1)}
    log = run({**conf, "target_latency": bound, "coalesce_queries": 1})
    return {
        "target_qps": round(rate, 1),
        "verdict": log["result_validity"],
        "completed": log["result_completed_samples_per_sec"],
        "p50_ms": log["result_50.00_percentile_latency_ns"] / 1e6,
        "p99_ms": log["result_99.00_percentile_latency_ns"] / 1e6,
        "seconds": seconds,
        "joules": log.get("telemetry.gpu.joules_per_sample_unofficial"),
    }
