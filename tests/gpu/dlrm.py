"""Measure DLRM-DCNv2 on the PyTorch backend: ``python -m tests.gpu.dlrm [--size S] [--only PART,…] [--json FILE]``.

The day, the checkpoint and the pairs of samples are read by the benchmark's own code. Weights are random; layers are
the reference's, with tables cut to ``rows``. Batches consist of pairs, for the bare engine as well. ``true`` is in fp8
(fused operators), ``fp16`` is compiled by AOTInductor.

- outputs: the fp8 engine's probabilities compared with the fp32 program on the CPU.
- bare: pairs/s of the bare engine with its input in device memory, and a breakdown of its time; for fp8 also with
  tables of the reference's size.
- offline: samples/s of LoadGen's Offline relative to bare, in $REPEATS runs of at least $SECONDS.
- server: the highest rate that is VALID within the round's 60 ms, relative to Offline.
- accuracy: AUC of a small trained network (tests.gpu.dlrm_trained), in fp32 and in fp8.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks.dlrm_v2.checkpoint import draw_weights, write_checkpoint
from harness.benchmarks.dlrm_v2.criteo import DENSE_FILE, LABELS_FILE, SIZES, SPARSE_FILE, group_pairs
from harness.benchmarks.dlrm_v2.layers import DENSE, MULTI_HOT, TABLE_ROWS, Shape
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Benchmark
from tests.benchmarks.children import bare, build, child, read_detail, write_conf
from tests.gpu.bert_packed import describe_run
from tests.gpu.cases import WORK
from tests.gpu.parts import Figures, add_options, measure_parts
from tests.gpu.searching import find_highest
from tests.requests import make_run_request

BOUND, GOAL, PUBLISHED = 60, 55_000, {"H100": (75_264, 69_513), "H200": (80_983, 73_895)}
SECONDS = float(os.environ.get("SECONDS", "62"))
CALIBRATED = 16_384  # pairs: enough for random weights
COMPARED = 4096  # pairs


@dataclass(frozen=True)
class DlrmSize:
    """``rows``: maximum per table; ``samples``: generated samples; ``batch``: pairs."""

    backend: str
    rows: int
    samples: int
    batch: int
    precision: str
    layers: Figures = field(default_factory=dict)


SIZES_BY_NAME = {
    "true": DlrmSize("pytorch-cuda", 400_000, 4096, 65_536, "fp8"),
    "fp16": DlrmSize("pytorch-cuda", 400_000, 4096, 65_536, "fp16"),
    "small-fp8": DlrmSize(
        "pytorch", 100, 64, 2048, "fp8", {"width": 16, "bottom": (32, 16, 16), "rank": 16, "top": (64, 32, 16, 16, 1)}
    ),
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
        settings = {} if self.size.precision == "fp32" else {"dtype": "float16", "count": self.size.samples}
        return self._build("Dataset", settings=settings, source=str(day))

    @cached_property
    def model(self) -> Path:
        checkpoint = self.folder / "checkpoint"
        checkpoint.mkdir()
        write_checkpoint(checkpoint, draw_weights(np.random.default_rng(1), self.shape))
        settings: Figures = {"format": "pt2"}
        if self.size.precision == "fp8":
            settings |= {"precision": "fp8", "calibration_count": CALIBRATED, "compare_count": COMPARED}
        inputs = {"dataset": str(self.dataset)}
        return self._build("Model", settings=settings, source=str(checkpoint), inputs=inputs)

    @cached_property
    def engine(self) -> Path:
        settings = {"precision": self.size.precision, "batch_size": self.size.batch}
        settings |= {} if self.size.precision == "fp32" else {"half_inputs": True}
        return self._build("Engine", backend=self.size.backend, settings=settings, inputs={"model": str(self.model)})

    def _build(self, kind: str, **request: Any) -> Path:
        return build(self.folder, kind, self.benchmark, **request)

    @property
    def pairs(self) -> float:
        """The average number of pairs per sample."""
        bounds = np.load(self.dataset / "bounds.npy")
        return float(bounds[-1] / (len(bounds) - 1))

    def bare(self, seconds: float, **more: Any) -> Figures:
        """Measure the bare engine."""
        samples = {name: str(self.dataset / f"{name}.npy") for name in ("dense", "sparse")}
        reported = {
            "engine": str(self.engine),
            "backend": self.size.backend,
            "samples": samples,
            "batch": self.size.batch,
        }
        module = "tests.gpu.bare_fused" if self.size.precision == "fp8" else "tests.gpu.bare"
        return bare("rate", {**reported, "seconds": seconds, **more}, WORK, module)

    def run(self, scenario: Any, mode: Any, conf: dict[str, int | float], **settings: Any) -> tuple[Path, Figures]:
        """Return the folder of the logs, and the detail log with values of telemetry and backend."""
        place = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
        place.mkdir()
        write_conf(place / "user.conf", scenario, conf)
        request = make_run_request(
            place,
            benchmark=self.benchmark,
            backend=self.size.backend,
            scenario=scenario,
            mode=mode,
            model_key="dlrm-v2",
            settings={"batch_size": self.size.batch, **settings},
            inputs={"dataset": str(self.dataset), "engine": str(self.engine)},
        )
        facts = child(request, place).facts
        reported = {name: fact.value for name, fact in facts.items() if name.startswith(("telemetry.", "backend."))}
        return place, read_detail(place) | reported

    def serve(self, rate: float, seconds: float) -> Figures:
        conf = {"min_duration": round(1000 * seconds), "min_query_count": 1000, "target_qps": rate}
        conf |= {"target_latency": BOUND, "coalesce_queries": 1}
        batch = int(os.environ.get("SERVED", self.size.batch))
        _, log = self.run("Server", "performance", conf, batch_size=batch, streams=self.streams)
        return {
            "target_qps": round(rate, 1),
            "verdict": log["result_validity"],
            "completed": log["result_completed_samples_per_sec"],
            "p99_ms": log["result_99.00_percentile_latency_ns"] / 1e6,
            "seconds": seconds,
            "joules": log.get("telemetry.gpu.joules_per_sample_unofficial"),
        }

    @property
    def streams(self) -> int:
        """The number of streams. Kernels of fp8 occupy all multiprocessors, so a second stream's would wait."""
        return 1 if self.size.precision == "fp8" else 2


