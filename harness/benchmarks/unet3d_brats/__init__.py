"""3D-UNet on BraTS 2019: segmentation of brain tumours, by mean DICE, as in rounds up to v1.1.

A response contains the scores of all classes at each position, 64 MB per volume, as in the reference, so the official
script reads the accuracy log unchanged (its default is --output_dtype float16).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import TensorBenchmark, copy_model
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import (
    choose_count,
    choose_dtype,
    count_threads,
    read_list,
    require_source,
)
from harness.benchmarks.unet3d import check_volumes, list_cases, open_volume, read_sides
from harness.contract import Counter
from harness.errors import HarnessError

# Volumes are cropped to the region where any of the four images is not zero, each image is normalized within the brain,
# and zeros pad the volume to one size, as vision/medical_imaging/3d-unet/preprocess.py of mlcommons/inference (v1.0)
# does with nnU-Net. Axes are depth, height, width.

SHAPE = (224, 224, 160)
IMAGES = ("t1", "t1ce", "t2", "flair")
LABELS = "seg"
CLASSES = 4  # none, edema, the core without enhancing tumour, enhancing tumour
ON_DISK = {2: 1, 1: 2, 4: 3}  # published labels -> classes
CASES = "cases.json"
_FOLDER = "unet3d_brats"
_THREADS = 4  # since preparing a case takes about a gigabyte
_FIX = "unpack MICCAI_BraTS_2019_Data_Training again; nothing was prepared"


@dataclass(frozen=True, slots=True)
class Case:
    """``begin``, ``size``: where the kept part begins in the complete volume, and its size."""

    name: str
    begin: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def input_slices(self) -> tuple[slice, ...]:
        """Position of the kept part in the network's input."""
        starts = [(whole - size) // 2 for whole, size in zip(SHAPE, self.size, strict=True)]
        return tuple(slice(start, start + size) for start, size in zip(starts, self.size, strict=True))

    @property
    def volume_slices(self) -> tuple[slice, ...]:
        """Position of the kept part in the volume on disk."""
        return tuple(slice(start, start + size) for start, size in zip(self.begin, self.size, strict=True))


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write samples.npy float [n, 4, 224, 224, 160], labels/CASE.npy uint8 [depth, height, width], cases.json;
    calibration.npy like samples.npy."""
    dtype = choose_dtype(settings)
    source = require_source(source, "BraTS 2019's cases")
    names = list_cases(source, _FOLDER, find_folder)
    names = names[: choose_count(settings, len(names))]
    listed = read_list(_FOLDER, "calibration.txt")
    calibration = [name for name in listed if (source / find_folder(name)).is_dir()]
    check_cases(source, [*names, *calibration])
    (output / "labels").mkdir()
    counter.stage("building", len(names) + len(calibration))

    def prepare(target: np.memmap, number: int, name: str) -> Case:
        volume, case = prepare_case(source, name)
        target[number] = volume
        counter.bump(1)
        return case

    def prepare_both(target: np.memmap, number: int, name: str) -> Case:
        np.save(output / "labels" / f"{name}.npy", read_labels(source, name))
        return prepare(target, number, name)

    with ThreadPoolExecutor(count_threads(settings, _THREADS)) as pool:  # reading releases the interpreter lock
        samples = _open(output / "samples.npy", len(names), dtype)
        cases = list(pool.map(lambda item: prepare_both(samples, *item), enumerate(names)))
        samples.flush()
        if calibration:
            chosen = _open(output / "calibration.npy", len(calibration), dtype)
            list(pool.map(lambda item: prepare(chosen, *item), enumerate(calibration)))
            chosen.flush()
    (output / CASES).write_text(json.dumps([asdict(case) for case in cases]), encoding="ascii")


def _open(path: Path, count: int, dtype: str) -> np.memmap:
    return open_memmap(path, "w+", np.dtype(dtype), (count, len(IMAGES), *SHAPE))


def load_cases(dataset: Path) -> list[Case]:
    listed = json.loads((dataset / CASES).read_text(encoding="ascii"))
    return [Case(item["name"], tuple(item["begin"]), tuple(item["size"])) for item in listed]


def load_labels(dataset: Path, case: Case) -> NDArray[np.uint8]:
    labels: NDArray[np.uint8] = np.load(dataset / "labels" / f"{case.name}.npy")
    return labels


def find_folder(name: str) -> str:
    """Find the folder; the official lists write HGG__CASE for HGG/CASE on disk."""
    return name.replace("__", "/", 1)


def find_file(name: str, part: str) -> str:
    folder = find_folder(name)
    return f"{folder}/{folder.rpartition('/')[2]}_{part}.nii.gz"


def check_cases(source: Path, names: Sequence[str]) -> None:
    paths = [find_file(name, part) for name in dict.fromkeys(names) for part in (*IMAGES, LABELS)]
    check_volumes(source, map(find_folder, names), paths, _FIX)
    for name in dict.fromkeys(names):
        _check_sides(source, name)


def _check_sides(source: Path, name: str) -> None:
    """Check that all volumes of a case have the same shape."""
    sides = {part: read_sides(source / find_file(name, part)) for part in (*IMAGES, LABELS)}
    if len(set(sides.values())) > 1:
        found_shapes = ", ".join(f"{part} {list(found)}" for part, found in sides.items())
        problem = f"{source / find_folder(name)}: its volumes have different shapes: {found_shapes}"
        raise HarnessError(problem, "input", _FIX)


def prepare_case(source: Path, name: str) -> tuple[NDArray[np.float32], Case]:
    """Return float32 [4, 224, 224, 160], and the part of the case that it contains."""
    # Slow to load, and a run reads prepared volumes.
    from scipy.ndimage import binary_fill_holes

    images = [_read(source, name, part) for part in IMAGES]
    found = np.logical_or.reduce([image != 0 for image in images])
    if not found.any():
        raise HarnessError(f"{source / find_folder(name)}: its images contain only zeros", "input", _FIX)
    places = [np.flatnonzero(found.any(axis=others)) for others in ((1, 2), (0, 2), (0, 1))]
    begin, end = [int(axis[0]) for axis in places], [int(axis[-1]) + 1 for axis in places]
    case = Case(name, tuple(begin), tuple(last - first for first, last in zip(begin, end, strict=True)))
    if any(size > whole for size, whole in zip(case.size, SHAPE, strict=True)):
        problem = f"{source / find_folder(name)} is {case.size} without zeros around it, but the network takes {SHAPE}"
        raise HarnessError(problem, "input", _FIX)
    inside = binary_fill_holes(found[case.volume_slices])
    whole = np.zeros((len(IMAGES), *SHAPE), np.float32)
    for image, target in zip(images, whole, strict=True):
        values = image[case.volume_slices][inside].astype(np.float32)
        part = np.zeros(case.size, np.float32)
        part[inside] = (values - values.mean()) / (values.std() + 1e-8)
        target[case.input_slices] = part
    return whole, case


def read_labels(source: Path, name: str) -> NDArray[np.uint8]:
    """Return the classes [depth, height, width] of the complete volume."""
    found = _read(source, name, LABELS)
    unknown = sorted(set(np.unique(found).tolist()) - {0, *ON_DISK})
    if unknown:
        raise HarnessError(f"{source / find_file(name, LABELS)} has labels {unknown[:5]}", "input", _FIX)
    classes = np.zeros(found.shape, np.uint8)
    for label, number in ON_DISK.items():
        classes[found == label] = number
    return classes


def _read(source: Path, name: str, part: str) -> np.ndarray:
    path = source / find_file(name, part)
    with open_volume(path, _FIX) as image:
        values: np.ndarray = np.asanyarray(image.dataobj)  # in the small type that is on disk
    if values.ndim != 3:
        raise HarnessError(f"{path} has {values.ndim} axes, not three", "input", _FIX)
    if values.dtype.kind not in "biuf":
        raise HarnessError(f"{path} contains {values.dtype}, not one number per voxel", "input", _FIX)
    return np.ascontiguousarray(values.transpose(2, 1, 0))


# The mean DICE of whole tumour, tumour core and enhancing tumour, in the format that the official script prints.

_PRINTED = 4  # decimals of a region's mean
REGIONS = {"whole tumor": (1, 2, 3), "tumor core": (2, 3), "enhancing tumor": (3,)}


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return mean and each region, 0 to 1. A case is excluded from a region's mean if it has no such region and none
    was found.

    The official script reads the regions from a table with four decimals, so the mean is that of the rounded values.
    """
    cases = load_cases(dataset)
    found = np.array([_compare(data, dataset, cases[int(i)]) for i, data in zip(log.indices, log.data, strict=True)])
    there = ~np.isnan(found)
    sums, counts = np.where(there, found, 0).sum(axis=0), there.sum(axis=0)
    means = [float(total / count) if count else 0.0 for total, count in zip(sums, counts, strict=True)]
    regions = dict(zip(REGIONS, means, strict=True))
    mean = sum(round(value, _PRINTED) for value in means) / len(means)
    summary = ", ".join(f"{name} = {value:.4f}" for name, value in regions.items())
    (output / "accuracy.txt").write_text(f"Accuracy: mean = {mean:.5f}, {summary}\n", encoding="ascii")
    return {"mean": mean, **regions}


def _compare(data: bytes, dataset: Path, case: Case) -> NDArray[np.float64]:
    scores = np.frombuffer(data, np.float16)
    if scores.size != CLASSES * np.prod(SHAPE):
        problem = f"a response has {scores.size} numbers, not {CLASSES} classes in {SHAPE}"
        raise HarnessError(problem, "input", "run accuracy again")
    labels = load_labels(dataset, case)
    answer = np.zeros(labels.shape, np.uint8)
    answer[case.volume_slices] = choose_classes(scores, case)
    return compute_dice(answer, labels)


def choose_classes(scores: NDArray[np.float16], case: Case) -> NDArray[np.uint8]:
    """Choose the likeliest class of each position in the kept part of a case; ties go to the first."""
    kept = scores.reshape(CLASSES, *SHAPE)[(slice(None), *case.input_slices)]
    classes: NDArray[np.uint8] = kept.argmax(axis=0).astype(np.uint8)
    return classes


def compute_dice(answer: NDArray[np.uint8], labels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Compute DICE for each region; nan if neither side contains it."""
    pairs = np.bincount(answer.ravel().astype(np.intp) * CLASSES + labels.ravel(), minlength=CLASSES**2)
    table = pairs.reshape(CLASSES, CLASSES)
    dice = []
    for classes in REGIONS.values():
        chosen = np.isin(np.arange(CLASSES), classes)
        total = int(table[chosen].sum() + table[:, chosen].sum())
        dice.append(2.0 * int(table[np.ix_(chosen, chosen)].sum()) / total if total else np.nan)
    return np.array(dice)


# The published network has five outputs; one of them is the benchmark's.

OUTPUT = "output"


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    """Write model.onnx from an ONNX file, keeping only the benchmark's output, since the others are never read."""
    copy_model(source, settings, inputs, output, counter)
    path = output / "model.onnx"
    if not path.is_file():
        return
    model = onnx.load(str(path))
    others = [item for item in model.graph.output if item.name != OUTPUT]
    if 0 < len(others) < len(model.graph.output):
        for item in others:
            model.graph.output.remove(item)
        onnx.save(model, str(path))


class Unet3dBrats(TensorBenchmark):
    outputs = {OUTPUT: ((CLASSES, *SHAPE), "float32")}
    response_dtype = "float16"
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)
    score = staticmethod(score)

    def postprocess(self, outputs: Outputs) -> NDArray[np.float16]:
        """Convert scores float [n, 4, 224, 224, 160] to float16."""
        return np.asarray(outputs[0], np.float16)


BENCHMARK = Unet3dBrats()
