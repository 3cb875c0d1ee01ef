"""ResNet-50 v1.5 on the validation images of ImageNet 2012: top-1 of one class per image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark
from harness.benchmarks.images import decode_image, make_jpeg_rule, prepare_images
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    is_below,
    is_rehearsal,
    read_list,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError

# Preprocessing equals vision/classification_and_detection/python/dataset.py (pre_process_vgg) of mlcommons/inference
# bit for bit: decode, resize the short side to 256 by area, crop the middle 224 x 224, subtract the channel means.
# Calibration images are those of its calibration/ImageNet/cal_image_list_option_1.txt.

SIDE = 224
SHORT_SIDE = 256  # 224 is 87.5 % of it
MEANS = np.array([123.68, 116.78, 103.94], np.float32)  # red, green, blue
COUNT = 50_000
MAP = "val_map.txt"
_IMAGES = "ILSVRC2012_val_*"
_AGAIN = "unpack ILSVRC2012_img_val.tar again"
_MAP_AGAIN = f"`reconcile fetch resnet50` downloads {MAP} after you remove the wrong one"


class Labelled(NamedTuple):
    """A line of the map: a file below the dataset's folder, and its class."""

    name: str
    label: int


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write samples.npy [count, 3, 224, 224] and labels.npy int64 [count] in the order of the map; calibration.npy
    likewise. All files on disk are checked before the first image is prepared."""
    source = require_source(source, "ImageNet's images")
    listed = read_map(source / MAP)
    check_files(source, [FileRule(MAP)], fix=_MAP_AGAIN)
    wanted = int(settings.get("count", 0))
    if not wanted and len(listed) != COUNT and not is_rehearsal(source):
        fix = f"complete {MAP}, or set dataset.settings.count to use fewer in the open division"
        raise HarnessError(f"{source / MAP} lists {len(listed)} images, ImageNet 2012 has {COUNT}", "input", fix)
    chosen = listed[: choose_count(settings, len(listed))]
    calibration = [item for item in read_list("resnet50", "calibration.txt") if (source / item).is_file()]
    named = [*(item.name for item in chosen), *calibration]
    whole = len(listed) == COUNT and not wanted
    check_files(
        source,
        [make_jpeg_rule(name) for name in dict.fromkeys(named)],
        only=_IMAGES if whole else "",
        fix=f"{_AGAIN}; nothing was prepared",
    )
    images = [item.name for item in chosen]
    prepare_images(source, images, calibration, output, preprocess, (3, SIDE, SIDE), settings, counter)
    np.save(output / "labels.npy", np.array([item.label for item in chosen], np.int64))


def read_map(path: Path) -> list[Labelled]:
    """Read the map. Raises HarnessError for a line that is not a file and a class."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # Windows editors add a mark to saved files
    except OSError as error:
        fix = f"`reconcile fetch resnet50` downloads {MAP}: one line per image, with file and class"
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    except ValueError as error:
        raise HarnessError(f"{path}: not a text file", "input", _MAP_AGAIN) from error
    listed = [_parse_line(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    names = {item.name for item in listed}
    if not listed or len(names) != len(listed):
        twice = len(listed) - len(names)
        what = f"names {twice} image{'' if twice == 1 else 's'} twice" if listed else "names no image"
        raise HarnessError(f"{path} {what}", "input", _MAP_AGAIN)
    return listed


def _parse_line(line: str, where: str) -> Labelled:
    words = line.split()
    if len(words) != 2 or not words[1].isascii() or not words[1].isdigit() or int(words[1]) > 999:
        raise HarnessError(f"{where}: {line!r} is not a file and a class of 0 to 999", "input", _MAP_AGAIN)
    if not is_below(words[0]):
        raise HarnessError(f"{where}: {words[0]} is not a path below the dataset's folder", "input", _MAP_AGAIN)
    return Labelled(words[0], int(words[1]))


def preprocess(path: Path) -> NDArray[np.float32]:
    """Convert an image file to float32 [3, 224, 224], red first, means subtracted. Raises HarnessError."""
    rgb = cv2.cvtColor(decode_image(path, fix=_AGAIN), cv2.COLOR_BGR2RGB)
    height, width = rgb.shape[:2]
    size = (SHORT_SIDE, SHORT_SIDE * height // width) if height > width else (SHORT_SIDE * width // height, SHORT_SIDE)
    small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    top, left = (small.shape[0] - SIDE) // 2, (small.shape[1] - SIDE) // 2
    crop = small[top : top + SIDE, left : left + SIDE].astype(np.float32)
    prepared: NDArray[np.float32] = (crop - MEANS).transpose(2, 0, 1)
    return prepared


CLASSES = 1000
OUTPUTS = {"softmax_tensor:0": ((CLASSES + 1,), "float32")}


def postprocess(outputs: Outputs) -> np.ndarray:
    """Convert classes [n], or scores [n, classes], from the model's first output to int32 [n].

    The reference's network has a background class before the thousand, which its official answers omit. A network with
    1000 scores has none.
    """
    first = np.asarray(outputs[0])
    if np.issubdtype(first.dtype, np.integer):
        return (first.reshape(len(first)) - 1).astype(np.int32)
    scores = first.reshape(len(first), -1)
    background = scores.shape[1] - CLASSES
    if background not in (0, 1):
        problem = f"the model returns {scores.shape[1]} scores per image, not {CLASSES} or {CLASSES + 1}"
        raise HarnessError(problem, "input", "use the reference's ResNet-50, or one that returns its classes first")
    classes: np.ndarray = scores.argmax(axis=1) - background
    return classes.astype(np.int32)


class Resnet50(TensorBenchmark):
    outputs = OUTPUTS
    build_dataset = staticmethod(build_dataset)
    postprocess = staticmethod(postprocess)


BENCHMARK = Resnet50()
