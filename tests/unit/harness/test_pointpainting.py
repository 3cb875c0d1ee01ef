"""PointPainting on Waymo: damage is named, points are painted and put into pillars, boxes are found and judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("onnxruntime")

from harness.benchmarks import pointpainting
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.pointpainting import PARTS, boxes, loop
from harness.benchmarks.pointpainting.points import SEEN, crop_points, group_points, paint_points
from harness.benchmarks.pointpainting.rehearsal import FOLDER, answer
from harness.contract import Counter

COUNT = 16
REHEARSED = ("pointpainting", COUNT)
FIRST = 1_000_000
CLOUD = f"training/velodyne/{FIRST}.bin"


def prepare(folder: Path, output: Path, **settings: object) -> Path:
    output.mkdir()
    pointpainting.BENCHMARK.build_dataset(folder / "data", settings, output, Counter(output.parent / "counter"))
    return output


@pytest.fixture(scope="module")
def dataset(made: Path) -> Path:
    return prepare(made, made / "dataset")


@pytest.fixture(scope="module")
def answers(made: Path, dataset: Path) -> list[np.ndarray]:
    """What the engines' networks answer to each scene."""
    from harness.benchmarks.network_builder import NetworkSession

    parts = made / "parts"
    parts.mkdir()
    pointpainting.BENCHMARK.build_model(made / "models" / FOLDER, {}, {}, parts, Counter(made / "counter"))
    sessions = {part: NetworkSession(parts / part / "model.onnx") for part in PARTS}
    samples = pointpainting.BENCHMARK.load_samples(dataset)
    return [answer(sessions, {name: array[row] for name, array in samples.items()})[0] for row in range(COUNT)]


def judge(dataset: Path, answers: list[np.ndarray], output: Path) -> dict[str, Any]:
    output.mkdir(exist_ok=True)
    data = tuple(rows.astype(np.float32).tobytes() for rows in answers)
    return dict(pointpainting.BENCHMARK.score(AnswerLog(np.arange(len(data)), data, 0, 0), dataset, output))


def test_a_rehearsal_answers_what_is_annotated(dataset: Path, answers: list[np.ndarray], tmp_path: Path) -> None:
    assert judge(dataset, answers, tmp_path / "all")["mAP"] == 100
    text = (tmp_path / "all/accuracy.txt").read_text()
    assert text == "{'Pedestrian': [100.0], 'Cyclist': [100.0], 'Car': [100.0], 'Total': 100.0}\n"
    no_one = boxes.find_objects(np.zeros((0, boxes.COLUMNS), np.float32))
    nothing = [boxes.make_rows(FIRST + row, no_one, np.zeros(0), np.zeros(0)) for row in range(COUNT)]
    assert judge(dataset, nothing, tmp_path / "none")["mAP"] == 0
    moved = [rows + np.float32(5) * (np.arange(boxes.ROW) == 3) for rows in answers]
    assert judge(dataset, moved, tmp_path / "moved")["mAP"] < 20


def test_samples_are_those_of_the_files(made: Path, dataset: Path, tmp_path: Path) -> None:
    samples = pointpainting.BENCHMARK.load_samples(dataset)
    assert samples["front"][0].shape == (3, 48, 72, 3)
    assert samples["side"][0].shape == (2, 32, 72, 3)
    assert samples["frame"][:, 0].tolist() == list(range(FIRST, FIRST + COUNT))
    stored = np.fromfile(made / "data" / CLOUD, np.float32).reshape(-1, 6)
    assert 0 < len(samples["points"][0]) < len(stored)  # some ground is too far away
    assert np.array_equal(samples["points"][0], crop_points(stored[:, :5]))
    assert len(pointpainting.BENCHMARK.load_samples(prepare(made, tmp_path / "few", count=2))["points"]) == 2


def test_pillars_keep_the_order_of_points() -> None:
    there, others, outside = [0.1, 0.1, 0], [0.4, 0.1, 0], [80, 0, 0]
    points = np.array([there, outside, others, there] + [there] * 25, np.float32)
    points = np.column_stack([points, np.arange(len(points))]).astype(np.float32)
    found = group_points(points)
    assert found.counts.tolist() == [20, 1]
    assert found.cells.tolist() == [[234, 234], [235, 234]]
    assert found.points[0, :, 3].tolist() == [0, 3, *range(4, 22)]
    assert not found.points[1, 1:].any()


def make_matrices(*yaws: float) -> np.ndarray:
    """Of cameras that look so far to the left, degrees, with pictures of 100 by 100 that show a right angle."""
    found = np.tile(np.eye(4, dtype=np.float32), (11, 1, 1))
    found[:5, :2, :3] = [[50, 0, 50], [0, 50, 50]]
    for camera, yaw in enumerate(np.radians(yaws)):
        found[6 + camera, :3, :3] = [[np.sin(yaw), -np.cos(yaw), 0], [0, 0, -1], [np.cos(yaw), np.sin(yaw), 0]]
    return found


