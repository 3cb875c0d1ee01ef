"""3D-UNet on KiTS19: damaged cases are named, volumes are prepared, windows slide and meet, and DICE counts places."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from harness.errors import HarnessError
from tests.shared import need

nibabel = pytest.importorskip("nibabel")
need("scipy")

from harness.benchmarks import unet3d  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.sources import REHEARSAL  # noqa: E402
from tests.unit.harness.generated import build_dataset  # noqa: E402

CASE = "case_00185"


def write_case(folder: Path, shape: tuple[int, int, int], spacing: tuple[float, float, float]) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    affine = np.diag([*spacing, 1.0])
    volume = rng.integers(-200, 400, shape).astype(np.int16)
    for name, data in ((unet3d.IMAGE, volume), (unet3d.LABELS, rng.integers(0, 3, shape).astype(np.uint8))):
        nibabel.save(nibabel.Nifti1Image(data, affine), folder / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("unet3d") / "data"
    write_case(data / CASE, (40, 50, 60), (1.6, 1.2, 1.2))
    (data / REHEARSAL).write_text("{}")
    return data.parent


build = partial(build_dataset, unet3d)


def test_a_small_volume_is_filled_up_to_a_window_and_its_intensities_are_bounded(data: Path) -> None:
    output = build(data, dtype="float16")
    (volume,), (labels,) = unet3d.load_samples(output)["input"], unet3d.load_cases(output, "labels")
    assert (volume.shape, volume.dtype) == ((1, 128, 128, 128), np.float16)
    assert (labels.shape, labels.dtype) == ((1, 128, 128, 128), np.uint8)
    assert float(volume.min()) >= (-79 - 101) / 76.9 - 1e-2
    assert float(volume.max()) <= (304 - 101) / 76.9 + 1e-2
    middle = (slice(44, 84), slice(39, 89), slice(34, 94))
    written = nibabel.load(data / CASE / unet3d.LABELS).get_fdata()
    assert np.array_equal(labels[0][middle], written)


def _flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def _write_volume(path: Path, data: np.ndarray, spacing: float = 1.6) -> None:
    nibabel.save(nibabel.Nifti1Image(data, np.diag([spacing, 1.2, 1.2, 1.0])), path)


def of(values: np.ndarray, **more: float) -> Callable[[Path], object]:
    return lambda path: _write_volume(path, values, **more)


@pytest.mark.parametrize(
    ("file", "damage", "named"),
    [
        (unet3d.IMAGE, _flip_a_byte, unet3d.IMAGE),
        (unet3d.LABELS, _flip_a_byte, unet3d.LABELS),
        (unet3d.IMAGE, of(np.full((40, 50, 60), np.nan, np.float32)), unet3d.IMAGE),
        (unet3d.IMAGE, of(np.zeros((40, 50, 60), np.float32), spacing=1e-4), "voxel spacing"),
        (unet3d.LABELS, of(np.full((40, 50, 60), 3, np.uint8)), unet3d.LABELS),
        (unet3d.LABELS, of(np.full((40, 50, 60), 0.5, np.float32)), unet3d.LABELS),
    ],
)
def test_a_volume_of_unfit_values_is_named(data: Path, file: str, damage: Callable[[Path], object], named: str) -> None:
    damage(data / CASE / file)
    with pytest.raises(HarnessError) as caught:
        build(data)
    assert named in caught.value.problem
    assert CASE in caught.value.problem
    assert "get_imaging" in caught.value.fix


def test_windows_cover_a_volume_and_half_of_each_is_in_the_next() -> None:
    windows = list(unet3d.list_windows((128, 192, 256)))
    assert len(windows) == 1 * 2 * 3
    assert [(z.start, y.start, x.start) for z, y, x in windows[:4]] == [(0, 0, 0), (0, 0, 64), (0, 0, 128), (0, 64, 0)]
    weights = unet3d.weigh_window()
    assert weights.max() == 1.0
    assert np.array_equal(weights, weights[::-1, ::-1, ::-1])
    assert weights[0, 0, 0] < weights[0, 0, 64] < weights[64, 64, 64]


def test_classes_follow_from_what_all_windows_say_of_a_place() -> None:
    """A network that says what it sees: the class of a place is its own, wherever windows meet."""
    classes = np.random.default_rng(2).integers(0, 3, (128, 128, 192))
    steps = unet3d.loop({"input": classes[None].astype(np.float32)})
    asked = next(steps)
    scores = np.stack([asked["input"][:, 0] == number for number in range(3)], axis=1).astype(np.float32)
    with pytest.raises(StopIteration) as ended:
        steps.send([scores])
    assert np.array_equal(ended.value.value, classes[None].astype(np.uint8))


def test_dice_is_of_kidneys_and_tumours_and_the_line_is_the_official_one(data: Path, tmp_path: Path) -> None:
    output = build(data)
    (labels,) = unet3d.load_cases(output, "labels")
    right = np.ascontiguousarray(labels)
    log = AnswerLog(np.arange(1), (right.tobytes(),), 0, 0)
    assert unet3d.score(log, output, tmp_path)["mean"] == pytest.approx(1.0)
    assert (tmp_path / "accuracy.txt").read_text() == "Accuracy: mean = 1.00000, kidney = 1.0000, tumor = 1.0000\n"
    found = unet3d.compute_dice(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    assert found.tolist() == pytest.approx([2 / 3, 1.0], rel=1e-5)  # no one saw a tumour where there is none
    with pytest.raises(HarnessError, match="a response has 3 voxels"):
        unet3d.score(AnswerLog(np.arange(1), (b"abc",), 0, 0), output, tmp_path)
