"""Measure the overhead of LoadGen and the harness over the engines of rehearsals: ``python -m
tests.benchmarks.rehearsed [--json] [--rounds N] [--only P]``. P: a part of a name, or complete names separated by
commas.

For each benchmark that can be rehearsed here, the data and network are generated and the engine is built. The figure is
samples/s of an Offline run, as in the rehearsal, relative to plain threads that call the same engine with the same
batch. With other load on the machine, samples/s mean little; therefore the detail has processor seconds of the plain
threads relative to those of the run, without those of a run of a single pass: loading, and LoadGen's start and end,
which no rate includes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import load_benchmark
from harness.contract import BENCHMARKS, Benchmark
from reconciler.observed.installed_backends import find_missing_libraries, list_installed
from reconciler.rehearse.rehearsal_spec import generate
from reconciler.rules.benchmark_facts import BenchmarkFacts, load_benchmark_facts
from tests.benchmarks.children import build, run, start
from tests.benchmarks.rounds import Measure, arguments, interleave, median, medians, report, spread

SECONDS = 3  # of each thread of the bare loop
OFFLINE = "Offline"


class Rehearsed:
    """A benchmark with its generated data, and its engine as the rehearsal declares it."""

    def __init__(self, folder: Path, facts: BenchmarkFacts) -> None:
        self.folder, self.benchmark = folder, Benchmark(name=facts.code)
        self.used: dict[str, list[float]] = {"bare": [], "LoadGen": []}
        made = generate(folder, facts, size="small", seed=1, samples=0, moved=lambda *_: None)
        self.data = folder / made.data
        assert facts.rehearsal is not None
        declared = facts.rehearsal.benchmark
        engine = dict(declared["engine"])
        self.backend, self.batch = engine.pop("backend"), engine["batch_size"]
        self.dataset = build(folder, "Dataset", self.benchmark, source=str(folder / made.data))
        inputs = {"dataset": str(self.dataset)}
        model = build(folder, "Model", self.benchmark, source=str(folder / made.model), inputs=inputs)
        inputs = {"model": str(model)}
        self.engine = build(folder, "Engine", self.benchmark, backend=self.backend, settings=engine, inputs=inputs)
        offline = facts.rehearsal.scenarios.get(OFFLINE, {})
        self.run = {"threads": 1, "streams": 1, **declared.get("run", {}), **offline.get("run", {})}
        loaded = load_benchmark(self.benchmark).load_samples(self.dataset)
        self.count = len(next(iter(loaded.values())))

    def count_passes(self) -> int:
        """Return the passes that make the bare loop long enough, by processor seconds, which depend less on other
        load."""
        passes, used = 2, 0.0
        while used < SECONDS / 10:
            passes *= 2
            used = self._run_bare(passes)["processor_seconds"]
        return max(2, int(np.ceil(passes * SECONDS * self.run["streams"] / used)))

    def bare(self, passes: int) -> float:
        reported = self._run_bare(passes)
        self.used["bare"].append(reported["processor_seconds"])
        return reported["rate"]

    def _run_bare(self, passes: int) -> dict[str, float]:
        settings: dict[str, Any] = {
            "benchmark": self.benchmark.name,
            "dataset": str(self.dataset),
            "engine": str(self.engine),
            "batch": self.batch,
            "passes": passes,
            **self.run,
        }
        reported: dict[str, float] = json.loads(
            start(["-m", "tests.benchmarks.bare_rehearsed", json.dumps(settings)], self.folder)
        )
        return reported

    def offline(self, passes: int) -> float:
        """Return samples/s. LoadGen requests all samples equally often, since they may differ in size."""
        count = passes * self.count
        conf = {"min_duration": 0, "min_query_count": count, "target_qps": 1, "sample_concatenate_permutation": 1}
        log = run(
            self.folder,
            OFFLINE,
            benchmark=self.benchmark,
            backend=self.backend,
            dataset=self.dataset,
            engine=self.engine,
            conf=conf,
            settings={"batch_size": self.batch, **self.run},
        )
        self.used["LoadGen"].append(log["telemetry.processor_seconds"])
        return float(log["result_samples_per_second"])


def measure(folder: Path, facts: BenchmarkFacts, rounds: int) -> Measure:
    case = Rehearsed(folder, facts)
    passes = case.count_passes()
    case.offline(1)
    start_and_end = case.used["LoadGen"].pop()
    measured = interleave({"bare": partial(case.bare, passes), "LoadGen": partial(case.offline, passes)}, rounds)
    used = [dict(zip(case.used, pair, strict=True)) for pair in zip(*case.used.values(), strict=True)]

    def ratio(item: dict[str, float]) -> float:
        return item["LoadGen"] / item["bare"]

    def saved(item: dict[str, float]) -> float:
        return item["bare"] * (passes - 1) / passes / (item["LoadGen"] - start_and_end)

    detail = f"{medians(measured)} samples/s, {spread(measured, ratio)}"
    detail += f"; processor {median(used, saved):.3f}, {spread(used, saved)}"
    return Measure(f"{facts.code} Offline, {case.backend}", median(measured, ratio), 0.98, detail=detail)


def is_batched(facts: BenchmarkFacts) -> bool:
    """Return True for engines of tokens, which batch by themselves: tests.benchmarks.tokens measures them."""
    return facts.rehearsal is not None and "batch_size" in facts.rehearsal.benchmark["engine"]


def is_chosen(code: str, only: str) -> bool:
    named = only.split(",")
    return code in named or (len(named) == 1 and only not in BENCHMARKS and only in code)


def main() -> int:
    options = arguments(__doc__ or "")
    known = load_benchmark_facts()
    if unknown := [name for name in options.only.split(",") if "," in options.only and name not in BENCHMARKS]:
        sys.exit(f"no benchmark is called {', '.join(unknown)}")
    installed, measures = list_installed(), []
    for code, entry in BENCHMARKS.items():
        facts = known.get(code)
        if facts is None or not is_chosen(code, options.only) or not is_batched(facts):
            continue
        backend = facts.rehearsal.benchmark["engine"]["backend"] if facts.rehearsal else ""
        missing = find_missing_libraries(entry, installed) or [backend] * (backend != "onnxruntime")
        if missing:
            print(f"{code} is left out: it needs {', '.join(missing)}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            measures.append(measure(Path(folder), facts, options.rounds))
        print(measures[-1], file=sys.stderr)
    return report("rehearsed", measures, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
