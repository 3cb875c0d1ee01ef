"""Measure BERT-Large without padding on the PyTorch backend: ``python -m tests.gpu.bert_packed [--size S] [--precision
P] [--only PART,…] [--json FILE]``.

Questions, ONNX file and calibration list are read by the benchmark's own code. Weights are random, and texts are
generated with the lengths of the published set (tests.gpu.bert_texts).

- outputs: the engine's answers compared with the ONNX file in fp32 on the CPU.
- bare: samples/s of the bare engine with its input in device memory, and a breakdown of its time.
- offline: LoadGen's Offline relative to bare, in $REPEATS runs of at least $SECONDS.
- server: the highest rate that is VALID within the round's 130 ms.
- accuracy: F1 of a small trained network (tests.gpu.bert_trained), in fp32 and on this engine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.bert.network import NetworkSize, draw_weights, write_network
from harness.benchmarks.bert.rehearsal import MODEL
from harness.benchmarks.bert.squad import COUNT, INPUTS
from harness.benchmarks.network_builder import NetworkSession
from harness.contract import TELEMETRY, Benchmark, ScoreRequest
from tests.benchmarks.children import bare, build, child, read_detail, write_conf
from tests.gpu.bert_texts import FIRST, WORDS, write_texts
from tests.gpu.cases import WORK
from tests.gpu.parts import Figures, add_options, measure_parts
from tests.gpu.searching import find_highest
from tests.requests import make_run_request

BOUND, GOAL, PUBLISHED = 130, 6500, {"H100": (9110, 7366), "H200": (9224, 7261)}
SECONDS = float(os.environ.get("SECONDS", "62"))
COMPARED = 16


class PackedSize(NamedTuple):
    """``samples``, ``tokens``: maximum per batch, the second value for Server, with the queue's delay."""

    backend: str
    network: NetworkSize
    questions: int
    samples: tuple[int, int]
    tokens: tuple[int, int]
    delay: int


SIZES = {
    "true": PackedSize("pytorch-cuda", NetworkSize(24, 1024, 4096), COUNT, (640, 256), (98_304, 24_576), 0),
    "small": PackedSize("pytorch", NetworkSize(2, 128, 512), 128, (16, 8), (2048, 1024), 0),
}


class PackedCase:
    def __init__(self, size: str, precision: str, folder: str = "") -> None:
        self.size, self.precision = SIZES[size], precision
        self.folder = WORK / f"bert-packed-{size}-{precision}{folder}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.benchmark = Benchmark(name="bert")

    def write_texts(self, folder: Path) -> None:
        write_texts(folder, self.size.questions)

    def write_network(self, path: Path) -> None:
        avoided = [number < FIRST for number in range(WORDS)]
        write_network(path, draw_weights(np.random.default_rng(1), avoided, self.size.network))

    @cached_property
    def network(self) -> Path:
        path = self.folder / MODEL
        if not path.exists():
            self.write_network(path)
        return path

    @cached_property
    def dataset(self) -> Path:
        texts = self.folder / "texts"
        if not texts.exists():
            texts.mkdir()
            self.write_texts(texts)
        return self._built("Dataset", source=str(texts))

    @cached_property
    def engine(self) -> Path:
        settings = {"format": "pt2"} | ({"precision": "fp8"} if self.precision == "fp8" else {})
        inputs = {"dataset": str(self.dataset)}
        model = self._built("Model", settings=settings, source=str(self.network), inputs=inputs)
        wanted = {"precision": self.precision, "batch_size": max(self.size.samples)}
        return self._built("Engine", backend=self.size.backend, settings=wanted, inputs={"model": str(model)})

    def _built(self, kind: str, **request: Any) -> Path:
        """Build an artifact once per folder."""
        path = self.folder / kind.lower()
        if not path.exists():
            build(self.folder, kind, self.benchmark, **request).rename(path)
        return path

    def run(self, scenario: Any, mode: Any, conf: dict[str, int | float], **settings: Any) -> tuple[Path, Figures]:
        """Return the folder of the logs, and the detail log with telemetry, seconds and samples."""
        place = self.folder / f"run-{len(list(self.folder.glob('run-*')))}"
        place.mkdir()
        write_conf(place / "user.conf", scenario, conf)
        request = make_run_request(
            place,
            benchmark=self.benchmark,
            backend=self.size.backend,
            scenario=scenario,
            mode=mode,
            model_key="bert",
            settings=settings,
            inputs={"dataset": str(self.dataset), "engine": str(self.engine)},
        )
        facts = child(request, place).facts
        reported = {name: fact.value for name, fact in facts.items() if name.startswith(("telemetry.", "backend."))}
        return place, read_detail(place) | reported

    def answer_all(self) -> Path:
        """Return the log of an accuracy run."""
        settings = {"batch_size": self.size.samples[0], "tokens": self.size.tokens[0]}
        place, _ = self.run("Offline", "accuracy", {"min_duration": 0, "target_qps": 1}, **settings)
        return place / "mlperf_log_accuracy.json"

    def score(self, log: Path) -> Figures:
        output = log.parent / "score"
        output.mkdir()
        inputs = {"dataset": str(self.dataset)}
        request = ScoreRequest(
            benchmark=self.benchmark,
            accuracy_log=str(log),
            output=str(output),
            counter=str(output / "counter"),
            inputs=inputs,
        )
        return dict(child(request, output).values["metrics"])


