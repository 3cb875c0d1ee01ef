"""Compare the harness without an engine to a bare LoadGen SUT: ``python -m tests.benchmarks.null [--json] [--rounds
N]``.

- Offline: samples/s.
- Server: the highest rate, in steps of 10 %, at which a run of one second is VALID with 10 ms at the 99th percentile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.contract import Benchmark, Scenario
from tests.benchmarks.children import build, run
from tests.benchmarks.harness import bare_offline, run_bare
from tests.benchmarks.rounds import Measure, compare, run_parts

SAMPLES, BATCH = 1_000_000, 2048
FIRST_RATE, STEP, LATENCY_MS = 200_000.0, 1.1, 10
DIGITS = Benchmark(name="digits")
Conf = dict[str, int | float]


def highest_valid(valid: Callable[[float], bool]) -> float:
    """Return the last rate before the first that is not VALID, upwards from FIRST_RATE, or downwards if that is too
    high.

    Each rate may be repeated once, because a shared machine sometimes stops for longer than the limit.
    """
    rate = FIRST_RATE
    if valid(rate) or valid(rate):
        while valid(rate * STEP) or valid(rate * STEP):
            rate *= STEP
        return rate
    while not (valid(rate) or valid(rate)):
        rate /= STEP
    return rate


def is_valid(log: Mapping[str, Any]) -> bool:
    return bool(log["result_validity"] == "VALID")


def server_conf(rate: float) -> Conf:
    return {"min_duration": 1000, "min_query_count": int(rate), "target_qps": rate, "target_latency": LATENCY_MS}


def measure(folder: Path, rounds: int) -> list[Measure]:
    dataset = build(folder, "Dataset", DIGITS)

    def ask(scenario: Scenario, conf: Conf) -> dict[str, Any]:
        settings = {"batch_size": BATCH}
        return run(folder, scenario, benchmark=DIGITS, backend="null", dataset=dataset, conf=conf, settings=settings)

    def offline() -> float:
        log = ask("Offline", {"min_duration": 0, "min_query_count": SAMPLES, "target_qps": 1})
        return float(log["result_samples_per_second"])

    subjects = {
        "Offline samples/s": {"bare": lambda: bare_offline(folder, SAMPLES), "harness": offline},
        "Server highest VALID rate": {
            "bare": lambda: highest_valid(lambda rate: is_valid(run_bare(folder, "Server", server_conf(rate)))),
            "harness": lambda: highest_valid(lambda rate: is_valid(ask("Server", server_conf(rate)))),
        },
    }
    return [compare(f"null {name}", pair, rounds, 0.8, shown="per second") for name, pair in subjects.items()]


if __name__ == "__main__":
    sys.exit(run_parts("null", __doc__ or "", {"null": measure}))