def compare_outputs(case: DlrmCase, _known: Figures) -> Figures:
    """Compare the fp8 engine's predictions, read from LoadGen's accuracy log, with the fp32 network on the CPU."""
    import torch

    from harness.benchmarks.accuracy import read_accuracy_log
    from harness.benchmarks.dlrm_v2.layers import OUTPUT
    from harness.benchmarks.dlrm_v2.program import DlrmDcn

    place, _ = case.run("Offline", "accuracy", {"min_duration": 0, "target_qps": 1}, streams=case.streams)
    log = read_accuracy_log(place / "mlperf_log_accuracy.json")
    bounds = np.load(case.dataset / "bounds.npy").tolist()
    weights = {
        name: torch.from_numpy(array) for name, array in draw_weights(np.random.default_rng(1), case.shape).items()
    }
    network = DlrmDcn(weights, case.shape)
    dense, sparse = (np.load(case.dataset / f"{name}.npy", mmap_mode="r") for name in ("dense", "sparse"))
    near, exact = [], []
    for index, data in list(zip(log.indices, log.data, strict=True))[:16]:
        first, last = bounds[int(index)], bounds[int(index) + 1]
        near.append(np.frombuffer(data, np.float32).reshape(-1, 2)[:, 0])
        with torch.no_grad():
            given = (
                torch.from_numpy(dense[first:last].astype(np.float32)),
                torch.from_numpy(np.array(sparse[first:last])),
            )
            exact.append(network(*given)[OUTPUT][:, 0].numpy())
    found, wanted = np.concatenate(near), np.concatenate(exact)
    logits = [np.log(np.clip(p, 1e-7, 1 - 1e-7) / (1 - np.clip(p, 1e-7, 1 - 1e-7))) for p in (found, wanted)]
    return {
        "samples": len(log.indices),
        "compared_pairs": len(wanted),
        "largest_difference": round(float(np.abs(found - wanted).max()), 4),
        "mean_difference": round(float(np.abs(found - wanted).mean()), 5),
        "relative_error_of_logits": round(float(np.linalg.norm(logits[0] - logits[1]) / np.linalg.norm(logits[1])), 4),
    }


def measure_bare(case: DlrmCase, known: Figures) -> Figures:
    if case.size.backend != "pytorch-cuda":
        return {}
    if case.size.precision != "fp8":
        found = case.bare(6)
        known["bare"] = found["rate"]
        return found
    found = case.bare(min(SECONDS, 10), profile=True)
    known["bare"] = found["rate"]
    whole = case.bare(min(SECONDS, 10), whole=True)
    return {
        **found,
        "samples_per_s": found["rate"] / case.pairs,
        "pairs_of_a_sample": case.pairs,
        "whole_tables": whole,
    }


def measure_offline(case: DlrmCase, known: Figures) -> Figures:
    bare = known.get("bare", 0.0) / case.pairs
    expected = bare or float(os.environ.get("EXPECTED", "0"))
    runs: list[Figures] = []
    for _ in range(int(os.environ.get("REPEATS", "3"))):
        count = max(case.size.samples, round(expected * SECONDS * 1.03))
        conf = {"min_duration": round(1000 * min(SECONDS, 60)) if expected else 0, "min_query_count": count}
        place, log = case.run("Offline", "performance", {**conf, "target_qps": 1}, streams=case.streams)
        runs.append(describe_run(place, log, count))
    rates = [one["rate"] for one in runs]
    known["offline"] = statistics.median(rates)
    found: Figures = {"rate": known["offline"], "spread": round((max(rates) - min(rates)) / known["offline"], 4)}
    if bare:
        found["over_bare"] = round(known["offline"] / bare, 4)
    return found | {"goal": GOAL, "published": PUBLISHED, "pairs_of_a_sample": case.pairs, "runs": runs}


def measure_server(case: DlrmCase, known: Figures) -> Figures:
    offline = known.get("offline") or float(os.environ["EXPECTED"])
    return find_highest(case.serve, offline, seconds=10, confirming=float(os.environ.get("CONFIRM", "60")))


def measure_accuracy(case: DlrmCase, _known: Figures) -> Figures:
    from tests.gpu.dlrm_trained import compare_precisions

    device = "cuda" if case.size.backend == "pytorch-cuda" else "cpu"
    return compare_precisions(float(os.environ.get("TRAINED", "60")), device)


PARTS: dict[str, Callable[[DlrmCase, Figures], Figures]] = {
    "outputs": compare_outputs,
    "bare": measure_bare,
    "offline": measure_offline,
    "server": measure_server,
    "accuracy": measure_accuracy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES_BY_NAME, default="true")
    add_options(parser, PARTS, ("bare", "offline", "server"))
    options = parser.parse_args()
    case, known = DlrmCase(options.size), Figures()
    parts = {name: partial(part, case, known) for name, part in PARTS.items()}
    measure_parts("tests.gpu.dlrm", f"dlrm-v2-{options.size}", parts, options)


if __name__ == "__main__":
    main()