def compare_outputs(case: PackedCase, _known: Figures) -> Figures:
    """Return the distance of the logits of real tokens, relative to the norm of the exact ones."""
    log = read_accuracy_log(case.answer_all())
    answers = {
        int(index): np.frombuffer(data, np.float32).reshape(-1, 2)
        for index, data in zip(log.indices, log.data, strict=True)
    }
    samples = {name: np.load(case.dataset / f"{name}.npy", mmap_mode="r") for name in INPUTS}
    session = NetworkSession(case.network)
    far = exact = 0.0
    worst = 0.0
    spread = []
    for row in range(COMPARED):
        feed = {name: np.asarray(array[row : row + 1]) for name, array in samples.items()}
        wanted = np.stack(session.compute(feed), axis=-1)[0][: int(feed["input_mask"].sum())]
        found = answers[row][: len(wanted)]
        far += float(np.square(found - wanted).sum())
        exact += float(np.square(wanted).sum())
        worst = max(worst, float(np.abs(found - wanted).max()))
        spread.append(float(wanted.std()))
    return {
        "samples": len(answers),
        "compared": COMPARED,
        "relative_error": round((far / exact) ** 0.5, 5),
        "largest_difference": round(worst, 4),
        "deviation_of_exact": round(statistics.mean(spread), 4),
    }


def measure_bare(case: PackedCase, known: Figures) -> Figures:
    reported = {
        "engine": str(case.engine),
        "packing": "bert",
        "samples": {name: str(case.dataset / f"{name}.npy") for name in INPUTS},
        "batch": case.size.samples[0],
        "tokens": case.size.tokens[0],
        "seconds": min(SECONDS, 20),
        "profile": True,
    }
    found = bare("rate", reported, case.folder, "tests.gpu.bare_packed")
    known["bare"] = float(found["rate"])
    return found


def measure_offline(case: PackedCase, known: Figures) -> Figures:
    runs = []
    expected = known.get("bare", 0.0)
    for _ in range(int(os.environ.get("REPEATS", "3"))):
        count = max(case.size.questions, round(expected * SECONDS * 1.02))
        conf = {"min_duration": round(1000 * min(SECONDS, 60)), "min_query_count": count, "target_qps": 1}
        if not expected:
            conf["min_duration"] = 0
        settings = {"batch_size": case.size.samples[0], "tokens": case.size.tokens[0]}
        place, log = case.run("Offline", "performance", conf, **settings)
        runs.append(describe_run(place, log, count))
    rates = [run["rate"] for run in runs]
    known["offline"] = statistics.median(rates)
    found: Figures = {
        "rate": known["offline"],
        "spread": round((max(rates) - min(rates)) / known["offline"], 4),
        "runs": runs,
    }
    if expected:
        found["over_bare"] = round(known["offline"] / expected, 4)
    return found | {"goal": GOAL, "published": PUBLISHED}


