"""PointPainting on Waymo: cars, cyclists and people in point clouds painted from five cameras, by mAP.

The first network segments the pictures, ``points`` transfers its classes to the points and puts them into columns, and
``boxes`` finds objects in the second network's output; ``loop`` defines the order of these steps, which a run computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.pointpainting.boxes import (
    COLUMNS,
    FOUND,
    ROW,
    find_near,
    find_objects,
    make_rows,
    measure_overlaps,
)
from harness.benchmarks.pointpainting.infos import CLASSES, DETECTION, FRONT, SIDE, TOLERATED
from harness.benchmarks.pointpainting.points import MOST_PILLARS, SEEN, Pillars, group_points, paint_points
from harness.benchmarks.pointpainting.waymo import INDEX, build_dataset, load_samples
from harness.benchmarks.sources import choose_setting
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Arrays
from harness.run.row_batches import Steps

PARTS = (FRONT, SIDE, DETECTION)
HEIGHTS = {FRONT: 1280, SIDE: 886}
WIDTH = 1920
OUTPUTS: dict[str, dict[str, tuple[tuple[int, ...], str]]] = {
    **{part: {"scores": ((SEEN, height, WIDTH), "float32")} for part, height in HEIGHTS.items()},
    DETECTION: {"boxes": ((FOUND, COLUMNS), "float32")},
}


def loop(sample: Arrays) -> Steps:
    """Map pictures "front" [3, height, width, 3] and "side" [2, ...], "points" [n, 5], "matrices" [11, 4, 4] and
    "frame" (its number, the pictures' heights and widths, and the detection network's number of pillars) to [objects,
    14].
    """
    number, room, *sizes = sample["frame"].tolist()
    (ahead,) = yield FRONT, {"images": sample["front"]}
    (at_side,) = yield SIDE, {"images": sample["side"]}
    painted = paint_points(sample["points"], sample["matrices"], [*ahead, *at_side])
    pillars = group_points(painted)
    if len(pillars.counts):
        (found,) = yield DETECTION, fill_room(pillars, room)
        objects = find_objects(np.asarray(found[0], np.float32))
    else:
        objects = find_objects(np.zeros((0, COLUMNS), np.float32))
    return make_rows(number, objects, sample["matrices"], np.array(sizes).reshape(-1, 2))


def fill_room(pillars: Pillars, room: int) -> Arrays:
    """Pad inputs to one size for the engine by repeating the first pillar, which the network writes to the same
    position each time.

    ``room`` is at least the number of pillars, and at most ``MOST_PILLARS``.
    """
    count = len(pillars.counts)
    room = max(count, min(room, MOST_PILLARS))
    points = np.empty((1, room, *pillars.points.shape[1:]), np.float32)
    cells, counts = np.zeros((1, room, 4), np.int64), np.empty((1, room), np.int32)
    points[0, :count], cells[0, :count, 1:3], counts[0, :count] = pillars
    points[0, count:], cells[0, count:, 1:3], counts[0, count:] = (values[0] for values in pillars)
    return {"pillars": points, "cells": cells, "counts": counts}


# The model is a folder with MLCommons' published networks, each of which becomes an engine; the segmentation network is
# used twice, for front and side pictures.
#
# The published split is preserved, so painting and pillars are between the networks, and not part of them. Operations
# on a picture before the network run in its engine, so that pictures remain bytes until then.

SEGMENTATION_ONNX, DETECTION_ONNX = "deeplabv3+.onnx", "pp.onnx"
SEGMENTATION_WEIGHTS, DETECTION_WEIGHTS = "best_deeplabv3plus_resnet50_waymo_os16.pth", "pp_ep36.pth"
FORMATS = {"onnx": (SEGMENTATION_ONNX, DETECTION_ONNX), "pt2": (SEGMENTATION_WEIGHTS, DETECTION_WEIGHTS)}
FIX = (
    "download the published networks, as described by `reconcile fetch pointpainting`, and set model.path to "
    "their folder"
)


def build_model(
    source: Path | None, settings: Mapping[str, Any], _inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Write front, side and detection, each a folder with model.onnx or model.pt2.

    ``settings``: format, "onnx" from the ONNX files, or "pt2" from the checkpoints for the PyTorch backends; shapes,
    "free", or "published" for backends that require fixed input sizes.
    """
    wanted = choose_setting("model", settings, "format", tuple(FORMATS))
    shapes = choose_setting("model", settings, "shapes", ("free", "published"))
    if source is None:
        raise HarnessError("model.path is not set", "input", FIX)
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


