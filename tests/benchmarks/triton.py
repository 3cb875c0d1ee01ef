"""Measure the overhead of a Triton server between LoadGen and an engine: ``python -m tests.benchmarks.triton [--json]
[--rounds N] [--only P]``.

Samples/s of an Offline run through the server relative to the same engine, batch and threads without it. "resnet" is
the network of the benchmarks in this folder, "rehearsal" the small one of ResNet-50's rehearsal. Two requests are in
progress, so that the server has the next one when an instance is free.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness.backends.triton.server import find_program
from harness.contract import Benchmark
from reconciler.rehearse.rehearsal_spec import generate
from reconciler.rules.benchmark_facts import load_benchmark_facts
from tests.benchmarks.children import Case
from tests.benchmarks.rounds import Measure, arguments, compare, report

MADE_BY = ("onnxruntime", "openvino")
SECONDS = 5
THREADS = 1


def measure(name: str, case: Case, batch: int, made_by: str, rounds: int) -> Measure:
    """Compare one stream with one instance of the server."""
    plain = case.engine(made_by, batch_size=batch)
    served = case.engine("triton", batch_size=batch, made_by=made_by)
    settings = {"batch_size": batch, "threads": THREADS}

    def measure_plain(count: int) -> float:
        return case.offline(made_by, plain, count, streams=1, **settings)

    count = max(8 * batch, round(measure_plain(64 * batch) * SECONDS))
    pair = {
        "bare": lambda: measure_plain(count),
        "harness": lambda: case.offline("triton", served, count, streams=2, instances=1, **settings),
    }
    return compare(f"{name} Offline through Triton, {made_by}, 1 instance", pair, rounds, 0.9)


def make_resnet(folder: Path) -> tuple[Case, int]:
    """Return the case and its batch size."""
    return Case(folder, Benchmark(name="resnet50", path=str(Path(__file__).parent / "resnet50.py"))), 8


def make_rehearsal(folder: Path) -> tuple[Case, int]:
    facts = load_benchmark_facts()["resnet50"]
    made = generate(folder, facts, size="small", seed=1, samples=0, moved=lambda *_: None)
    return Case(folder, Benchmark(name="resnet50"), folder / made.data, folder / made.model), 4


CASES: dict[str, Callable[[Path], tuple[Case, int]]] = {"resnet": make_resnet, "rehearsal": make_rehearsal}


def main() -> int:
    options = arguments(__doc__ or "")
    if find_program("") is None:
        print("there is no tritonserver: pip install --no-deps nvidia-pytriton")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        measures = []
        for name, make in CASES.items():
            if options.only in name:
                case, batch = make(Path(folder))
                measures += [measure(name, case, batch, made_by, options.rounds) for made_by in MADE_BY]
    return report("triton", measures, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
