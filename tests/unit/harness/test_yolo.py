"""YOLO on COCO's safe images: placed on a grey square, found as the reference finds, sent back in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("pycocotools")
pytest.importorskip("onnxruntime")

import cv2

from harness.benchmarks import yolo
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.network_builder import NetworkSession
from harness.benchmarks.yolo.rehearsal import MODEL
from harness.contract import Counter

COUNT = 8
REHEARSED = ("yolo", COUNT)


@pytest.fixture(scope="module")
def dataset(made: Path) -> Path:
    output = made / "dataset"
    output.mkdir()
    yolo.BENCHMARK.build_dataset(made / "data", {}, output, Counter(made / "counter"))
    return output


@pytest.fixture(scope="module")
def answers(made: Path, dataset: Path) -> list[bytes]:
    session, samples = NetworkSession(made / "models" / MODEL), yolo.BENCHMARK.load_samples(dataset)
    return [answer({name: rows[row] for name, rows in samples.items()}, session) for row in range(COUNT)]


def answer(sample: dict[str, Any], session: NetworkSession) -> bytes:
    steps = yolo.BENCHMARK.loop(sample)
    asked = next(steps)
    with pytest.raises(StopIteration) as ended:
        steps.send(session.compute(asked))
    return bytes(ended.value.value.tobytes())


def score(data: list[bytes], dataset: Path, output: Path) -> Any:
    return yolo.BENCHMARK.score(AnswerLog(np.arange(len(data), dtype=np.intp), tuple(data), 0, 0), dataset, output)


def test_the_networks_own_objects_score_highest(answers: list[bytes], dataset: Path, tmp_path: Path) -> None:
    assert score(answers, dataset, tmp_path)["mAP"] == 100.0
    assert (tmp_path / "accuracy.txt").read_text() == "mAP=100.000%\n"
    half = score([*answers[: COUNT // 2], *[b""] * (COUNT // 2)], dataset, tmp_path)
    assert 0 < half["mAP"] < 100


@pytest.mark.parametrize(
    ("height", "width", "placed"),
    [
        (640, 640, (640, 640, 0, 0)),
        (480, 640, (640, 480, 0, 80)),
        (500, 375, (480, 640, 80, 0)),
        (427, 640, (640, 427, 0, 106)),
        (1, 2000, (640, 1, 0, 319)),
    ],
)
def test_an_image_is_placed_in_the_middle(height: int, width: int, placed: tuple[int, ...]) -> None:
    assert tuple(yolo.place_image(height, width)) == placed


def test_pixels_are_red_first_on_grey(tmp_path: Path) -> None:
    blue = np.zeros((320, 640, 3), np.uint8)
    blue[..., 0] = 255
    cv2.imwrite(str(tmp_path / "blue.png"), blue)
    found = yolo.preprocess(tmp_path / "blue.png")
    assert found.shape == (3, 640, 640)
    assert found[:, 320, 320].tolist() == [0, 0, 1]
    assert np.array_equal(found[:, 0, 0], np.full(3, 114 / np.float32(255), np.float32))
    assert (found[2] == 1).sum() == 320 * 640


def rows_of(*objects: tuple[float, float, float, float, int, float]) -> np.ndarray:
    """Middle, size, class and score of each -> what the network would give."""
    found = np.zeros((84, len(objects)), np.float32)
    for place, (x, y, width, height, label, likely) in enumerate(objects):
        found[:4, place], found[4 + label, place] = (x, y, width, height), likely
    return found


def test_of_boxes_of_one_class_that_overlap_the_best_is_left() -> None:
    first, near = (100, 100, 40, 40, 3, 0.5), (102, 100, 40, 40, 3, 0.9)
    other, faint = (102, 100, 40, 40, 4, 0.7), (300, 300, 40, 40, 3, 0.0009)
    found = yolo.find_objects(rows_of(first, near, other, faint))
    assert found[:, 5].tolist() == [3, 4]
    assert found[0, :4].tolist() == [82, 80, 122, 120]
    apart = yolo.find_objects(rows_of(first, (110, 100, 40, 40, 3, 0.9)))  # they share three fifths
    assert len(apart) == 2
