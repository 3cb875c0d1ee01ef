"""Measure Stable Diffusion XL through diffusers: ``python -m tests.gpu.images [--size full] [--only PART,…] [--json
FILE]``.

The published shape with random weights, 20 steps, 1024 x 1024; captions of random tokens; fp16, or the value of
--precision, such as fp8 with --compile default.

- error: the difference between the network's answer in bf16 and in fp8 and that of the same weights in fp32.
- painter: images/s of the backend's image worker without LoadGen, and a breakdown of a batch's time.
- sustained: LoadGen's Offline relative to painter, in $REPEATS runs of at least $SECONDS.
- offline: LoadGen's Offline samples/s through the ``diffusers`` backend, relative to a plain loop of the library (same
  pipeline, batch and compilation) in one process before and one after it.
- server: the highest rate that is VALID within the round's 20 s, relative to Offline.

Needs the packages of tests/gpu/images-packages.txt in addition to PyTorch. Results of torch.compile are stored in
$TORCHINDUCTOR_CACHE_DIR. ``--size small --device cpu`` runs everything on any machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from harness.benchmarks.stable_diffusion_xl.rehearsal import ENCODERS, SHAPES, describe_encoder
from harness.contract import TELEMETRY, Benchmark
from tests.benchmarks.children import bare, build, run
from tests.gpu import image_captions
from tests.gpu.bert_packed import find_last_third
from tests.gpu.cases import WORK
from tests.gpu.parts import Figures, add_options, measure_parts
from tests.gpu.searching import find_highest

BOUND = 20.0  # seconds, of Server
JUDGED = 459  # queries: the fewest that early stopping believes at the 99th percentile, none of them late
FIRST_SHARE, SHARE_STEP = 0.8, 0.06  # of Offline
SECONDS, CONFIRMING = 90.0, 150.0
VOCABULARY = 49_408


class ImageCase:
    """A shape with its captions, and a folder with a pipeline without weights. ``code``: a benchmark file; ``plain``:
    the module of the loop to compare with."""

    what, code, plain, model_key = "images", image_captions, "tests.gpu.bare_images", "stable-diffusion-xl"
    shapes: Mapping[str, Any] = SHAPES
    wanted: ClassVar[Figures] = {"goal": 1.9, "published": {"H100": (2.26, 2.23), "H200": (2.40, 2.30)}}

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.shape = options, self.shapes[options.size]
        self.folder = WORK / f"{self.what}-{options.size}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.benchmark = Benchmark(name=f"gpu_{self.what}", path=self.code.__file__)
        self.settings: Figures = {
            "precision": options.precision,
            "batch_size": options.batch,
            "device": options.device,
            "compile": options.compile,
            "channels_last": options.channels_last,
            "steps": options.steps,
            "random_weights": True,
        }

    @cached_property
    def dataset(self) -> Path:
        return build(self.folder, "Dataset", self.benchmark, settings=self.describe_dataset())

    def describe_dataset(self) -> Figures:
        return {"count": 8 * self.options.batch, "side": self.shape["vae"]["sample_size"]}

    def describe_model(self) -> dict[str, dict[str, Any]]:
        """Write the pipeline's configuration files."""
        return {
            "model_index.json": {"_class_name": "StableDiffusionXLPipeline"},
            **{f"{part}/config.json": self.shape[part] for part in ("unet", "vae")},
            **{f"{part}/config.json": describe_encoder(self.shape, part, VOCABULARY) for part in ENCODERS},
            "scheduler/scheduler_config.json": {"_class_name": "EulerDiscreteScheduler", **self.shape["scheduler"]},
        }

    @cached_property
    def model(self) -> Path:
        folder = self.folder / "checkpoint"
        for name, config in self.describe_model().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(json.dumps(config), encoding="ascii")
        return folder

    def bare(self) -> float:
        """Return samples/s of the plain loop after its warm-up."""
        reported = {
            **{name: self.settings[name] for name in ("precision", "device", "compile", "channels_last", "steps")},
            "model": str(self.model),
            "dataset": str(self.dataset),
            "batch": self.options.batch,
            "batches": self.options.batches,
        }
        return float(bare("rate", reported, self.folder, self.plain)["rate"])

    def measure(self, scenario: Any, conf: dict[str, int | float], **options: Any) -> Figures:
        return run(
            self.folder,
            scenario,
            benchmark=self.benchmark,
            backend="diffusers",
            dataset=self.dataset,
            model=self.model,
            model_key=self.model_key,
            conf=conf,
            settings={**self.settings, **options},
        )

    def offline(self) -> float:
        count = self.options.batch * self.options.batches
        conf = {"min_duration": 0, "min_query_count": count, "target_qps": 0.001}
        return float(self.measure("Offline", conf)["result_samples_per_second"])

    def serve(self, rate: float, seconds: float) -> Figures:
        conf = {"min_duration": int(1000 * seconds), "min_query_count": JUDGED, "target_qps": round(rate, 3)}
        log = self.measure("Server", conf, queue_delay_us=int(1e6 * self.options.delay))
        return {
            "target_qps": round(rate, 3),
            "verdict": log["result_validity"],
            "completed": round(log["result_completed_samples_per_sec"], 3),
            "p99_s": round(log["result_99.00_percentile_latency_ns"] / 1e9, 2),
        }


