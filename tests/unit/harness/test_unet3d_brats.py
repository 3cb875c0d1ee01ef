"""3D-UNet on BraTS 2019: cases are checked and prepared, scores become classes, and DICE counts regions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from harness.errors import HarnessError
from tests.shared import need

nibabel = pytest.importorskip("nibabel")
need("scipy", "onnx", "onnxruntime")


from harness.benchmarks import unet3d_brats  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.network_builder import NetworkSession  # noqa: E402
from harness.benchmarks.sources import REHEARSAL  # noqa: E402
from tests.unit.harness.generated import build_dataset, generate  # noqa: E402

CASE = "HGG__BraTS19_2013_13_1"  # the first of the official list
DISK = (20, 30, 25)  # depth, height, width


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One case: a box of random intensities with a hole in its middle, where no image has anything."""
    data = tmp_path_factory.mktemp("brats") / "data"
    (data / unet3d_brats.find_folder(CASE)).mkdir(parents=True)
    (data / REHEARSAL).write_text("{}")
    rng = np.random.default_rng(1)
    for part in unet3d_brats.IMAGES:
        volume = np.zeros(DISK, np.int16)
        volume[4:16, 5:26, 3:20] = rng.integers(100, 1000, (12, 21, 17))
        volume[8:10, 10:12, 9:11] = 0
        write(data / unet3d_brats.find_file(CASE, part), volume)
    labels = np.zeros(DISK, np.int16)
    labels[5, 6:10, 4:8] = [[1, 2, 4, 0]] * 4
    write(data / unet3d_brats.find_file(CASE, "seg"), labels)
    return data.parent


def write(path: Path, volume: np.ndarray) -> None:
    nibabel.save(nibabel.Nifti1Image(volume.transpose(2, 1, 0), np.eye(4)), path)


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


build = partial(build_dataset, unet3d_brats.BENCHMARK)


def test_a_case_is_cropped_normalized_within_the_brain_and_put_in_the_middle(data: Path) -> None:
    output = build(data)
    samples = np.load(output / "samples.npy", mmap_mode="r")
    assert (samples.shape, samples.dtype) == ((1, 4, 224, 224, 160), np.float32)
    (case,) = unet3d_brats.load_cases(output)
    assert (case.name, case.begin, case.size) == (CASE, (4, 5, 3), (12, 21, 17))
    first = np.array(samples[0])
    kept = first[(slice(None), *case.input_slices)].copy()
    assert case.input_slices == (slice(106, 118), slice(101, 122), slice(71, 88))
    assert np.allclose(kept.mean(axis=(1, 2, 3)), 0, atol=1e-5)  # the hole belongs to the brain, and to its mean
    assert np.allclose(kept.std(axis=(1, 2, 3)), 1, atol=1e-5)
    first[(slice(None), *case.input_slices)] = 0
    assert not first.any()
    image = nibabel.load(data / unet3d_brats.find_file(CASE, "t2")).get_fdata().transpose(2, 1, 0)[4:16, 5:26, 3:20]
    assert np.array_equal(np.argsort(kept[2].ravel(), kind="stable"), np.argsort(image.ravel(), kind="stable"))


@pytest.mark.parametrize(
    ("part", "damage", "said"),
    [
        ("seg", lambda path: write(path, np.full(DISK, 3, np.int16)), "labels [3"),
        ("t2", lambda path: write(path, np.ones((20, 30, 24), np.int16)), "[24, 30, 20]"),
        ("seg", lambda path: write(path, np.zeros((9, 9, 9), np.int16)), "[9, 9, 9]"),
        ("t1", flip_a_byte, "_t1.nii.gz"),
    ],
)
def test_a_damaged_file_is_named(data: Path, part: str, damage: Callable[[Path], object], said: str) -> None:
    damage(data / unet3d_brats.find_file(CASE, part))
    with pytest.raises(HarnessError) as caught:
        build(data)
    assert said in caught.value.problem
    assert "MICCAI_BraTS_2019_Data_Training" in caught.value.fix


def test_the_classes_of_what_was_kept_are_scored_by_region(data: Path, tmp_path: Path) -> None:
    output = build(data)
    (case,) = unet3d_brats.load_cases(output)
    labels = unet3d_brats.load_labels(output, case)
    right = np.zeros((4, *unet3d_brats.SHAPE), np.float16)
    right[(0, *case.input_slices)] = 0.5
    for number in range(1, 4):
        right[(number, *case.input_slices)] = labels[case.volume_slices] == number
    perfect = score(output, tmp_path, right)
    assert perfect == {"mean": 1, "whole tumor": 1, "tumor core": 1, "enhancing tumor": 1}
    right[3] = 0  # enhancing tumour is taken for nothing
    found = score(output, tmp_path, right)
    assert found == pytest.approx(
        {"mean": (0.8 + 0.6667) / 3, "whole tumor": 0.8, "tumor core": 2 / 3, "enhancing tumor": 0}
    )
    line = (tmp_path / "accuracy.txt").read_text()
    reported = "Accuracy: mean = 0.48890, whole tumor = 0.8000, tumor core = 0.6667, enhancing tumor = 0.0000\n"
    assert line == reported


def score(dataset: Path, folder: Path, answer: np.ndarray) -> dict[str, float]:
    log = AnswerLog(np.array([0]), (answer.tobytes(),), 0, 0)
    return dict(unet3d_brats.score(log, dataset, folder))


def test_the_networks_own_answers_are_the_labels_of_a_rehearsal(tmp_path_factory: pytest.TempPathFactory) -> None:
    from harness.benchmarks.unet3d_brats.rehearsal import MODEL  # SciPy takes long to load

    folder = generate(tmp_path_factory, "unet3d_brats", 1)
    output = build(folder / "data", dtype="float32")
    volume = np.load(output / "samples.npy", mmap_mode="r")[:1]
    answer = unet3d_brats.BENCHMARK.postprocess(
        NetworkSession(folder / "models" / MODEL).compute({"input": np.array(volume)})
    )
    assert score(output, folder, answer[0])["mean"] == 1
    labels = unet3d_brats.load_labels(output, unet3d_brats.load_cases(output)[0])
    assert set(np.unique(labels).tolist()) == {0, 1, 2, 3}
