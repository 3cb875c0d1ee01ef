"""A small BraTS 2019 of generated brains, and a network with the reference's signature that finds classes in them.

Labels are the network's own fp32 answers, sent and read like a run's.
"""

from __future__ import annotations

from pathlib import Path

import nibabel
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom

from harness.benchmarks.network_builder import NetworkBuilder, NetworkSession, Tensors
from harness.benchmarks.sources import REHEARSAL, read_case_names
from harness.benchmarks.unet3d.rehearsal import save_balanced, write_blocks, write_unet
from harness.benchmarks.unet3d_brats import (
    BENCHMARK,
    CLASSES,
    IMAGES,
    LABELS,
    ON_DISK,
    OUTPUT,
    SHAPE,
    choose_classes,
    find_file,
    find_folder,
    prepare_case,
)
from harness.contract import Counter

MODEL = "224_224_160.onnx"
ON_DISK_SHAPE = (155, 240, 240)  # depth, height, width
_WIDTHS = (32, 64, 128, 256, 320)
_VOLUME: Tensors = {"input": ("float32", ["N", len(IMAGES), *SHAPE])}
_SCORES: list[int | str] = ["N", CLASSES, *SHAPE]


def write_rehearsal(data: Path, models: Path, *, count: int, seed: int, size: str, counter: Counter) -> None:
    names = read_case_names("unet3d_brats", count)
    rng = np.random.default_rng(seed)
    (data / REHEARSAL).write_text("{}", encoding="utf-8")
    for name in names:
        (data / find_folder(name)).mkdir(parents=True)
        brain = draw_brain(rng)
        for part in IMAGES:
            _write(data / find_file(name, part), draw_image(rng, brain))
    first = prepare_case(data, names[0])
    write_network(models / MODEL, rng, first[0][None], _WIDTHS if size == "full" else ())
    session = NetworkSession(models / MODEL)
    published = np.zeros(CLASSES, np.int16)
    for label, number in ON_DISK.items():
        published[number] = label
    for name in names:
        volume, case = first if name == names[0] else prepare_case(data, name)
        scores = BENCHMARK.postprocess(session.compute({"input": volume[None]}))[0]
        labels = np.zeros(ON_DISK_SHAPE, np.int16)
        labels[case.volume_slices] = published[choose_classes(scores, case)]
        _write(data / find_file(name, LABELS), labels)
        counter.bump(1)


def draw_brain(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw an ellipsoid around the middle."""
    middle = [side / 2 + rng.uniform(-3, 3) for side in ON_DISK_SHAPE]
    radii = (65 + rng.uniform(0, 6), 82 + rng.uniform(0, 8), 66 + rng.uniform(0, 6))
    axes = np.ogrid[tuple(slice(0, side) for side in ON_DISK_SHAPE)]
    away = sum(((axis - at) / radius) ** 2 for axis, at, radius in zip(axes, middle, radii, strict=True))
    return np.asarray(away <= 1)


def draw_image(rng: np.random.Generator, brain: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Draw smooth intensities, above zero within the brain and zero outside."""
    coarse = rng.normal(400, 120, (8, 8, 8))
    values: NDArray[np.float64] = zoom(coarse, [side / 8 for side in ON_DISK_SHAPE], order=1)
    values += rng.normal(0, 20, ON_DISK_SHAPE)
    np.maximum(values, 1, out=values)
    return np.where(brain, values.astype(np.int16), np.int16(0))


def _write(path: Path, volume: NDArray[np.int16]) -> None:
    nibabel.save(nibabel.Nifti1Image(volume.transpose(2, 1, 0), np.eye(4)), path)


def write_network(path: Path, rng: np.random.Generator, volume: NDArray[np.float32], widths: tuple[int, ...]) -> None:
    """Map input float32 [N, 4, 224, 224, 160] to output float32 of the same shape; each class is the likeliest at about
    the same number of positions of ``volume``."""
    net = NetworkBuilder(rng)
    top = write_unet(net, widths, len(IMAGES), CLASSES) if widths else write_blocks(net, len(IMAGES), CLASSES)
    save_balanced(net, path, "unet3d_brats_rehearsal", top, _VOLUME, {OUTPUT: ("float32", _SCORES)}, volume)
