"""PointPainting on Waymo: damage is named, points are painted and put into pillars, boxes are found and judged."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("onnxruntime")

from harness.benchmarks import pointpainting
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.pointpainting import boxes, infos, model, overlaps, painting, pillars, scoring, waymo
from harness.benchmarks.pointpainting.detecting import PARTS, fill_room, loop
from harness.benchmarks.pointpainting.rehearsal import FOLDER, answer, write_rehearsal
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from harness.errors import HarnessError
from tests.unit.harness.generated import generate

COUNT = 16
FIRST = 1_000_000
CLOUD = f"training/velodyne/{FIRST}.bin"
PICTURE = f"training/image_3/{FIRST}.jpg"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory, "pointpainting", write_rehearsal, COUNT)


def prepare(folder: Path, output: Path, **settings: object) -> Path:
    output.mkdir()
    pointpainting.build_dataset(folder / "data", settings, output, Counter(output.parent / "counter"))
    return output


@pytest.fixture(scope="module")
def dataset(made: Path) -> Path:
    return prepare(made, made / "dataset")


@pytest.fixture(scope="module")
def answers(made: Path, dataset: Path) -> list[np.ndarray]:
    """What the engines' networks answer to each scene."""
    from harness.benchmarks.made_network import NetworkSession

    parts = made / "parts"
    parts.mkdir()
    pointpainting.build_model(made / "models" / FOLDER, {}, {}, parts, Counter(made / "counter"))
    sessions = {part: NetworkSession(parts / part / "model.onnx") for part in PARTS}
    samples = pointpainting.load_samples(dataset)
    return [answer(sessions, {name: array[row] for name, array in samples.items()})[0] for row in range(COUNT)]


def judge(dataset: Path, answers: list[np.ndarray], output: Path) -> dict[str, Any]:
    output.mkdir(exist_ok=True)
    data = tuple(rows.astype(np.float32).tobytes() for rows in answers)
    return dict(pointpainting.score(AnswerLog(np.arange(len(data)), data, 0, 0), dataset, output))


def test_a_rehearsal_answers_what_is_annotated(dataset: Path, answers: list[np.ndarray], tmp_path: Path) -> None:
    assert judge(dataset, answers, tmp_path / "all")["mAP"] == 100
    text = (tmp_path / "all/accuracy.txt").read_text()
    assert text == "{'Pedestrian': [100.0], 'Cyclist': [100.0], 'Car': [100.0], 'Total': 100.0}\n"
    nobody = boxes.find_objects(np.zeros((0, boxes.COLUMNS), np.float32))
    nothing = [boxes.make_rows(FIRST + row, nobody, np.zeros(0), np.zeros(0)) for row in range(COUNT)]
    assert judge(dataset, nothing, tmp_path / "none")["mAP"] == 0
    moved = [rows + np.float32(5) * (np.arange(boxes.ROW) == 3) for rows in answers]
    assert judge(dataset, moved, tmp_path / "moved")["mAP"] < 20


def test_samples_are_those_of_the_files(made: Path, dataset: Path, tmp_path: Path) -> None:
    samples = pointpainting.load_samples(dataset)
    assert samples["front"][0].shape == (3, 48, 72, 3)
    assert samples["side"][0].shape == (2, 32, 72, 3)
    assert samples["frame"][:, 0].tolist() == list(range(FIRST, FIRST + COUNT))
    stored = np.fromfile(made / "data" / CLOUD, np.float32).reshape(-1, 6)
    assert 0 < len(samples["points"][0]) < len(stored)  # some ground is too far away
    assert np.array_equal(samples["points"][0], pillars.crop_points(stored[:, :5]))
    assert len(pointpainting.load_samples(prepare(made, tmp_path / "few", count=2))["points"]) == 2


def change_infos(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Path], None]:
    def damage(data: Path) -> None:
        path = data / waymo.INFOS
        found = pickle.loads(path.read_bytes())
        path.write_bytes(pickle.dumps(change(found) or found))

    return damage


def cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda data: (data / name).write_bytes((data / name).read_bytes()[:-size]) and None


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("run",))


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(lambda data: (data / CLOUD).unlink(), f"1 is missing: {CLOUD}", id="cloud"),
        pytest.param(lambda data: (data / PICTURE).unlink(), f"1 is missing: {PICTURE}", id="picture"),
        pytest.param(cut(CLOUD, 3), f"1 is cut off: {CLOUD}", id="cloud cut off"),
        pytest.param(cut(PICTURE, 9), f"1 is cut off: {PICTURE}", id="picture cut off"),
        pytest.param(lambda data: (data / CLOUD).write_bytes(b""), "1 is empty", id="empty"),
        pytest.param(
            lambda data: shutil.copyfile(data / f"training/image_0/{FIRST}.jpg", data / PICTURE),
            r"is \[48, 72\], the list of frames says \[32, 72\]",
            id="another camera's",
        ),
        pytest.param(lambda data: (data / waymo.INFOS).unlink(), "waymo_infos_val.pkl: No such file", id="no infos"),
        pytest.param(cut(waymo.INFOS, 40), "is cut off, or not a list of frames", id="infos cut off"),
        pytest.param(change_infos(lambda found: [*found, Evil()]), "it names builtins.print", id="runs code"),
        pytest.param(
            change_infos(lambda found: found[0].pop("calib") and None), "entry 0 is not a frame", id="no calibration"
        ),
        pytest.param(change_infos(lambda found: found[1:]), f"has no frame {FIRST}: 1 in all", id="frame missing"),
        pytest.param(
            lambda data: (data / waymo.LISTED).write_text(f"{FIRST}\n"),
            f"beside those of ImageSets/val.txt has frame {FIRST + 1}, ",
            id="frames extra",
        ),
        pytest.param(lambda data: (data / waymo.LISTED).unlink(), "val.txt: No such file", id="no list"),
        pytest.param(lambda data: (data / REHEARSAL).unlink(), "names 16 frames, the benchmark has", id="too few"),
        pytest.param(
            change_infos(lambda found: found[0]["point_cloud"].update(velodyne_path="../../secret")),
            "leads out of the folder",
            id="another folder",
        ),
    ],
)
def test_damage_is_named(made: Path, tmp_path: Path, damage: Callable[[Path], None], problem: str) -> None:
    shutil.copytree(made / "data", tmp_path / "data")
    damage(tmp_path / "data")
    with pytest.raises(HarnessError, match=problem) as caught:
        prepare(tmp_path, tmp_path / "dataset")
    assert "reconcile fetch pointpainting" in caught.value.fix
    assert not any((tmp_path / "dataset").iterdir())


def test_a_model_that_is_not_there_is_named(made: Path, tmp_path: Path) -> None:
    (tmp_path / model.SEGMENTATION_ONNX).write_bytes(b"")
    with pytest.raises(HarnessError, match=r"has no pp\.onnx"):
        pointpainting.build_model(tmp_path, {}, {}, tmp_path, Counter(tmp_path / "counter"))
    networks = made / "models" / FOLDER
    shutil.copyfile(networks / model.SEGMENTATION_ONNX, tmp_path / model.DETECTION_ONNX)
    shutil.copyfile(networks / model.SEGMENTATION_ONNX, tmp_path / model.SEGMENTATION_ONNX)
    (tmp_path / "out").mkdir()
    with pytest.raises(HarnessError, match=r"pp\.onnx has 1 inputs and 1 outputs, the published one has 3 and 1"):
        pointpainting.build_model(tmp_path, {}, {}, tmp_path / "out", Counter(tmp_path / "counter"))