def measure_offline(case: ImageCase, known: Figures) -> Figures:
    before = case.bare()
    print(json.dumps({"bare": before}), flush=True)
    found = case.offline()
    print(json.dumps({"harness": found}), flush=True)
    after = case.bare()
    known["offline"] = found
    return {"bare": [before, after], "harness": found, "over_bare": round(found / max(before, after), 4)}


def measure_server(case: ImageCase, known: Figures) -> Figures:
    options = case.options
    found = find_highest(
        case.serve,
        known.get("offline") or options.offline or case.offline(),
        seconds=SECONDS,
        confirming=options.confirming,
        first=options.first,
        step=SHARE_STEP,
        resolution=SHARE_STEP,
    )
    return {**found, "bound_ms": int(1000 * BOUND)}


def ask_painter(program: str, case: ImageCase, **more: Any) -> Figures:
    names = ("precision", "device", "compile", "channels_last", "steps")
    reported = {**{name: case.settings[name] for name in names}, "model": str(case.model), "dataset": str(case.dataset)}
    reported |= {"batch": case.options.batch, "batches": case.options.batches, **more}
    return bare(program, reported, case.folder, "tests.gpu.bare_painter")


def measure_error(case: ImageCase, _known: Figures) -> Figures:
    return ask_painter("error", case)


def measure_kernels(case: ImageCase, _known: Figures) -> Figures:
    return ask_painter("kernels", case)


def measure_painter(case: ImageCase, known: Figures) -> Figures:
    found = ask_painter("rate", case, profile=True)
    known["painter"] = found["rate"]
    return found


def measure_sustained(case: ImageCase, known: Figures) -> Figures:
    seconds, batch = float(os.environ.get("SECONDS", "62")), case.options.batch
    runs: list[Figures] = []
    expected = known.get("painter") or case.options.offline
    for _ in range(int(os.environ.get("REPEATS", "3"))):
        count = batch * max(1, round(expected * seconds * 1.05 / batch))
        conf = {"min_duration": round(1000 * min(seconds, 60)) if expected else 0, "min_query_count": count}
        log = case.measure("Offline", {**conf, "target_qps": 0.001})
        rate = float(log["result_samples_per_second"])
        lines = Path(log["folder"], TELEMETRY).read_text(encoding="utf-8").splitlines()
        third = find_last_third([json.loads(line) for line in lines], rate)
        runs.append({"rate": rate, "verdict": log["result_validity"], "samples": count, "last_third_over_mean": third})
        runs[-1] |= {name: value for name, value in log.items() if name.startswith("telemetry.gpu")}
        print(json.dumps(runs[-1]), flush=True)
    rates = [one["rate"] for one in runs]
    known["offline"] = statistics.median(rates)
    found: Figures = {"rate": known["offline"], "spread": round((max(rates) - min(rates)) / known["offline"], 4)}
    if known.get("painter"):
        found["over_painter"] = round(known["offline"] / known["painter"], 4)
    return found | {**case.wanted, "runs": runs}


PARTS: dict[str, Callable[[ImageCase, Figures], Figures]] = {
    "error": measure_error,
    "kernels": measure_kernels,
    "painter": measure_painter,
    "sustained": measure_sustained,
    "offline": measure_offline,
    "server": measure_server,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SHAPES, default="full")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--batches", type=int, default=8, help="that are timed")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--compile", default="none", help="none, default, reduce-overhead, max-autotune")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--steps", type=int, default=image_captions.PIPELINE["steps"])
    parser.add_argument("--delay", type=float, default=1.0, help="seconds that a batch of Server waits to grow")
    parser.add_argument("--offline", type=float, default=0.0, help="Offline samples/s, where they are known")
    parser.add_argument("--first", type=float, default=FIRST_SHARE, help="share of Offline that Server tries first")
    parser.add_argument("--confirming", type=float, default=CONFIRMING, help="seconds of the run that confirms a rate")
    add_options(parser, PARTS, ("offline",))
    options = parser.parse_args()
    case, known = ImageCase(options), Figures()
    parts = {name: partial(part, case, known) for name, part in PARTS.items()}
    measure_parts("tests.gpu.images", f"images-{options.size}", parts, options)


if __name__ == "__main__":
    main()
