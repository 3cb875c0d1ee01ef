"""Compare the harness without an engine to a bare LoadGen SUT: ``python -m tests.benchmarks.null [--json] [--rounds
N]``.

- Offline: samples/s.
- Server: the highest rate, in steps of 10 %, at which a run of one second is VALID with 10 ms at the 99th percentile.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.contract import Benchmark, Scenario
from tests.benchmarks.children import bare, build, read_detail, run, write_conf
from tests.benchmarks.harness import bare_offline
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


def server_conf(rate: float) -> Conf:
    return {"min_duration": 1000, "min_query_count": int(rate), "target_qps": rate, "target_latency": LATENCY_MS}


def bare_server(folder: Path, rate: float) -> bool:
    place = Path(tempfile.mkdtemp(dir=folder))
    write_conf(place / "user.conf", "Server", server_conf(rate))
    settings = {"scenario": "Server", "conf": str(place / "user.conf"), "log_dir": str(place), "count": 1024}
    bare("loadgen", settings, folder)
    return bool(read_detail(place)["result_validity"] == "VALID")


def measure(folder: Path, rounds: int) -> list[Measure]:
    dataset = build(folder, "Dataset", DIGITS)

    def ask(scenario: Scenario, conf: Conf) -> dict[str, Any]:
        settings = {"batch_size": BATCH}
        return run(folder, scenario, benchmark=DIGITS, backend="null", dataset=dataset, conf=conf, settings=settings)

    def offline() -> float:
        log = ask("Offline", {"min_duration": 0, "min_query_count": SAMPLES, "target_qps": 1})
        return float(log["result_samples_per_second"])

    def server(rate: float) -> bool:
        return bool(ask("Server", server_conf(rate))["result_validity"] == "VALID")

    subjects = {
        "Offline samples/s": {"bare": lambda: bare_offline(folder, SAMPLES), "harness": offline},
        "Server highest VALID rate": {
            "bare": lambda: highest_valid(lambda rate: bare_server(folder, rate)),
            "harness": lambda: highest_valid(server),
        },
    }
    return [compare(f"null {name}", pair, rounds, 0.8, shown="per second") for name, pair in subjects.items()]


if __name__ == "__main__":
    sys.exit(run_parts("null", __doc__ or "", {"null": measure}))
