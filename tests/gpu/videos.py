"""Measure Wan 2.2 through diffusers: ``python -m tests.gpu.videos [--size full] [--steps N] [--only PART,…] [--json
FILE]``.

The published shape with random weights, bf16, 81 frames of 1280 x 720; prompts of random tokens. Two networks of 14B
and the text encoder take 64 GiB, which fills a GPU of 80 GB.

- offline: LoadGen's Offline samples/s through the ``diffusers`` backend, relative to a plain loop of the library (same
  pipeline, batch, steps and compilation) in one process before and one after it.
- sustained: LoadGen's Offline in $REPEATS runs of at least $SECONDS; --offline is the expected rate.
- single: the 90th percentile of LoadGen's SingleStream, in seconds per video.

The round's 20 steps take minutes per video. --steps 2 compares harness and loop just as well in a tenth of the time,
and --frames 41 in a third.
Needs the packages of tests/gpu/images-packages.txt and PyTorch; ``--size small --device cpu`` runs on any machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from harness.benchmarks.wan_2_2.rehearsal import SHAPES
from tests.gpu import video_prompts
from tests.gpu.images import ImageCase, measure_offline, measure_sustained
from tests.gpu.parts import Figures, add_options, measure_parts

WORDS = 256_300  # tokens of UMT5, without its last ones
FEWEST = 300  # tokens of a small encoder


class VideoCase(ImageCase):
    """A shape with its prompts, and a folder with a pipeline without weights."""

    what, code, plain, model_key = "videos", video_prompts, "tests.gpu.bare_videos", "wan-2.2-t2v-a14b"
    shapes = SHAPES
    wanted: ClassVar[Figures] = {"published": {"H200": 0.0181 / 8}}

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        if options.frames:
            self.shape = replace(self.shape, frames=options.frames)

    def describe_dataset(self) -> Figures:
        words = min(WORDS, self.shape.describe_encoder(FEWEST)["vocab_size"])
        return {"count": 8 * self.options.batch, "words": words, "latents": list(self.shape.latents)}

    def describe_model(self) -> dict[str, dict[str, Any]]:
        parts = self.shape.parts
        return {
            "model_index.json": {"_class_name": "WanPipeline"},
            "transformer/config.json": parts["transformer"],
            "transformer_2/config.json": parts["transformer"],
            "vae/config.json": parts["vae"],
            "text_encoder/config.json": self.shape.describe_encoder(FEWEST),
            "scheduler/scheduler_config.json": {"_class_name": "UniPCMultistepScheduler", **parts["scheduler"]},
        }

    def single(self) -> float:
        conf = {"min_duration": 0, "min_query_count": self.options.batches, "max_query_count": self.options.batches}
        log = self.measure("SingleStream", conf, batch_size=1)
        return float(log["result_90.00_percentile_latency_ns"]) / 1e9


def measure_single(case: VideoCase) -> Figures:
    return {"p90_s": round(case.single(), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SHAPES, default="full")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--batches", type=int, default=2, help="that are timed")
    parser.add_argument("--steps", type=int, default=video_prompts.PIPELINE["steps"])
    parser.add_argument("--frames", type=int, default=0, help="of a video: 4 n + 1; 0 for the size's own")
    parser.add_argument("--offline", type=float, default=0.0, help="Offline samples/s, where they are known")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--compile", default="none", help="none, default, reduce-overhead, max-autotune")
    parts: dict[str, Callable[[VideoCase, Figures], Figures]] = {
        "offline": measure_offline,
        "sustained": measure_sustained,
        "single": lambda case, _: measure_single(case),
    }
    add_options(parser, parts, ("offline",))
    options = parser.parse_args()
    options.channels_last = False
    case, known = VideoCase(options), Figures()
    bound = {name: partial(part, case, known) for name, part in parts.items()}
    measure_parts("tests.gpu.videos", f"videos-{options.size}", bound, options)


if __name__ == "__main__":
    main()
