"""Measure the overhead of a Triton server between LoadGen and an engine: ``python -m tests.benchmarks.triton [--json]
[--rounds N] [--only P]``.

Samples/s of an Offline run through the server relative to the same engine, batch and threads without it. "resnet" is
the network of the benchmarks in this folder, "rehearsal" the small one of ResNet-50's rehearsal. Two requests are in
progress, so that the server has the next one when an instance is free.
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.backends.triton.server import find_program
from harness.contract import Benchmark
from reconciler.rehearse.rehearsal_spec import generate
from reconciler.rules.benchmark_facts import load_benchmark_facts
from tests.benchmarks.harness import RESNET, Case
from tests.benchmarks.rounds import Measure, compare, run_parts

MADE_BY = ("onnxruntime", "openvino")
SECONDS = 5
THREADS = 1


def measure(name: str, case: Case, batch: int, made_by: str, rounds: int) -> Measure:
    plain, served = case.engine(made_by, batch), case.engine("triton", batch, made_by=made_by)
    usual = {"batch_size": batch, "threads": THREADS}

    def offline(count: int) -> float:
        return case.offline(made_by, plain, count, streams=1, **usual)

    count = max(8 * batch, round(offline(64 * batch) * SECONDS))
    pair = {
        "bare": lambda: offline(count),
        "harness": lambda: case.offline("triton", served, count, streams=2, instances=1, **usual),
    }
    return compare(f"{name} Offline through Triton, {made_by}, 1 instance", pair, rounds, 0.9)


def measure_resnet(folder: Path, rounds: int) -> list[Measure]:
    case = Case(folder, RESNET)
    return [measure("resnet", case, 8, made_by, rounds) for made_by in MADE_BY]


def measure_rehearsal(folder: Path, rounds: int) -> list[Measure]:
    facts = load_benchmark_facts()["resnet50"]
    made = generate(folder, facts, size="small", seed=1, samples=0, moved=lambda *_: None)
    case = Case(folder, Benchmark(name="resnet50"), folder / made.data, folder / made.model)
    return [measure("rehearsal", case, 4, made_by, rounds) for made_by in MADE_BY]


PARTS = {"resnet": measure_resnet, "rehearsal": measure_rehearsal}


if __name__ == "__main__":
    if find_program("") is None:
        sys.exit("there is no tritonserver: pip install --no-deps nvidia-pytriton")
    sys.exit(run_parts("triton", PARTS, __doc__))
