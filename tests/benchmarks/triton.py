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
from tests.benchmarks.children import build, offline_rate
from tests.benchmarks.rounds import Measure, arguments, compare, report

MADE_BY = ("onnxruntime", "openvino")
SECONDS = 5
THREADS = 1


class Case:
    """A benchmark with its dataset and model; ``engine`` builds either kind of engine."""

    def __init__(self, folder: Path, benchmark: Benchmark, batch: int, data: Path | None, model: Path | None) -> None:
        self.folder, self.benchmark, self.batch = folder, benchmark, batch
        self.dataset = build(folder, "Dataset", benchmark, source=str(data) if data else None)
        inputs = {"dataset": str(self.dataset)}
        self.model = build(folder, "Model", benchmark, source=str(model) if model else None, inputs=inputs)

    def engine(self, backend: str, made_by: str) -> Path:
        settings = {"batch_size": self.batch, **({"made_by": made_by} if backend == "triton" else {})}
        inputs = {"model": str(self.model)}
        return build(self.folder, "Engine", self.benchmark, backend=backend, settings=settings, inputs=inputs)

    def offline(self, backend: str, engine: Path, count: int, instances: int) -> float:
        """``instances``: of the server; without it, the number of streams."""
        through = {"streams": 2 * instances, "instances": instances}
        streams = through if backend == "triton" else {"streams": instances}
        settings = {"batch_size": self.batch, "threads": THREADS, **streams}
        own = {"benchmark": self.benchmark, "dataset": self.dataset, "engine": engine}
        return offline_rate(self.folder, count, backend=backend, settings=settings, **own)


def measure(name: str, case: Case, made_by: str, instances: int, rounds: int) -> Measure:
    plain, served = case.engine(made_by, made_by), case.engine("triton", made_by)
    count = max(8 * case.batch, round(case.offline(made_by, plain, 64 * case.batch, instances) * SECONDS))
    pair = {
        "bare": lambda: case.offline(made_by, plain, count, instances),
        "harness": lambda: case.offline("triton", served, count, instances),
    }
    what = f"{name} Offline through Triton, {made_by}, {instances} instance{'s' if instances > 1 else ''}"
    return compare(what, pair, rounds, 0.9)


def make_resnet(folder: Path) -> Case:
    return Case(folder, Benchmark(name="resnet50", path=str(Path(__file__).parent / "resnet50.py")), 8, None, None)


def make_rehearsal(folder: Path) -> Case:
    facts = load_benchmark_facts()["resnet50"]
    made = generate(folder, facts, size="small", seed=1, samples=0, moved=lambda *_: None)
    return Case(folder, Benchmark(name="resnet50"), 4, folder / made.data, folder / made.model)


CASES: dict[str, Callable[[Path], Case]] = {"resnet": make_resnet, "rehearsal": make_rehearsal}


def main() -> int:
    options = arguments(__doc__ or "")
    if find_program("") is None:
        print("there is no tritonserver: pip install --no-deps nvidia-pytriton")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        measures = []
        for name, make in CASES.items():
            if options.only in name:
                case = make(Path(folder))
                measures += [measure(name, case, made_by, 1, options.rounds) for made_by in MADE_BY]
    return report("triton", measures, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