# Mean average precision over pedestrians, cyclists and cars, computed and printed like accuracy_waymo.py of
# automotive/3d-object-detection in mlcommons/inference.
#
# Its peculiarities are preserved, since results are compared with it: only objects of KITTI's easy difficulty count; a
# detection whose rectangle in the last camera's picture is inverted, because that camera does not see it, counts
# neither for nor against; precision is taken at every fourth of up to 41 recalls, and divided by eleven.

_LEAST_OVERLAP = {"Pedestrian": 0.5, "Cyclist": 0.5, "Car": 0.7}
_TOLERATED = {"Pedestrian": TOLERATED["Person_sitting"], "Car": TOLERATED["Van"]}
_LEAST_HEIGHT = -1  # minimum height of a rectangle, pixels
_RECALLS, _EVERY, _PARTS = 41, 4, 11
_COUNTS, _IGNORED, _ANOTHER = 0, 1, -1
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scene:
    """A frame's objects and detections: the objects' classes and difficulties; the detections' classes, scores, and
    whether the rectangle is inverted; and the overlapping pairs with their overlaps, ordered by object."""

    classes: NDArray[np.int64]
    difficulties: NDArray[np.int64]
    labels: NDArray[np.int64]
    scores: NDArray[np.float64]
    unseen: NDArray[np.bool_]
    pairs: Sequence[tuple[int, int, float]]