def test_the_published_sizes_can_be_fixed(made: Path, tmp_path: Path) -> None:
    import onnx

    settings = {"shapes": "published"}
    pointpainting.build_model(made / "models" / FOLDER, settings, {}, tmp_path, Counter(tmp_path / "counter"))
    found = {}
    for part in PARTS:
        given = onnx.load(tmp_path / part / "model.onnx").graph.input
        found[part] = [[axis.dim_value for axis in item.type.tensor_type.shape.dim] for item in given]
    assert found["front"] == [[0, 1280, 1920, 3]]
    assert found["side"] == [[0, 886, 1920, 3]]
    assert found["detection"] == [[1, 32000, 20, 11], [1, 32000, 4], [1, 32000]]


def test_pillars_keep_the_order_of_points() -> None:
    there, beside, outside = [0.1, 0.1, 0], [0.4, 0.1, 0], [80, 0, 0]
    points = np.array([there, outside, beside, there] + [there] * 25, np.float32)
    points = np.column_stack([points, np.arange(len(points))]).astype(np.float32)
    found = pillars.group_points(points)
    assert found.counts.tolist() == [20, 1]
    assert found.cells.tolist() == [[234, 234], [235, 234]]
    assert found.points[0, :, 3].tolist() == [0, 3, *range(4, 22)]
    assert not found.points[1, 1:].any()


def test_after_the_last_pillar_no_point_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pillars, "MOST_PILLARS", 2)
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0.5], [2, 0, 0], [0, 0, 1]], np.float32)
    assert pillars.group_points(points).counts.tolist() == [2, 1]


def test_room_is_filled_with_the_first_pillar() -> None:
    found = pillars.group_points(np.array([[0, 0, 0], [1, 0, 0]], np.float32))
    filled = fill_room(found, 4)
    assert filled["cells"][0, :, 1].tolist() == [234, 237, 234, 234]
    assert filled["counts"].tolist() == [[1, 1, 1, 1]]


def make_matrices(*yaws: float) -> np.ndarray:
    """Of cameras that look so far to the left, degrees, with pictures of 100 by 100 that show a right angle."""
    found = np.tile(np.eye(4, dtype=np.float32), (11, 1, 1))
    found[:5, :2, :3] = [[50, 0, 50], [0, 50, 50]]
    for camera, yaw in enumerate(np.radians(yaws)):
        found[6 + camera, :3, :3] = [[np.sin(yaw), -np.cos(yaw), 0], [0, 0, -1], [np.cos(yaw), np.sin(yaw), 0]]
    return found


def test_a_point_gets_what_its_cameras_see_there() -> None:
    pictures = [np.zeros((painting.SEEN, 100, 100), np.float32) for _ in range(5)]
    pictures[0][11] = 50  # all of it people
    pictures[1][18] = 50  # bicycles
    ahead, left, behind = [10, 0, 0, 0.5, 0.25], [10, 8, 0, 0, 0], [-10, 0, 0, 0, 0]
    matrices = make_matrices(0, 45, -45, 90, -90)
    found = painting.paint_points(np.array([ahead, left, behind], np.float32), matrices, pictures)
    assert found[0, :5].tolist() == ahead
    assert np.allclose(found[0, 5:], [0, 0, 0, 1, 0, 0])
    assert np.allclose(found[1, 5:], [0, 0.5, 0, 0.5, 0, 0])  # both see it
    assert not found[2, 5:].any()


def test_a_point_is_seen_where_it_is_in_the_picture() -> None:
    found = painting.project_points(np.array([[10, 2, 4], [10, 20, 0]], np.float32), make_matrices(0), 0, (100, 100))
    assert found.seen.tolist() == [True, False]
    assert (found.rows.tolist(), found.columns.tolist()) == ([30], [40])


def test_groups_of_classes_sum_up_to_one() -> None:
    found = painting.group_classes(np.zeros((painting.SEEN, 2), np.float32))
    assert np.allclose(found * painting.SEEN, [11, 1, 4, 1, 1, 1])


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
    assert overlaps.measure_overlaps(*pair) == pytest.approx([area], abs=1e-9)
    assert overlaps.measure_overlaps(*pair[::-1]) == pytest.approx([area], abs=1e-9)
    assert bool(overlaps.find_near(*pair)) or not area


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


