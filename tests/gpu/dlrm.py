"""DLRM-DCNv2 by the PyTorch backend: ``python -m tests.gpu.dlrm [--size S] [--only PART,…] [--json FILE]``.

The benchmark's own reading of the day, of the checkpoint and of a sample's pairs, with random weights; layers as the
reference has them, tables cut to ``rows`` each. A batch is one of pairs, and so is what the bare engine computes.

- offline: pairs/s of LoadGen's Offline over those of the engine alone, whose input stays in device memory.
- server: the highest rate that is VALID within the round's 60 ms, over Offline.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.dlrm_v2.criteo import DENSE_FILE, LABELS_FILE, SPARSE_FILE
from harness.benchmarks.dlrm_v2.grouping import SIZES, group_pairs
from harness.benchmarks.dlrm_v2.layers import Shape
from harness.benchmarks.dlrm_v2.pairs import DENSE, MULTI_HOT, TABLE_ROWS
from harness.benchmarks.dlrm_v2.random_checkpoint import draw_weights, write_checkpoint
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Benchmark
from tests.benchmarks.children import bare, build, offline_rate, run
from tests.gpu.cases import WORK
from tests.gpu.parts import Figures, add_options, measure_parts
from tests.gpu.searching import find_highest

BOUND, SECONDS = 60, 6.0


@dataclass(frozen=True)
class DlrmSize:
    """``rows``: of a table at most. ``samples``: that are generated. ``batch``: pairs."""

    backend: str
    rows: int
    samples: int
    batch: int
    precision: str
    layers: Figures = field(default_factory=dict)


SIZES_BY_NAME = {
    "true": DlrmSize("pytorch-cuda", 400_000, 4096, 65_536, "fp16"),
    "small": DlrmSize(
        "pytorch", 100, 64, 1024, "fp32", {"width": 8, "bottom": (32, 16, 8), "rank": 16, "top": (64, 32, 16, 8, 1)}
    ),
}


class DlrmCase:
    def __init__(self, name: str) -> None:
        self.size = SIZES_BY_NAME[name]
        self.folder = WORK / f"dlrm-{name}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.benchmark = Benchmark(name="dlrm_v2")
        self.shape = Shape(rows=tuple(min(rows, self.size.rows) for rows in TABLE_ROWS), **self.size.layers)

    @cached_property
    def dataset(self) -> Path:
        day = self.folder / "day"
        day.mkdir()
        rng = np.random.default_rng(1)
        pairs = int(group_pairs(self.size.samples * max(SIZES))[self.size.samples])
        np.save(day / DENSE_FILE, rng.random((2 * pairs, DENSE), np.float32))
        np.save(day / LABELS_FILE, rng.integers(0, 2, (2 * pairs, 1), np.int32))
        values = {
            str(number): rng.integers(0, rows, (2 * pairs, count), np.int32)
            for number, (rows, count) in enumerate(zip(self.shape.rows, MULTI_HOT, strict=True))
        }
        np.savez(day / SPARSE_FILE, **values)  # type: ignore[arg-type]  # its stub takes the names for options
        (day / REHEARSAL).write_text("{}", encoding="ascii")
        settings = {"dtype": "float16", "count": self.size.samples} if self.size.precision == "fp16" else {}
        return self._build("Dataset", settings=settings, source=str(day))

    @cached_property
    def engine(self) -> Path:
        checkpoint = self.folder / "checkpoint"
        checkpoint.mkdir()
        write_checkpoint(checkpoint, draw_weights(np.random.default_rng(1), self.shape))
        model = self._build("Model", settings={"format": "pt2"}, source=str(checkpoint))
        settings = {"precision": self.size.precision, "batch_size": self.size.batch}
        settings |= {"half_inputs": True} if self.size.precision == "fp16" else {}
        return self._build("Engine", backend=self.size.backend, settings=settings, inputs={"model": str(model)})

    def _build(self, kind: str, **request: Any) -> Path:
        return build(self.folder, kind, self.benchmark, **request)

    @property
    def pairs(self) -> float:
        """Of a sample, on average."""
        bounds = np.load(self.dataset / "bounds.npy")
        return float(bounds[-1] / (len(bounds) - 1))

    def bare(self) -> float:
        """Pairs/s of the engine alone."""
        samples = {name: str(self.dataset / f"{name}.npy") for name in ("dense", "sparse")}
        told = {"engine": str(self.engine), "backend": self.size.backend, "samples": samples, "batch": self.size.batch}
        told |= {"seconds": SECONDS}
        return float(bare("rate", told, WORK, "tests.gpu.bare")["rate"])

    def asked(self, **settings: Any) -> Figures:
        return {
            "benchmark": self.benchmark,
            "backend": self.size.backend,
            "dataset": self.dataset,
            "engine": self.engine,
            "model_key": "dlrm-v2",
            "settings": {"batch_size": self.size.batch, **settings},
        }

    def serve(self, rate: float, seconds: float) -> Figures:
        conf = {"min_duration": round(1000 * seconds), "min_query_count": 1000, "target_qps": rate}
        conf |= {"target_latency": BOUND, "coalesce_queries": 1}
        log = run(self.folder, "Server", conf=conf, **self.asked(streams=2))
        return {
            "target_qps": round(rate, 1),
            "verdict": log["result_validity"],
            "completed": log["result_completed_samples_per_sec"],
            "p99_ms": log["result_99.00_percentile_latency_ns"] / 1e6,
        }


def measure_offline(case: DlrmCase, known: Figures) -> Figures:
    bare = case.bare() if case.size.backend == "pytorch-cuda" else 0.0
    count = max(case.size.samples, round(bare / case.pairs * SECONDS / 2))
    rates = [offline_rate(case.folder, count, **case.asked(streams=streams)) for streams in (1, 2, 2)]
    known["offline"] = max(rates)
    found: Figures = {"samples": count, "pairs_of_a_sample": round(case.pairs, 1), "rates": rates}
    if bare:
        found |= {"bare_pairs": bare, "bare": bare / case.pairs, "over_bare": round(max(rates) * case.pairs / bare, 4)}
    return found


def measure_server(case: DlrmCase, known: Figures) -> Figures:
    return find_highest(case.serve, known["offline"], seconds=10, confirming=30)


PARTS: dict[str, Callable[[DlrmCase, Figures], Figures]] = {"offline": measure_offline, "server": measure_server}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES_BY_NAME, default="true")
    add_options(parser, PARTS, PARTS)
    options = parser.parse_args()
    case, known = DlrmCase(options.size), Figures()
    parts = {name: partial(part, case, known) for name, part in PARTS.items()}
    measure_parts("tests.gpu.dlrm", f"dlrm-v2-{options.size}", parts, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
