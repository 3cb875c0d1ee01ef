"""A few made-up scenes as Waymo's are on disk, small, and networks of the published files' signatures that find objects
in them.

Objects are what the networks find in fp32. A pillar proposes boxes around itself, by what is painted on its points; the
published network looks at its neighbours too.
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
from harness.benchmarks.network_builder import NetworkSession
from harness.benchmarks.pointpainting.boxes import ROW
from harness.benchmarks.pointpainting.detecting import DETECTION, PARTS, loop
from harness.benchmarks.pointpainting.generated_networks import make_detection, make_segmentation
from harness.benchmarks.pointpainting.infos import CLASSES, MATRICES
from harness.benchmarks.pointpainting.model import DETECTION_ONNX, SEGMENTATION_ONNX, build_model
from harness.benchmarks.pointpainting.published_networks import MODEL
from harness.benchmarks.pointpainting.waymo import INFOS, LISTED, STORED, build_dataset, load_samples
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from harness.run.qsl import Arrays

FOLDER = "networks"
_FIRST = 1_000_000  # number of Waymo's first validation frame
_SHAPES = ((48, 72), (48, 72), (48, 72), (32, 72), (32, 72))  # height, width
_YAWS = (0, 45, -45, 90, -90)  # degrees to the left
_FOCAL = 0.95  # of the width: neighbours see some places both
_PLACE = (1.5, 0.0, 0.3)  # of all cameras, m from the lidar
_GROUND, _CLUSTERS, _CLUSTERED = 240, 12, 14  # points; clusters, and points of each
_HIDDEN = {"small": 8, "full": 64}
_FEW = 4  # scenes by which the networks are balanced
_LEAST_HEIGHT = -1  # pixels: the official script ignores objects below it


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    """The detection network of any ``size`` has one layer, wider where it is to be full."""
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
            _annotate(info, answer(sessions, scene)[0])
            counter.bump(1)
    _write_lists(data, infos)


def _open_parts(networks: Path, parts: Path, counter: Counter) -> Mapping[str, NetworkSession]:
    """Through the same writing of engines' networks as any model's."""
    with tempfile.TemporaryDirectory(dir=parts.parent) as folder:
        build_model(networks, {}, {}, Path(folder), counter)
        return {part: NetworkSession(Path(folder) / part / MODEL) for part in PARTS}


def answer(sessions: Mapping[str, NetworkSession], scene: Arrays) -> tuple[NDArray[np.float32], Arrays]:
    """The rows of an answer, and what the detection network was given."""
    steps = loop(scene)
    asked = next(steps)
    while True:
        assert isinstance(asked, tuple)
        part, inputs = asked
        try:
            asked = steps.send(sessions[part].compute(inputs))
        except StopIteration as end:
            return end.value, inputs if part == DETECTION else {}


def _write_scene(data: Path, rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Pictures and a cloud; what the list of frames says of them, as yet without objects."""
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
    """Some ground, some of it too far away, and heaps on it; the six values of each point."""
    angle, reach = rng.uniform(-np.pi, np.pi, _GROUND), rng.uniform(4, 80, _GROUND)
    ground = np.stack([reach * np.cos(angle), reach * np.sin(angle), rng.normal(-1.6, 0.05, _GROUND)], axis=1)
    angle, reach = rng.uniform(-np.pi, np.pi, _CLUSTERS), rng.uniform(6, 50, _CLUSTERS)
    middles = np.stack([reach * np.cos(angle), reach * np.sin(angle), np.full(_CLUSTERS, -0.8)], axis=1)
    heaps = np.repeat(middles, _CLUSTERED, axis=0) + rng.normal(0, 0.4, (_CLUSTERS * _CLUSTERED, 3))
    places = rng.permutation(np.concatenate([ground, heaps]))
    rest = rng.uniform(0, 1, (len(places), STORED - 3))
    return np.concatenate([places, rest], axis=1).astype(np.float32)


def _make_matrix(name: str) -> NDArray[np.float64]:
    """[4, 4], by the names of a frame's calibration. Of the lidar x is ahead, y left, z up; of cameras x is right, y
    down, z ahead."""
    made = np.eye(4)
    if name.startswith("P"):
        height, width = _SHAPES[int(name[1:])]
        made[:2, :3] = [[_FOCAL * width, 0, width / 2], [0, _FOCAL * width, height / 2]]
    elif name.startswith("Tr"):
        yaw = np.radians(_YAWS[int(name[-1])])
        made[:3, :3] = [[np.sin(yaw), -np.cos(yaw), 0], [0, 0, -1], [np.cos(yaw), np.sin(yaw), 0]]
        made[:3, 3] = -made[:3, :3] @ _PLACE
    return made


def _annotate(info: dict[str, Any], rows: NDArray[np.float32]) -> None:
    info["annos"] = _list_objects(rows[rows[:, 0] > 0].astype(np.float64))


def _list_objects(rows: NDArray[np.float64]) -> dict[str, Any]:
    """Rows of an answer as the reference's preparation lists objects. Those that the official script ignores as
    detections are too hard as objects."""
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