def test_angles_follow_what_looks_ahead() -> None:
    made = propose((0, 1.0, 0, 0.9), (20, 1.0, 0, 0.8), (40, -2.5, 0, 0.7))
    made[1:, 10] = 1
    assert boxes.find_objects(made).boxes[:, 6] == pytest.approx([1.0, 1.0 - np.pi, -2.5], abs=1e-6)


def test_no_more_than_the_most_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "MOST", 2)
    found = boxes.find_objects(propose((0, 0, 0, 0.3), (20, 0, 1, 0.9), (40, 0, 2, 0.5)))
    assert found.scores.tolist() == [np.float32(0.9), np.float32(0.5)]


def test_rows_are_told_from_the_first_camera() -> None:
    objects = boxes.find_objects(propose((10, 0.5, 2, 0.9)))
    (row,) = boxes.make_rows(1_000_007, objects, make_matrices(0, 45, -45, 90, 0), np.array([[100, 100]] * 5))
    assert row[:7] == pytest.approx([4, 1.5, 2, 0, 0, 10, 0.5], abs=1e-5)
    assert row[11:].tolist() == [2, np.float32(0.9), 1_000_007]
    left, top, right, bottom = row[7:11]
    assert left < 50 < right
    assert top < bottom == pytest.approx(50, abs=1)


def test_an_object_that_the_last_camera_does_not_see_counts_for_nobody() -> None:
    item = np.array([[0, 0, 10, 4, 1.5, 2, 0.5]], np.float32)
    row = np.array([[4, 1.5, 2, 0, 0, 10, 0.5, 0, 10, 0, 20, 2, 0.9, 1]], np.float32)
    seen = scoring.make_scene(item, np.array([2]), np.array([0]), row)
    assert scoring.compute_precision([seen], 2) == pytest.approx(100 / 11)
    row[0, [8, 10]] = 20, 10
    unseen = scoring.make_scene(item, np.array([2]), np.array([0]), row)
    assert scoring.compute_precision([unseen], 2) == 0
    hard = scoring.make_scene(item, np.array([2]), np.array([1]), row)
    assert scoring.choose_thresholds([], 0) == []
    assert scoring.compute_precision([seen, hard], 2) == pytest.approx(100 / 11)


def test_thresholds_are_where_recall_passes_each_fortieth() -> None:
    hits = np.linspace(0.9, 0.1, 80).tolist()
    found = scoring.choose_thresholds(hits, 80)
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


def test_answers_of_another_frame_are_refused(dataset: Path, answers: list[np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="the answer to sample 0 does not hold rows of frame 1000000"):
        judge(dataset, [answers[1]], tmp_path / "out")


def test_classes_that_are_not_sought() -> None:
    assert [infos._number_class(name) for name in ("Cyclist", "Van", "Sign", "DontCare")] == [1, 4, 5, 5]


def test_a_checkpoint_that_is_another_is_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the published checkpoints are read with PyTorch")
    for file in model.FORMATS["pt2"]:
        torch.save({"weights": {}}, tmp_path / file)
    (tmp_path / "out").mkdir()
    with pytest.raises(HarnessError, match=r"os16\.pth holds no model_state"):
        pointpainting.build_model(tmp_path, {"format": "pt2"}, {}, tmp_path / "out", Counter(tmp_path / "counter"))


def test_anchors_stand_in_the_middle_of_cells() -> None:
    pytest.importorskip("torch", reason="the program of PointPillars needs PyTorch")
    from harness.benchmarks.pointpainting.program import list_anchors

    anchors = list_anchors().reshape(pillars.CELLS, pillars.CELLS, 3, 2, 7)
    assert anchors[0, 0, 0, 0] == pytest.approx([-74.72, -74.72, -0.0345, 0.84, 0.91, 1.74, 0], abs=1e-5)
    assert anchors[1, 467, 2, 1] == pytest.approx([74.72, -74.4, -0.1188, 2.08, 4.73, 1.77, 1.57], abs=1e-4)
