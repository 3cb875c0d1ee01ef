"""A few generated scenes in Waymo's file layout, small, and networks with the published files' signatures that find
objects in them.

Objects are those that the networks find in fp32. A pillar proposes boxes around itself, based on its painted points;
the published network also uses its neighbours.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.images import draw_image, encode_image
from harness.benchmarks.network_builder import NetworkBuilder, NetworkSession, Tensors, run_loop
from harness.benchmarks.pointpainting import DETECTION_ONNX, PARTS, SEGMENTATION_ONNX, build_model, loop
from harness.benchmarks.pointpainting.boxes import COLUMNS, FOUND, ROW, THRESHOLD
from harness.benchmarks.pointpainting.infos import CLASSES, DETECTION, MATRICES
from harness.benchmarks.pointpainting.points import LOWEST, MOST_POINTS, PAINTED, SEEN, SIZE
from harness.benchmarks.pointpainting.published_networks import MODEL
from harness.benchmarks.pointpainting.waymo import INFOS, LISTED, STORED, build_dataset, load_samples
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from harness.run.qsl import Arrays

FOLDER = "networks"
_FIRST = 1_000_000  # number of Waymo's first validation frame
_SHAPES = ((48, 72), (48, 72), (48, 72), (32, 72), (32, 72))  # height, width
_YAWS = (0, 45, -45, 90, -90)  # degrees to the left
_FOCAL = 0.95  # as a share of the width, so that neighbouring cameras overlap
_PLACE = (1.5, 0.0, 0.3)  # position of all cameras relative to the lidar, m
_GROUND, _CLUSTERS, _CLUSTERED = 240, 12, 14  # number of points; number of clusters, and points of each
_HIDDEN = {"small": 8, "full": 64}
_FEW = 4  # scenes used to balance the networks
_LEAST_HEIGHT = -1  # pixels: the official script ignores smaller objects


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    """Write the rehearsal. The detection network of any ``size`` has one layer, which is wider for "full"."""
    rng = np.random.default_rng(seed)
    infos = [_write_scene(data, rng, _FIRST + number) for number in range(count)]
    _write_lists(data, infos)
    (data / REHEARSAL).write_text("{}\n", encoding="ascii")
    networks = models / FOLDER
    networks.mkdir()
    with tempfile.TemporaryDirectory(dir=models) as scratch:
        dataset, parts = Path(scratch) / "dataset", Path(scratch) / "parts"
        dataset.mkdir()
        build_dataset(data, {}, dataset, counter)
        samples = load_samples(dataset)
        scenes: list[Arrays] = [{name: array[row] for name, array in samples.items()} for row in range(count)]
        make_segmentation(networks / SEGMENTATION_ONNX, rng, _HIDDEN[size])
        make_detection(networks / DETECTION_ONNX, rng, _HIDDEN[size], [])
        sessions = _open_parts(networks, parts, counter)
        given = [answer(sessions, scene)[1] for scene in scenes[:_FEW]]
        make_detection(networks / DETECTION_ONNX, rng, _HIDDEN[size], given)
        sessions = _open_parts(networks, parts, counter)
        counter.stage("building", count)
        for scene, info in zip(scenes, infos, strict=True):
            rows, _ = answer(sessions, scene)
            info["annos"] = _list_objects(rows[rows[:, 0] > 0].astype(np.float64))
            counter.bump(1)
    _write_lists(data, infos)


def _open_parts(networks: Path, parts: Path, counter: Counter) -> Mapping[str, NetworkSession]:
    """Write engines' networks by the same code as any model's, and open them."""
    with tempfile.TemporaryDirectory(dir=parts.parent) as folder:
        build_model(networks, {}, {}, Path(folder), counter)
        return {part: NetworkSession(Path(folder) / part / MODEL) for part in PARTS}


def answer(sessions: Mapping[str, NetworkSession], scene: Arrays) -> tuple[NDArray[np.float32], Arrays]:
    """Return the rows of an answer, and the detection network's inputs."""
    given: Arrays = {}

    def compute(asked: tuple[str, Arrays]) -> list[np.ndarray]:
        nonlocal given
        part, inputs = asked
        given = inputs if part == DETECTION else {}
        return sessions[part].compute(inputs)

    return run_loop(loop(scene), compute), given