def test_a_point_gets_what_its_cameras_see_there() -> None:
    pictures = [np.zeros((SEEN, 100, 100), np.float32) for _ in range(5)]
    pictures[0][11] = 50  # all of it people
    pictures[1][18] = 50  # bicycles
    ahead, left, behind = [10, 0, 0, 0.5, 0.25], [10, 8, 0, 0, 0], [-10, 0, 0, 0, 0]
    matrices = make_matrices(0, 45, -45, 90, -90)
    found = paint_points(np.array([ahead, left, behind], np.float32), matrices, pictures)
    assert found[0, :5].tolist() == ahead
    assert np.allclose(found[0, 5:], [0, 0, 0, 1, 0, 0])
    assert np.allclose(found[1, 5:], [0, 0.5, 0, 0.5, 0, 0])  # both see it
    assert not found[2, 5:].any()


@pytest.mark.parametrize(
    ("one", "other", "area"),
    [
        pytest.param((0, 0, 2, 2, 0), (1, 1, 2, 2, 0), 1, id="corner"),
        pytest.param((0, 0, 2, 2, 0), (0, 0, 2, 2, 0), 4, id="same"),
        pytest.param((0, 0, 2, 2, 0), (0, 0, 2, 2, np.pi / 4), 8 * (2**0.5 - 1), id="octagon"),
        pytest.param((0, 0, 4, 1, 0.3), (0, 0, 0.8, 0.25, -1), 0.2, id="inside"),
        pytest.param((0, 0, 4, 1, 0), (0, 0, 4, 1, np.pi / 2), 1, id="cross"),
        pytest.param((0, 0, 2, 2, 0), (2, 0, 2, 2, 0), 0, id="touching"),
        pytest.param((0, 0, 1, 1, 0), (5, 5, 1, 1, 1), 0, id="apart"),
        # Clockwise by an eighth: its end is below right.
        pytest.param((0, 0, 10, 0.1, np.pi / 4), (3, -3, 1, 1, 0), 0.1 * 2**0.5 - 0.005, id="direction"),
    ],
)
def test_turned_rectangles_share(one: tuple[float, ...], other: tuple[float, ...], area: float) -> None:
    pair = np.array([one], float), np.array([other], float)
    assert boxes.measure_overlaps(*pair) == pytest.approx([area], abs=1e-9)
    assert boxes.measure_overlaps(*pair[::-1]) == pytest.approx([area], abs=1e-9)
    assert bool(boxes.find_near(*pair)) or not area


def propose(*found: tuple[float, float, int, float]) -> np.ndarray:
    """x, angle, class and score of boxes 4 m long."""
    made = np.zeros((len(found), boxes.COLUMNS), np.float32)
    for row, (x, angle, label, likely) in enumerate(found):
        made[row, :7], made[row, 7 + label] = [x, 0, 0, 2, 4, 1.5, angle], likely
    return made


def test_of_boxes_of_one_class_that_cover_each_other_the_best_is_left() -> None:
    found = boxes.find_objects(
        propose((0, 0, 2, 0.5), (0.5, 0, 2, 0.9), (0.5, 0, 1, 0.7), (9, 0, 2, 0.05), (1.8, 0, 2, 0.3))
    )
    assert (found.labels.tolist(), found.boxes[:, 0].tolist()) == ([1, 2, 2], [0.5, 0.5, np.float32(1.8)])
    assert found.scores.tolist() == [np.float32(value) for value in (0.7, 0.9, 0.3)]


def test_an_object_that_the_last_camera_does_not_see_counts_for_no_one() -> None:
    item = np.array([[0, 0, 10, 4, 1.5, 2, 0.5]], np.float32)
    row = np.array([[4, 1.5, 2, 0, 0, 10, 0.5, 0, 10, 0, 20, 2, 0.9, 1]], np.float32)
    seen = pointpainting.make_scene(item, np.array([2]), np.array([0]), row)
    assert pointpainting.compute_precision([seen], 2) == pytest.approx(100 / 11)
    row[0, [8, 10]] = 20, 10
    unseen = pointpainting.make_scene(item, np.array([2]), np.array([0]), row)
    assert pointpainting.compute_precision([unseen], 2) == 0
    hard = pointpainting.make_scene(item, np.array([2]), np.array([1]), row)
    assert pointpainting.choose_thresholds([], 0) == []
    assert pointpainting.compute_precision([seen, hard], 2) == pytest.approx(100 / 11)


def test_thresholds_are_where_recall_passes_each_fortieth() -> None:
    hits = np.linspace(0.9, 0.1, 80).tolist()
    found = pointpainting.choose_thresholds(hits, 80)
    assert len(found) == 41
    assert (found[0], found[-1]) == (0.9, hits[-1])
    assert found[1:3] == [hits[1], hits[3]]


def test_an_empty_cloud_has_no_objects() -> None:
    pictures = np.zeros((3, 48, 72, 3), np.uint8)
    frame = np.array([7, 10, *[48, 72] * 3, *[32, 72] * 2])
    sample = {"front": pictures, "side": pictures[:2, :32], "points": np.zeros((0, 5), "f4"), "frame": frame}
    steps = loop({**sample, "matrices": make_matrices(0, 45, -45, 90, -90)})
    assert next(steps)[0] == "front"  # type: ignore[index]
    steps.send([np.zeros((3, 19, 48, 72), np.float32)])
    with pytest.raises(StopIteration) as ended:
        steps.send([np.zeros((2, 19, 32, 72), np.float32)])
    assert ended.value.value.tolist() == [[-1] * 13 + [7]]
