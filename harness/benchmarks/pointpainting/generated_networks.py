"""Networks of rehearsals with the signatures of the published files: small, their weights drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.benchmarks.network_builder import NetworkBuilder, NetworkSession, Tensors
from harness.benchmarks.pointpainting.boxes import COLUMNS, FOUND, THRESHOLD
from harness.benchmarks.pointpainting.infos import CLASSES
from harness.benchmarks.pointpainting.painting import PAINTED, SEEN
from harness.benchmarks.pointpainting.pillars import LOWEST, MOST_POINTS, SIZE
from harness.run.qsl import Arrays

_SIZES = ((0.84, 0.91, 1.74), (0.84, 1.81, 1.77), (2.08, 4.73, 1.77))  # of the published anchors, m
_PROPOSED = 2 * len(CLASSES)  # boxes of a pillar: each size, along and across
_OUT = _PROPOSED * COLUMNS
_LIKELY = 0.02  # part of the proposals
_MOVED, _WIDENED, _TURNED = 0.5, 0.2, 0.5  # at most: m, logarithm, radians
_BOTTOM = -1.5  # m
_INPUTS: Tensors = {
    "input_pillars": ("float32", ["pillar_num", MOST_POINTS, PAINTED]),
    "input_coors_batch": ("int64", ["pillar_num", 4]),
    "input_npoints_per_pillar": ("int32", ["pillar_num"]),
}


def make_segmentation(path: Path, rng: np.random.Generator, width: int) -> None:
    """input_image [N, 3, height, width] -> output_deep [N, 19, height, width]: it separates colours."""
    net = NetworkBuilder(rng)
    inner = net.convolution("input_image", 3, width, 3)
    sharp = net.node("Mul", [net.convolution(inner, width, SEEN, 1, active=False), net.constant(2.0)])
    net.node("Identity", [sharp], "output_deep")
    sizes = ["height", "width"]
    inputs: Tensors = {"input_image": ("float32", ["N", 3, *sizes])}
    net.save(path, "segmentation", inputs, {"output_deep": ("float32", ["N", SEEN, *sizes])})


def make_detection(path: Path, rng: np.random.Generator, width: int, given: Sequence[Arrays]) -> None:
    """input_pillars [n, 20, 11], input_coors_batch int64 [n, 4], input_npoints_per_pillar int32 [n] -> output_x
    [4096, 11]. ``given``: what it gets of some scenes, by which it is balanced."""
    net = NetworkBuilder(rng)
    summed = net.node("ReduceSum", ["input_pillars", net.constant([1], "int64")], keepdims=0)
    counts = net.node("Cast", ["input_npoints_per_pillar"], to=1)
    mean = net.node("Div", [summed, net.node("Unsqueeze", [counts, net.constant([1], "int64")])])
    known = net.split(mean, [3, PAINTED - 3], axis=1)[1]  # all but where the points are
    inner = net.node("Relu", [net.dense(known, PAINTED - 3, width)])
    features = net.dense(inner, width, _OUT)
    seen = np.zeros((1, _OUT), np.float32)
    if given:
        net.save(path, "features", _INPUTS, {features: ("float32", ["pillar_num", _OUT])})
        session = NetworkSession(path)
        seen = np.concatenate([session.compute(_name_inputs(inputs))[0] for inputs in given])
    mean_seen, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-3
    even = net.node("Div", [net.node("Sub", [features, net.constant(mean_seen)]), net.constant(spread)])
    proposed = net.node("Reshape", [even, net.constant([-1, _PROPOSED, COLUMNS], "int64")])
    deltas, scores, ahead = net.split(proposed, [7, len(CLASSES), 1], axis=2)
    balanced = ((seen - mean_seen) / spread).reshape(-1, _PROPOSED, COLUMNS)[..., 7:10].max(axis=2)
    shift = float(np.log(THRESHOLD / (1 - THRESHOLD)) - np.quantile(balanced, 1 - _LIKELY))
    likely = net.node("Sigmoid", [net.node("Add", [scores, net.constant(shift)])])
    looks = net.node("Cast", [net.node("Greater", [ahead, net.constant(0.0)])], to=1)
    whole = net.node("Concat", [_place(net, deltas), likely, looks], axis=2)
    _keep_likeliest(net, net.node("Reshape", [whole, net.constant([-1, COLUMNS], "int64")]))
    net.save(path, "detection", _INPUTS, {"output_x": ("float32", [FOUND, COLUMNS])})


def _name_inputs(inputs: Arrays) -> Arrays:
    """As the published file names them; engines have them with an axis more."""
    return {name: array[0] for name, array in zip(_INPUTS, inputs.values(), strict=True)}


def _place(net: NetworkBuilder, deltas: str) -> str:
    """[n, 6, 7] -> boxes around each pillar: middle of the bottom, width, length, height, angle."""
    moved, widened, turned = net.split(net.node("Tanh", [deltas]), [3, 3, 1], axis=2)
    cells = net.node("Cast", [net.split("input_coors_batch", [1, 3], axis=1)[1]], to=1)  # along z there is one alone
    middles = net.node("Mul", [cells, net.constant(SIZE * (1, 1, 0))])
    middles = net.node("Add", [middles, net.constant([*(LOWEST + SIZE / 2)[:2], _BOTTOM])])
    middles = net.node("Unsqueeze", [middles, net.constant([1], "int64")])
    places = net.node("Add", [middles, net.node("Mul", [moved, net.constant(_MOVED)])])
    larger = net.node("Exp", [net.node("Mul", [widened, net.constant(_WIDENED)])])
    sizes = net.node("Mul", [larger, net.constant(np.repeat(_SIZES, 2, axis=0))])
    angles = net.constant(np.tile([0, 1.57], len(CLASSES))[:, None])
    turned = net.node("Add", [net.node("Mul", [turned, net.constant(_TURNED)]), angles])
    return net.node("Concat", [places, sizes, turned], axis=2)


def _keep_likeliest(net: NetworkBuilder, proposed: str) -> None:
    """[proposals, 11] -> output_x; where there are too few, boxes that are nowhere likely."""
    filled = net.node("Concat", [proposed, net.constant(np.zeros((FOUND, COLUMNS)))], axis=0)
    scores = net.split(filled, [7, len(CLASSES), 1], axis=1)[1]
    best = net.node("ReduceMax", [scores], axes=[1], keepdims=0)
    _, order = net.nodes("TopK", [best, net.constant([FOUND], "int64")], 2)
    net.node("Gather", [filled, order], "output_x")
