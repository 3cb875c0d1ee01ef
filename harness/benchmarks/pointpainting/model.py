"""The model: a folder with the networks as MLCommons publishes them, each made an engine's; the segmentation network
twice, for pictures ahead and to the sides.

The published split stays: painting and pillars lie between the networks, and are no part of them. What a picture is
multiplied with before the network is computed in its engine, so that pictures stay bytes until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.benchmarks.pointpainting.detecting import DETECTION, HEIGHTS, PARTS, WIDTH
from harness.contract import Counter
from harness.errors import HarnessError

SEGMENTATION_ONNX, DETECTION_ONNX = "deeplabv3+.onnx", "pp.onnx"
SEGMENTATION_WEIGHTS, DETECTION_WEIGHTS = "best_deeplabv3plus_resnet50_waymo_os16.pth", "pp_ep36.pth"
FORMATS = {"onnx": (SEGMENTATION_ONNX, DETECTION_ONNX), "pt2": (SEGMENTATION_WEIGHTS, DETECTION_WEIGHTS)}
SHAPES = ("free", "published")
FIX = "bring the published networks, as `reconcile fetch pointpainting` says, and name their folder as model.path"


def build_model(
    source: Path | None, settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """front, side and detection, a folder each with model.onnx or model.pt2.

    ``settings``: format, "onnx" from the ONNX files, or "pt2" from the checkpoints for the PyTorch backends; shapes,
    "free" or "published" for backends that want every size of the inputs to be known.
    """
    wanted, shapes = str(settings.get("format", "onnx")), str(settings.get("shapes", SHAPES[0]))
    for name, value, known in (("format", wanted, tuple(FORMATS)), ("shapes", shapes, SHAPES)):
        if value not in known:
            raise HarnessError(f"model.settings.{name} is {value!r}", "input", f"use one of {', '.join(known)}")
    if source is None:
        raise HarnessError("no model is declared", "input", FIX)
    files = [source / name for name in FORMATS[wanted]]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise HarnessError(f"{source} has no {' and no '.join(missing)}", "missing", FIX)
    segmentation, detection = files
    counter.stage("building", len(PARTS))
    for part in PARTS:
        (output / part).mkdir()
        height = 0 if shapes == "free" or part == DETECTION else HEIGHTS[part]
        if wanted == "pt2":
            from harness.benchmarks.pointpainting.program import write_detection_program, write_segmentation_program

            if part == DETECTION:
                write_detection_program(detection, output / part)
            else:
                write_segmentation_program(segmentation, output / part, HEIGHTS[part], WIDTH)
        else:
            from harness.benchmarks.pointpainting.published_networks import write_detection, write_segmentation

            if part == DETECTION:
                write_detection(detection, output / part, fixed=shapes != "free")
            else:
                write_segmentation(segmentation, output / part, (height, WIDTH) if height else None)
        counter.bump(1)
