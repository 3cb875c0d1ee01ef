"""Measure the overhead of the harness over an engine: ``python -m tests.benchmarks.harness [--json] [--rounds N]
[--only P]``.

- resnet: Offline samples/s of a LoadGen run relative to a bare asynchronous loop of the same engine, batch and threads.
- digits: the same for a network that is as fast as LoadGen itself, relative to the lower of the bare loop and a bare
  null SUT.
- latency: the median SingleStream latency minus that of a bare call of the engine, in microseconds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.contract import Benchmark, Scenario
from tests.benchmarks.children import Case, bare, read_detail, run, write_conf
from tests.benchmarks.rounds import Measure, compare, run_parts

BACKENDS = ("openvino", "onnxruntime")
RESNET_BATCH, RESNET_SECONDS = 8, 3
DIGITS_BATCH, DIGITS_SAMPLES = 512, 1_000_000
CALLS = 5_000


class BareCase(Case):
    """A case whose engines also run without the harness. ``shape``: that of a sample."""

    def __init__(self, folder: Path, benchmark: Benchmark, shape: list[int]) -> None:
        super().__init__(folder, benchmark)
        self.shape = shape

    def bare(self, program: str, engine: Path, **settings: Any) -> dict[str, Any]:
        samples = len(np.load(self.dataset / "samples.npy", mmap_mode="r"))
        return bare(program, {"engine": str(engine), "samples": samples, "shape": self.shape, **settings}, self.folder)


def run_bare(folder: Path, scenario: Scenario, conf: dict[str, int | float]) -> dict[str, Any]:
    """Run the bare null SUT. Return the detail log."""
    place = Path(tempfile.mkdtemp(dir=folder))
    write_conf(place / "user.conf", scenario, conf)
    settings = {"scenario": scenario, "conf": str(place / "user.conf"), "log_dir": str(place), "count": 1024}
    bare("loadgen", settings, folder)
    return read_detail(place)


def bare_offline(folder: Path, count: int) -> float:
    """Return samples/s of the bare null SUT."""
    log = run_bare(folder, "Offline", {"min_duration": 0, "min_query_count": count, "target_qps": 1})
    return float(log["result_samples_per_second"])


def measure_resnet(folder: Path, rounds: int) -> list[Measure]:
    case = BareCase(folder, Benchmark(name="resnet50", path=str(Path(__file__).parent / "resnet50.py")), [3, 224, 224])
    return [_measure_resnet(case, backend, rounds) for backend in BACKENDS]


def _measure_resnet(case: BareCase, backend: str, rounds: int) -> Measure:
    engine = case.engine(backend, batch_size=RESNET_BATCH)
    settings = {"batch": RESNET_BATCH, "streams": 1, "threads": 2}
    rate = case.bare(backend, engine, batches=8, **settings)["rate"]
    batches = max(8, round(rate * RESNET_SECONDS / RESNET_BATCH))
    count, run_settings = batches * RESNET_BATCH, {"batch_size": RESNET_BATCH, "streams": 1, "threads": 2}
    pair = {
        "bare": lambda: float(case.bare(backend, engine, batches=batches, **settings)["rate"]),
        "harness": lambda: case.offline(backend, engine, count, **run_settings),
    }
    return compare(f"resnet50 int8 Offline, {backend}", pair, rounds, 0.98)


def measure_digits(folder: Path, rounds: int) -> list[Measure]:
    case = BareCase(folder, Benchmark(name="digits"), [1, 8, 8])
    return [_measure_digits(case, backend, rounds) for backend in BACKENDS]


def _measure_digits(case: BareCase, backend: str, rounds: int) -> Measure:
    engine = case.engine(backend, batch_size=DIGITS_BATCH)
    settings = {"batch": DIGITS_BATCH, "streams": 2, "threads": 1, "batches": DIGITS_SAMPLES // DIGITS_BATCH}
    run_settings = {"batch_size": DIGITS_BATCH, "streams": 2, "threads": 1}
    measures = {
        "bare": lambda: float(case.bare(backend, engine, **settings)["rate"]),
        "null SUT": lambda: bare_offline(case.folder, DIGITS_SAMPLES),
        "harness": lambda: case.offline(backend, engine, DIGITS_SAMPLES, **run_settings),
    }

    def best(item: dict[str, float]) -> float:
        return item["harness"] / min(item["bare"], item["null SUT"])

    return compare(f"digits Offline, {backend}", measures, rounds, 0.7, best)


def measure_latency(folder: Path, rounds: int) -> list[Measure]:
    case = BareCase(folder, Benchmark(name="digits"), [1, 8, 8])
    return [_measure_latency(case, backend, rounds) for backend in BACKENDS]


def _measure_latency(case: BareCase, backend: str, rounds: int) -> Measure:
    engine = case.engine(backend, batch_size=1)

    def harness() -> float:
        log = run(
            case.folder,
            "SingleStream",
            benchmark=case.benchmark,
            backend=backend,
            dataset=case.dataset,
            engine=engine,
            conf={"min_duration": 0, "min_query_count": CALLS, "target_latency": 1},
            settings={"batch_size": 1, "streams": 1, "threads": 1},
        )
        return float(log["result_50.00_percentile_latency_ns"]) / 1e3

    def bare_call() -> float:
        settings = {"batch": 1, "streams": 1, "threads": 1, "batches": CALLS}
        return float(case.bare(f"{backend}_calls", engine, **settings)["median"]) * 1e6

    def added(item: dict[str, float]) -> float:
        return item["harness"] - item["bare"]

    name, pair = f"digits SingleStream added latency, {backend}", {"bare": bare_call, "harness": harness}
    return compare(name, pair, rounds, 60, added, shown="us", at_least=False, unit=" us")


PARTS = {"resnet": measure_resnet, "digits": measure_digits, "latency": measure_latency}


if __name__ == "__main__":
    sys.exit(run_parts("harness", __doc__ or "", PARTS))