def _write_scene(data: Path, rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Write pictures and a cloud; return the frame's entry in the list, without objects so far."""
    cameras = []
    for camera, (height, width) in enumerate(_SHAPES):
        path = data / f"training/image_{camera}/{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_image(draw_image(rng, height, width)))
        cameras.append({"image_shape": np.array((height, width), np.int32)})
    cloud = Path(f"training/velodyne/{number}.bin")
    (data / cloud).parent.mkdir(exist_ok=True)
    _draw_points(rng).tofile(data / cloud)
    return {
        "image": {"image_idx": number, "image_path": f"training/image_0/{number}.jpg", "camera": cameras},
        "point_cloud": {"num_features": STORED, "velodyne_path": str(cloud)},
        "calib": {name: _make_matrix(name) for name in MATRICES},
        "annos": _list_objects(np.zeros((0, ROW))),
    }


def _draw_points(rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw some ground, part of it too far away, and heaps on it; return the six values of each point."""
    angle, reach = rng.uniform(-np.pi, np.pi, _GROUND), rng.uniform(4, 80, _GROUND)
    ground = np.stack([reach * np.cos(angle), reach * np.sin(angle), rng.normal(-1.6, 0.05, _GROUND)], axis=1)
    angle, reach = rng.uniform(-np.pi, np.pi, _CLUSTERS), rng.uniform(6, 50, _CLUSTERS)
    middles = np.stack([reach * np.cos(angle), reach * np.sin(angle), np.full(_CLUSTERS, -0.8)], axis=1)
    heaps = np.repeat(middles, _CLUSTERED, axis=0) + rng.normal(0, 0.4, (_CLUSTERS * _CLUSTERED, 3))
    places = rng.permutation(np.concatenate([ground, heaps]))
    rest = rng.uniform(0, 1, (len(places), STORED - 3))
    return np.concatenate([places, rest], axis=1).astype(np.float32)


def _make_matrix(name: str) -> NDArray[np.float64]:
    """Make matrices [4, 4], by their names in a frame's calibration. Lidar: x forward, y left, z up; cameras: x right,
    y down, z forward."""
    made = np.eye(4)
    if name.startswith("P"):
        height, width = _SHAPES[int(name[1:])]
        made[:2, :3] = [[_FOCAL * width, 0, width / 2], [0, _FOCAL * width, height / 2]]
    elif name.startswith("Tr"):
        yaw = np.radians(_YAWS[int(name[-1])])
        made[:3, :3] = [[np.sin(yaw), -np.cos(yaw), 0], [0, 0, -1], [np.cos(yaw), np.sin(yaw), 0]]
        made[:3, 3] = -made[:3, :3] @ _PLACE
    return made


def _list_objects(rows: NDArray[np.float64]) -> dict[str, Any]:
    """Convert an answer's rows to objects in the reference's format. Objects that the official script ignores as
    detections are marked as too hard."""
    count = len(rows)
    boxes = rows[:, 7:11]
    return {
        "name": np.array([CLASSES[int(label)] for label in rows[:, 11]], dtype="<U16"),
        "truncated": np.zeros(count),
        "occluded": np.zeros(count, np.int64),
        "alpha": np.zeros(count),
        "bbox": boxes,
        "dimensions": rows[:, :3],
        "location": rows[:, 3:6],
        "rotation_y": rows[:, 6],
        "index": np.arange(count, dtype=np.int32),
        "group_ids": np.arange(count, dtype=np.int32),
        "camera_id": np.zeros(count),
        "difficulty": np.where(boxes[:, 3] - boxes[:, 1] < _LEAST_HEIGHT, -1, 0).astype(np.int32),
    }


def _write_lists(data: Path, infos: Sequence[Mapping[str, Any]]) -> None:
    (data / INFOS).write_bytes(pickle.dumps(list(infos), protocol=4))
    path = data / LISTED
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{info['image']['image_idx']}\n" for info in infos), encoding="ascii")


_SIZES = ((0.84, 0.91, 1.74), (0.84, 1.81, 1.77), (2.08, 4.73, 1.77))  # sizes of the published anchors, m
_PROPOSED = 2 * len(CLASSES)  # boxes of a pillar: each size, along and across
_OUT = _PROPOSED * COLUMNS
_LIKELY = 0.02  # share of the proposals that are likely
_MOVED, _WIDENED, _TURNED = 0.5, 0.2, 0.5  # maximum changes: m, logarithm, radians
_BOTTOM = -1.5  # m
_INPUTS: Tensors = {
    "input_pillars": ("float32", ["pillar_num", MOST_POINTS, PAINTED]),
    "input_coors_batch": ("int64", ["pillar_num", 4]),
    "input_npoints_per_pillar": ("int32", ["pillar_num"]),
}


def make_segmentation(path: Path, rng: np.random.Generator, width: int) -> None:
    """Map input_image [N, 3, height, width] to output_deep [N, 19, height, width], by separating colours."""
    net = NetworkBuilder(rng)
    inner = net.convolution("input_image", 3, width, 3)
    sharp = net.node("Mul", [net.convolution(inner, width, SEEN, 1, active=False), net.constant(2.0)])
    net.node("Identity", [sharp], "output_deep")
    sizes = ["height", "width"]
    inputs: Tensors = {"input_image": ("float32", ["N", 3, *sizes])}
    net.save(path, "segmentation", inputs, {"output_deep": ("float32", ["N", SEEN, *sizes])})


def make_detection(path: Path, rng: np.random.Generator, width: int, given: Sequence[Arrays]) -> None:
    """Map input_pillars [n, 20, 11], input_coors_batch int64 [n, 4] and input_npoints_per_pillar int32 [n] to output_x
    [4096, 11]. ``given``: its inputs for some scenes, which balance it."""
    net = NetworkBuilder(rng)
    summed = net.node("ReduceSum", ["input_pillars", net.constant([1], "int64")], keepdims=0)
    counts = net.node("Cast", ["input_npoints_per_pillar"], to=1)
    mean = net.node("Div", [summed, net.node("Unsqueeze", [counts, net.constant([1], "int64")])])
    known = net.split(mean, [3, PAINTED - 3], axis=1)[1]  # all values but the positions of points
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
    """Name the inputs as in the published file; engines' inputs have one more axis."""
    return {name: array[0] for name, array in zip(_INPUTS, inputs.values(), strict=True)}


def _place(net: NetworkBuilder, deltas: str) -> str:
    """Map [n, 6, 7] to boxes around each pillar: middle of the bottom, width, length, height, angle."""
    moved, widened, turned = net.split(net.node("Tanh", [deltas]), [3, 3, 1], axis=2)
    cells = net.node("Cast", [net.split("input_coors_batch", [1, 3], axis=1)[1]], to=1)  # one cell along z
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
    """Select the likeliest of [proposals, 11] for output_x; if there are too few, add boxes that are unlikely
    everywhere."""
    filled = net.node("Concat", [proposed, net.constant(np.zeros((FOUND, COLUMNS)))], axis=0)
    scores = net.split(filled, [7, len(CLASSES), 1], axis=1)[1]
    best = net.node("ReduceMax", [scores], axes=[1], keepdims=0)
    _, order = net.nodes("TopK", [best, net.constant([FOUND], "int64")], 2)
    net.node("Gather", [filled, order], "output_x")
