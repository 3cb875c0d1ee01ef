"""Steps of a sample: segment five pictures, paint points, put them into pillars, and find objects. The networks are
engines; everything between them is computed here, in the run.
"""

from __future__ import annotations

import numpy as np

from harness.benchmarks.pointpainting.boxes import COLUMNS, FOUND, find_objects, make_rows
from harness.benchmarks.pointpainting.points import MOST_PILLARS, SEEN, Pillars, group_points, paint_points
from harness.run.qsl import Arrays
from harness.run.row_batches import Steps

# Front pictures are higher than side pictures: each size has its own engine of the same network.
FRONT, SIDE, DETECTION = "front", "side", "detection"
PARTS = (FRONT, SIDE, DETECTION)
HEIGHTS = {FRONT: 1280, SIDE: 886}
WIDTH = 1920
LOOKING = {FRONT: (0, 1, 2), SIDE: (3, 4)}  # cameras
OUTPUTS: dict[str, dict[str, tuple[tuple[int, ...], str]]] = {
    **{part: {"scores": ((SEEN, height, WIDTH), "float32")} for part, height in HEIGHTS.items()},
    DETECTION: {"boxes": ((FOUND, COLUMNS), "float32")},
}
RESPONSE_DTYPE = "float32"


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
