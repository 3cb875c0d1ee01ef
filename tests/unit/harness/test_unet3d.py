"""3D-UNet on KiTS19: damaged cases are named, volumes are prepared, windows slide and meet, and DICE counts places."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.contract import Counter
from harness.errors import HarnessError
from tests.shared import need

nibabel = pytest.importorskip("nibabel")
need("scipy")

from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.sources import REHEARSAL  # noqa: E402
from harness.benchmarks.unet3d import kits19, scoring, sliding  # noqa: E402

CASE = "case_00185"


def write_case(folder: Path, shape: tuple[int, int, int], spacing: tuple[float, float, float]) -> None:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    affine = np.diag([*spacing, 1.0])
    volume = rng.integers(-200, 400, shape).astype(np.int16)
    for name, data in ((kits19.IMAGE, volume), (kits19.LABELS, rng.integers(0, 3, shape).astype(np.uint8))):
        nibabel.save(nibabel.Nifti1Image(data, affine), folder / name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("unet3d") / "data"
    write_case(data / CASE, (40, 50, 60), (1.6, 1.2, 1.2))
    (data / REHEARSAL).write_text("{}")
    return data


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def build(data: Path, **settings: object) -> Path:
    output = data.parent / "output"
    output.mkdir()
    kits19.build_dataset(data, settings, output, Counter(data.parent / "counter"))
    return output


def test_a_small_volume_is_filled_up_to_a_window_and_its_intensities_are_bounded(data: Path) -> None:
    output = build(data, dtype="float16")
    (volume,), (labels,) = kits19.load_samples(output)["input"], kits19.load_labels(output)
    assert (volume.shape, volume.dtype) == ((1, 128, 128, 128), np.float16)
    assert (labels.shape, labels.dtype) == ((1, 128, 128, 128), np.uint8)
    assert float(volume.min()) >= (-79 - 101) / 76.9 - 1e-2
    assert float(volume.max()) <= (304 - 101) / 76.9 + 1e-2
    middle = (slice(44, 84), slice(39, 89), slice(34, 94))
    written = nibabel.load(data / CASE / kits19.LABELS).get_fdata()
    assert np.array_equal(labels[0][middle], written)


@pytest.mark.parametrize(("side", "wanted"), [(128, 128), (150, 128), (165, 192), (223, 192), (224, 256)])
def test_sides_are_cut_or_filled_to_multiples_of_the_stride(tmp_path: Path, side: int, wanted: int) -> None:
    write_case(tmp_path / CASE, (side, 20, 20), (1.6, 1.2, 1.2))
    volume, labels = kits19.prepare_case(tmp_path / CASE)
    assert volume.shape == labels.shape == (1, wanted, 128, 128)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(lambda path: path.unlink(), "1 is missing: case_00185/imaging", id="missing"),
        pytest.param(lambda path: path.write_bytes(b""), "1 is empty: case_00185/imaging", id="empty"),
        pytest.param(lambda path: path.write_bytes(b"<html>"), "1 is no gzip file: case_00185/imaging", id="html"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-999]), "1 is cut off: case_00185", id="cut"),
        pytest.param(
            lambda path: path.with_name("prediction.nii.gz").write_bytes(path.read_bytes()),
            "of 2 files 1 belongs to nothing: case_00185/prediction.nii.gz",
            id="extra",
        ),
        pytest.param(
            lambda path: path.with_name("imaging.nii(1).gz").touch(),
            r"1 belongs to nothing: case_00185/imaging\.nii\(1\)\.gz",
            id="second-copy",
        ),
    ],
)
def test_a_damaged_case_is_named_and_nothing_is_prepared(data: Path, damage: Any, problem: str) -> None:
    damage(data / CASE / kits19.IMAGE)
    with pytest.raises(HarnessError, match=problem) as caught:
        build(data)
    assert "get_imaging" in caught.value.fix
    assert not list((data.parent / "output").iterdir())


def _flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def _write_volume(path: Path, data: np.ndarray, spacing: float = 1.6) -> None:
    nibabel.save(nibabel.Nifti1Image(data, np.diag([spacing, 1.2, 1.2, 1.0])), path)


@pytest.mark.parametrize(
    ("file", "damage", "problem"),
    [
        pytest.param(kits19.IMAGE, _flip_a_byte, f"{CASE}/imaging.nii.gz cannot be read: ", id="a-byte-of-a-volume"),
        pytest.param(
            kits19.LABELS, _flip_a_byte, f"{CASE}/segmentation.nii.gz cannot be read: ", id="a-byte-of-labels"
        ),
        pytest.param(
            kits19.IMAGE,
            lambda path: _write_volume(path, np.full((40, 50, 60), np.nan, np.float32)),
            f"{CASE}/imaging.nii.gz holds intensities that are no numbers",
            id="no-numbers",
        ),
        pytest.param(
            kits19.LABELS,
            lambda path: _write_volume(path, np.full((40, 50, 60), 3, np.uint8)),
            f"{CASE}/segmentation.nii.gz has labels other than 0 to 2",
            id="another-label",
        ),
        pytest.param(
            kits19.LABELS,
            lambda path: _write_volume(path, np.full((40, 50, 60), 0.5, np.float32)),
            f"{CASE}/segmentation.nii.gz has labels other than 0 to 2",
            id="half-a-label",
        ),
        pytest.param(
            kits19.IMAGE,
            lambda path: _write_volume(path, np.zeros((40, 50, 60), np.float32), spacing=1e-4),
            "imaging.nii.gz says that its voxels are",
            id="nothing-left",
        ),
    ],
)
def test_a_volume_whose_values_cannot_be_right_is_named(data: Path, file: str, damage: Any, problem: str) -> None:
    """Though it is as long as its header says."""
    damage(data / CASE / file)
    with pytest.raises(HarnessError, match=problem) as caught:
        build(data)
    assert "get_imaging" in caught.value.fix


def test_without_the_mark_of_a_rehearsal_all_cases_must_be_there(data: Path) -> None:
    (data / REHEARSAL).unlink()
    with pytest.raises(HarnessError, match=r"82 are missing: case_00000/imaging\.nii\.gz"):
        build(data)  # 43 samples of 42 cases, one of which is there


def test_windows_cover_a_volume_and_half_of_each_is_in_the_next() -> None:
    windows = list(sliding.list_windows((128, 192, 256)))
    assert len(windows) == 1 * 2 * 3
    assert [(z.start, y.start, x.start) for z, y, x in windows[:4]] == [(0, 0, 0), (0, 0, 64), (0, 0, 128), (0, 64, 0)]
    weights = sliding.weigh_window()
    assert weights.max() == 1.0
    assert np.array_equal(weights, weights[::-1, ::-1, ::-1])
    assert weights[0, 0, 0] < weights[0, 0, 64] < weights[64, 64, 64]


def test_classes_follow_from_what_all_windows_say_of_a_place() -> None:
    """A network that says what it sees: the class of a place is its own, wherever windows meet."""
    classes = np.random.default_rng(2).integers(0, 3, (128, 128, 192))
    steps = sliding.loop({"input": classes[None].astype(np.float32)})
    asked = next(steps)
    scores = np.stack([asked["input"][:, 0] == number for number in range(3)], axis=1).astype(np.float32)
    with pytest.raises(StopIteration) as ended:
        steps.send([scores])
    assert np.array_equal(ended.value.value, classes[None].astype(np.uint8))


def test_dice_is_of_kidneys_and_tumours_and_the_line_is_the_official_one(data: Path, tmp_path: Path) -> None:
    output = build(data)
    (labels,) = kits19.load_labels(output)
    right = np.ascontiguousarray(labels)
    log = AnswerLog(np.arange(1), (right.tobytes(),), 0, 0)
    assert scoring.score(log, output, tmp_path)["mean"] == pytest.approx(1.0)
    assert (tmp_path / "accuracy.txt").read_text() == "Accuracy: mean = 1.00000, kidney = 1.0000, tumor = 1.0000\n"
    found = scoring.compute_dice(np.array([1, 1, 0, 0]), np.array([1, 0, 0, 0]))
    assert found.tolist() == pytest.approx([2 / 3, 1.0], rel=1e-5)  # nobody saw a tumour where there is none
    with pytest.raises(HarnessError, match="a response holds 3 places"):
        scoring.score(AnswerLog(np.arange(1), (b"abc",), 0, 0), output, tmp_path)