def describe_run(place: Path, log: Figures, count: int) -> Figures:
    """Describe a run of Offline with ``count`` samples, and print it."""
    rate = float(log["result_samples_per_second"])
    readings = [json.loads(line) for line in (place / TELEMETRY).read_text(encoding="utf-8").splitlines()]
    found = {
        "rate": rate,
        "verdict": log["result_validity"],
        "samples": count,
        "last_third_over_mean": find_last_third(readings, rate),
        "telemetry": {name: value for name, value in log.items() if name.startswith("telemetry.")},
        "backend": {name: value for name, value in log.items() if name.startswith("backend.")},
    }
    print(json.dumps(found), flush=True)
    return found


def find_last_third(readings: list[Figures], rate: float) -> float:
    """Return samples/s of the last third of a run, relative to those of the complete run."""
    seen = [(line["seconds"], line["done"]) for line in readings if line.get("done")]
    if len(seen) < 6:
        return 0.0
    first, last = seen[-1 - len(seen) // 3], seen[-1]
    return round(float((last[1] - first[1]) / (last[0] - first[0]) / rate), 4)


def serve(case: PackedCase, rate: float, seconds: float) -> Figures:
    conf = {"min_duration": round(1000 * seconds), "min_query_count": 1000, "target_qps": round(rate, 1)}
    conf |= {"target_latency": BOUND, "coalesce_queries": 1}
    settings = {"batch_size": case.size.samples[1], "tokens": case.size.tokens[1], "queue_delay_us": case.size.delay}
    _, log = case.run("Server", "performance", conf, **settings)
    return {
        "target_qps": round(rate, 1),
        "verdict": log["result_validity"],
        "completed": log["result_completed_samples_per_sec"],
        "p50_ms": log["result_50.00_percentile_latency_ns"] / 1e6,
        "p99_ms": log["result_99.00_percentile_latency_ns"] / 1e6,
        "seconds": seconds,
        "joules": log.get("telemetry.gpu.joules_per_sample_unofficial"),
    }


def measure_server(case: PackedCase, known: Figures) -> Figures:
    return find_highest(
        partial(serve, case), known["offline"], seconds=10, confirming=float(os.environ.get("CONFIRM", "60"))
    )


class TrainedCase(PackedCase):
    """A small network trained to find answers, and texts that contain them."""

    def __init__(self, size: str, precision: str) -> None:
        super().__init__(size, precision, "-trained")
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.trained: Figures = {}

    def write_texts(self, folder: Path) -> None:
        from tests.gpu.bert_trained import write_questions

        write_questions(folder, 600)

    def write_network(self, path: Path) -> None:
        from tests.gpu.bert_trained import train_network

        self.trained = train_network(path, seconds=float(os.environ.get("TRAINED", "90")))


def measure_accuracy(case: PackedCase, _known: Figures) -> Figures:
    from tests.gpu.bert_trained import score_exactly

    small = TrainedCase(next(name for name, size in SIZES.items() if size == case.size), case.precision)
    exact = score_exactly(small.dataset, small.network)
    found = small.score(small.answer_all())
    return {
        "trained": small.trained,
        "fp32": exact,
        case.precision: found,
        "ratio": round(found["f1"] / max(exact["f1"], 1e-9), 5),
        "goal": 0.99,
    }


PARTS: dict[str, Callable[[PackedCase, Figures], Figures]] = {
    "outputs": compare_outputs,
    "bare": measure_bare,
    "offline": measure_offline,
    "server": measure_server,
    "accuracy": measure_accuracy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="true")
    parser.add_argument("--precision", default="fp8")
    add_options(parser, PARTS, PARTS)
    options = parser.parse_args()
    case, known = PackedCase(options.size, options.precision), Figures()
    parts = {name: partial(part, case, known) for name, part in PARTS.items()}
    measure_parts("tests.gpu.bert_packed", f"bert-packed-{options.size}-{options.precision}", parts, options)


if __name__ == "__main__":
    main()
