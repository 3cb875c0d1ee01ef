"""A dataset of images with annotations in COCO's format, as people have it on disk.

The annotation file says which images there are, and in which order they are the samples: the official accuracy scripts
take a sample's index as its place in that file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.checking import FileRule, check_files
from harness.benchmarks.detection.annotations import read_annotations, take_first
from harness.benchmarks.images import Preprocess, decode_image, make_jpeg_rule, prepare_images
from harness.benchmarks.sources import choose_count, choose_dtype, is_rehearsal, read_list, require_source
from harness.contract import Counter
from harness.errors import HarnessError

DTYPES = ("float32", "float16")
ANNOTATIONS = "annotations.json"  # of a prepared dataset: those of its images


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoLayout:
    """Layout of a published dataset below its folder. ``images`` and ``calibration`` are folders, the second "" where
    no list is published; ``count``: how many images the benchmark has; ``again``: how to get them once more."""

    annotations: str
    images: str
    calibration: str
    count: int
    again: str


def build_dataset(
    layout: CocoLayout,
    preprocess: Preprocess,
    side: int,
    benchmark: str,
    source: Path | None,
    settings: Mapping[str, Any],
    output: Path,
    counter: Counter,
) -> None:
    """samples.npy [count, 3, side, side] in the order of the annotations, annotations.json of those images, and
    calibration.npy of those images of the benchmark's official list that are there.

    ``settings``: dtype ("float32" or "float16"), count (the first so many images, all where it is absent), threads.
    Everything on disk is looked at before the first image is prepared.
    """
    dtype = choose_dtype(settings, DTYPES)
    source = require_source(source, "the images and their annotations")
    path = source / layout.annotations
    whole = read_annotations(path, layout.again)
    wanted = int(settings.get("count", 0))
    if not wanted and len(whole["images"]) != layout.count and not is_rehearsal(source):
        fix = f"{layout.again}, or set dataset.settings.count where fewer are wanted in the open division"
        found = f"{len(whole['images'])} images, the benchmark has {layout.count}"
        raise HarnessError(f"{path} names {found}", "input", fix)
    chosen = take_first(whole, choose_count(settings, len(whole["images"]))) if wanted else whole
    names = [f"{layout.images}/{image['file_name']}" for image in chosen["images"]]
    listed = read_list(benchmark, "calibration.txt") if layout.calibration else []
    calibration = [name for item in listed if (source / (name := f"{layout.calibration}/{item}")).is_file()]
    images = [make_jpeg_rule(name) for name in (*names, *calibration)]
    rules = [FileRule(layout.annotations), *images]
    only = "" if wanted else f"{layout.images}/*.jpg"
    check_files(source, rules, only=only, fix=f"{layout.again}; nothing was prepared")
    counter.stage("building", len(images))
    prepare = partial(
        prepare_images,
        preprocess=preprocess,
        shape=(3, side, side),
        dtype=dtype,
        threads=int(settings.get("threads", 0)),
        counter=counter,
    )
    prepare([source / name for name in names], output / "samples.npy")
    if calibration:
        prepare([source / name for name in calibration], output / "calibration.npy")
    (output / ANNOTATIONS).write_text(json.dumps(chosen), encoding="utf-8")


def read_scaled(path: Path, side: int, *, again: str) -> NDArray[np.float32]:
    """An image file -> float32 [side, side, 3], red first, 0 to 255, whatever its proportions were.

    As maybe_resize of vision/classification_and_detection/python/dataset.py of mlcommons/inference: the conversion to
    float comes first, so that what is between two pixels is not rounded.
    """
    pixels = decode_image(path, fix=again).astype(np.float32)
    rgb = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
    scaled: NDArray[np.float32] = cv2.resize(rgb, (side, side), interpolation=cv2.INTER_LINEAR)
    return scaled
