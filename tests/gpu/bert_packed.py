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
from harness.contract import Benchmark, ScoreRequest
from tests.benchmarks.children import bare, build, child, run
from tests.gpu.bert_texts import FIRST, WORDS, write_texts
from tests.gpu.cases import WORK
from tests.gpu.parts import SECONDS, Figures, make_parser, measure_parts, repeat_offline, serve
from tests.gpu.searching import find_highest

BOUND, GOAL, PUBLISHED = 130, 6500, {"H100": (9110, 7366), "H200": (9224, 7261)}
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

    def run(self, scenario: Any, conf: dict[str, int | float], mode: Any = "performance") -> Figures:
        server = scenario == "Server"
        settings = {"batch_size": self.size.samples[server], "tokens": self.size.tokens[server]}
        if server:
            settings["queue_delay_us"] = self.size.delay
        return run(
            self.folder,
            scenario,
            benchmark=self.benchmark,
            backend=self.size.backend,
            dataset=self.dataset,
            engine=self.engine,
            model_key="bert",
            conf=conf,
            settings=settings,
            mode=mode,
        )

    def answer_all(self) -> Path:
        """Return the log of an accuracy run."""
        log = self.run("Offline", {"min_duration": 0, "target_qps": 1}, "accuracy")
        return Path(log["folder"], "mlperf_log_accuracy.json")

    def score(self, log: Path) -> Figures:
        output = log.parent / "score"
        output.mkdir()
        request = ScoreRequest(
            benchmark=self.benchmark,
            accuracy_log=str(log),
            output=str(output),
            counter=str(output / "counter"),
            inputs={"dataset": str(self.dataset)},
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
    expected = known.get("bare", 0.0)
    count = max(case.size.questions, round(expected * SECONDS * 1.02))
    stated = {"goal": GOAL, "published": PUBLISHED}
    offline = partial(case.run, "Offline")
    found = repeat_offline(offline, count, lasting=bool(expected), over={"over_bare": expected}, stated=stated)
    known["offline"] = found["rate"]
    return found


def measure_server(case: PackedCase, known: Figures) -> Figures:
    way = partial(serve, partial(case.run, "Server"), BOUND)
    return find_highest(way, known["offline"], seconds=10, confirming=float(os.environ.get("CONFIRM", "60")))


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
    parser = make_parser(__doc__, PARTS, PARTS)
    parser.add_argument("--size", choices=SIZES, default="true")
    parser.add_argument("--precision", default="fp8")
    options = parser.parse_args()
    title, case = f"bert-packed-{options.size}-{options.precision}", PackedCase(options.size, options.precision)
    measure_parts("tests.gpu.bert_packed", title, PARTS, options, case, Figures())


if __name__ == "__main__":
    main()