@dataclass(frozen=True, slots=True)
class _Contest:
    """A scene as one class sees it. ``candidates``: for each matchable object, whether it counts, and the detections
    that overlap it enough; ``counts``: whether each detection counts; ``ranked``: the scores of those that count,
    ascending.
    """

    candidates: Sequence[tuple[int, Sequence[tuple[int, float]]]]
    counts: Sequence[bool]
    scores: Sequence[float]
    ranked: NDArray[np.float64]


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return the mAP in percent, over all classes and for each, for the answered frames."""
    scenes = list(_read_scenes(log, dataset))
    found = {name: compute_precision(scenes, number) for number, name in enumerate(CLASSES)}
    total = float(np.mean(list(found.values())))
    summary = ", ".join(f"'{name}': [{value!r}]" for name, value in found.items())
    (output / "accuracy.txt").write_text(f"{{{summary}, 'Total': {total!r}}}\n", encoding="ascii")
    return {"mAP": total, **found}


def _read_scenes(log: AnswerLog, dataset: Path) -> list[Scene]:
    index = np.load(dataset / INDEX)
    bounds, numbers = index["labelled"], index["frames"][:, 0]
    objects, classes, difficulties = (index[name] for name in ("objects", "classes", "difficulties"))
    scenes = []
    for place, data in zip(log.indices.tolist(), log.data, strict=True):
        rows = np.frombuffer(data, np.float32) if len(data) % (4 * ROW) == 0 else np.zeros(0, np.float32)
        rows = rows.reshape(-1, ROW)
        if not len(rows) or (rows[:, -1] != numbers[place]).any():
            what = f"the answer to sample {place} does not contain rows of frame {numbers[place]}, {ROW} float32 each"
            raise HarnessError(what, "input", "run accuracy again")
        own = slice(bounds[place], bounds[place + 1])
        scenes.append(make_scene(objects[own], classes[own], difficulties[own], rows[rows[:, 0] > 0]))
    return scenes


def make_scene(objects: Floats, classes: NDArray[np.int64], difficulties: NDArray[np.int64], rows: Floats) -> Scene:
    """Make a scene. ``objects`` [n, 7] as in the frames, ``rows`` [m, 14] as in answers."""
    boxes = rows[:, [3, 4, 5, 0, 1, 2, 6]]
    one, other = np.nonzero(find_near(*(_flatten(found).astype(np.float64) for found in (objects, boxes))))
    overlaps = measure_volumes(objects[one], boxes[other])
    some = overlaps > 0
    pairs = list(zip(one[some].tolist(), other[some].tolist(), overlaps[some].tolist(), strict=True))
    heights = rows[:, 10].astype(np.float64) - rows[:, 8].astype(np.float64)
    labels, scores = rows[:, 11].astype(np.int64), rows[:, 12].astype(np.float64)
    return Scene(classes, difficulties, labels, scores, heights < _LEAST_HEIGHT, pairs)


def _flatten(boxes: Floats) -> Floats:
    """Return middle, sizes and angle in a top view."""
    return boxes[:, [0, 2, 3, 5, 6]]


def measure_volumes(ours: Floats, theirs: Floats) -> Floats:
    """Measure the ratio of intersection to union of pairs of boxes in camera coordinates, with y down and the middle at
    the bottom."""
    lower = np.minimum(ours[:, 1], theirs[:, 1])
    upper = np.maximum(ours[:, 1] - ours[:, 4], theirs[:, 1] - theirs[:, 4])
    area = measure_overlaps(_flatten(ours), _flatten(theirs)).astype(np.float32)  # type: ignore[arg-type]
    shared = np.maximum(lower - upper, np.float32(0)) * area
    volumes = ours[:, 3] * ours[:, 4] * ours[:, 5] + theirs[:, 3] * theirs[:, 4] * theirs[:, 5]
    found: Floats = shared / (volumes - shared + np.float32(1e-8))
    return found


def compute_precision(scenes: Sequence[Scene], label: int) -> float:
    """Compute the precision of one class, in percent."""
    contests = [_prepare_contest(scene, label) for scene in scenes]
    hits: list[float] = []
    for contest in contests:
        hits += _match_likeliest(contest)
    objects = sum(kind == _COUNTS for contest in contests for kind, _ in contest.candidates)
    precisions = []
    for threshold in choose_thresholds(hits, objects):
        right = wrong = 0
        for contest in contests:
            matched, taken = _match_best(contest, threshold)
            right += matched
            wrong += len(contest.ranked) - int(np.searchsorted(contest.ranked, threshold)) - taken
        precisions.append(right / (right + wrong) if right + wrong else float("nan"))
    best = np.maximum.accumulate(np.array(precisions[::-1]))[::-1]
    return float(best[::_EVERY].sum() / _PARTS * 100)


def _prepare_contest(scene: Scene, label: int) -> _Contest:
    name = CLASSES[label]
    tolerated = scene.classes == _TOLERATED.get(name, _ANOTHER)
    kinds = np.where(scene.classes == label, np.where(scene.difficulties == 0, _COUNTS, _IGNORED), _ANOTHER)
    kinds = np.where(tolerated, _IGNORED, kinds).tolist()
    counts = (scene.labels == label) & ~scene.unseen
    open_to = (counts | scene.unseen).tolist()
    near: dict[int, list[tuple[int, float]]] = {place: [] for place, kind in enumerate(kinds) if kind != _ANOTHER}
    for one, other, overlap in scene.pairs:
        if one in near and open_to[other] and overlap > _LEAST_OVERLAP[name]:
            near[one].append((other, overlap))
    candidates = [(kinds[place], found) for place, found in near.items()]
    return _Contest(candidates, counts.tolist(), scene.scores.tolist(), np.sort(scene.scores[counts]))


def _match_likeliest(contest: _Contest) -> list[float]:
    """Match each object to the likeliest remaining detection; return the scores of matches that count on both sides."""
    taken: set[int] = set()
    hits = []
    for kind, near in contest.candidates:
        best, likely = -1, -1.0
        for other, _ in near:
            if other not in taken and contest.scores[other] > likely:
                best, likely = other, contest.scores[other]
        if best >= 0:
            taken.add(best)
            if contest.counts[best] and kind == _COUNTS:
                hits.append(likely)
    return hits


def _match_best(contest: _Contest, threshold: float) -> tuple[int, int]:
    """Match each object to its best overlapping detection among those that are likely enough. Return how many matches
    count on both sides, and how many counted detections are matched."""
    taken: set[int] = set()
    right = used = 0
    for kind, near in contest.candidates:
        best, most = -1, -1.0
        for other, overlap in near:
            if other in taken or contest.scores[other] < threshold:
                continue
            if contest.counts[other] and overlap > most:
                best, most = other, overlap
            elif not contest.counts[other] and most < 0:
                best = other
        if best >= 0:
            taken.add(best)
            used += contest.counts[best]
            right += contest.counts[best] and kind == _COUNTS
    return right, used


def choose_thresholds(hits: Sequence[float], objects: int) -> list[float]:
    """Return the scores at which recall passes each fortieth of the objects."""
    ordered = sorted(hits, reverse=True)
    chosen: list[float] = []
    recall = 0.0
    for place, likely in enumerate(ordered):
        last = place == len(ordered) - 1
        if not last and ((place + 1) / objects + (place + 2) / objects) / 2 < recall:
            continue
        chosen.append(likely)
        if not last:
            recall = len(chosen) / (_RECALLS - 1)
    return chosen


class PointPainting(LoopBenchmark):
    outputs = OUTPUTS
    parts = PARTS
    response_dtype = "float32"
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    load_samples = staticmethod(load_samples)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = PointPainting()
