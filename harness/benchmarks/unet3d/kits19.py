"""KiTS19 in its usual layout on disk, and as the reference's network expects it.

Volumes get one spacing, one range of intensities, and sides that suit a sliding window, as in vision/medical_imaging/
3d-unet-kits19/preprocess.py of mlcommons/inference.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.sources import (
    choose_count,
    choose_dtype,
    is_rehearsal,
    read_list,
    require_source,
)
from harness.benchmarks.unet3d.sliding import CLASSES, SIDE, STRIDE, list_windows
from harness.benchmarks.unet3d.volumes import LARGEST, check_volumes, open_volume
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Ragged

SPACING = (1.6, 1.2, 1.2)  # mm
LOWEST, HIGHEST, MEAN, DEVIATION = -79.0, 304.0, 101.0, 76.9
PADDING = -2.2
DTYPES = ("float32", "float16")
IMAGE, LABELS = "imaging.nii.gz", "segmentation.nii.gz"
CASES = "cases.json"
_TWICE = {"case_00400": "case_00185"}  # the benchmark's list has this case under two names
_THREADS = 4  # preparing a case takes about two gigabytes
_OF_EACH = 4  # windows per case of the calibration list
_FIX = "download the case again (python3 -m starter_code.get_imaging in the clone of kits19); nothing was prepared"


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write volumes/CASE.npy float [1, depth, height, width], labels/CASE.npy uint8 likewise, cases.json;
    calibration.npy [n, 1, 128, 128, 128].

    ``settings``: dtype ("float32" or "float16"), count (number of cases, from the first), threads.
    """
    dtype = choose_dtype(settings, DTYPES)
    source = require_source(source, "KiTS19's cases")
    cases = list_cases(source)
    cases = cases[: choose_count(settings, len(cases))]
    calibration = [name for name in read_list("unet3d", "calibration.txt") if (source / name / IMAGE).is_file()]
    check_cases(source, [*cases, *calibration])
    for folder in ("volumes", "labels"):
        (output / folder).mkdir()
    counter.stage("building", len(cases) + len(calibration))

    def prepare(name: str) -> None:
        image, labels = prepare_case(source / _find_folder(source, name))
        np.save(output / "volumes" / f"{name}.npy", image.astype(dtype))
        np.save(output / "labels" / f"{name}.npy", labels)
        counter.bump(1)

    def cut(name: str) -> NDArray[np.float32]:
        image, _ = prepare_case(source / name)
        windows = list(list_windows(image.shape[1:]))
        chosen = windows[:: max(1, len(windows) // _OF_EACH)][:_OF_EACH]
        counter.bump(1)
        return np.stack([image[:, z, y, x] for z, y, x in chosen]).astype(dtype)

    threads = int(settings.get("threads", 0)) or min(_THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads) as pool:  # reading and resampling release the interpreter lock
        list(pool.map(prepare, cases))
        if calibration:
            np.save(output / "calibration.npy", np.concatenate(list(pool.map(cut, calibration))))
    (output / CASES).write_text(json.dumps(cases), encoding="ascii")


def load_samples(dataset: Path) -> Mapping[str, Any]:
    return {"input": Ragged(_load(dataset, "volumes"))}


def load_labels(dataset: Path) -> Sequence[np.ndarray]:
    return _load(dataset, "labels")


def load_calibration(dataset: Path) -> Mapping[str, np.ndarray]:
    """Load windows of the available cases in the official list (calibration/KiTS of mlcommons/inference)."""
    path = dataset / "calibration.npy"
    return {"input": np.load(path, mmap_mode="r")} if path.is_file() else {}


def _load(dataset: Path, folder: str) -> list[np.ndarray]:
    cases = json.loads((dataset / CASES).read_text(encoding="ascii"))
    return [np.load(dataset / folder / f"{name}.npy", mmap_mode="r") for name in cases]


def list_cases(source: Path) -> list[str]:
    """List the cases of the benchmark in its order; for a rehearsal, the available ones."""
    listed = read_list("unet3d", "cases.txt")
    if is_rehearsal(source):
        return [name for name in listed if (source / name).is_dir()]
    return listed


def _find_folder(source: Path, name: str) -> str:
    return name if (source / name).is_dir() else _TWICE.get(name, name)


def check_cases(source: Path, names: Sequence[str]) -> None:
    folders = dict.fromkeys(_find_folder(source, name) for name in names)
    paths = [f"{folder}/{file}" for folder in folders for file in (IMAGE, LABELS)]
    check_volumes(source, folders, paths, _FIX)


def prepare_case(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """Return volume and labels [1, depth, height, width], with sides of at least 128 that are multiples of 64."""
    image, labels = _resample(folder)
    image = (np.clip(image, LOWEST, HIGHEST) - MEAN) / DEVIATION
    short = [(0, 0), *(_halve(max(0, SIDE - size)) for size in image.shape[1:])]
    image, labels = np.pad(image, short, mode="edge"), np.pad(labels, short, mode="edge")
    # An excess over a multiple of the stride of less than half of it is cut off, otherwise padded to the next.
    over = [size % STRIDE if size % STRIDE < STRIDE // 2 else 0 for size in image.shape[1:]]
    inner = (
        slice(None),
        *(slice(cut // 2, size - (cut - cut // 2)) for cut, size in zip(over, image.shape[1:], strict=True)),
    )
    image, labels = image[inner], labels[inner]
    missing = [(0, 0), *(_halve(-size % STRIDE) for size in image.shape[1:])]
    image = np.pad(image, missing, mode="constant", constant_values=PADDING)
    labels = np.pad(labels, missing, mode="constant", constant_values=0)
    return image.astype(np.float32), labels.astype(np.uint8)


def _halve(count: int) -> tuple[int, int]:
    return count // 2, count - count // 2


def _resample(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Resample to the common spacing: linear interpolation for values, the nearest class for labels."""
    from scipy.ndimage import zoom  # slow to load, and a run reads prepared volumes

    with open_volume(folder / IMAGE, _FIX) as image:
        spacing = image.header["pixdim"][1:4].tolist()
        values = image.get_fdata(caching="unchanged").astype(np.float32)
    classes = _read_classes(folder / LABELS)
    if values.ndim != 3 or values.shape != classes.shape:
        shapes = f"{list(values.shape)} and {list(classes.shape)}"
        raise HarnessError(f"{folder}: volume and labels have shapes {shapes}", "input", _FIX)
    if not np.isfinite(values).all():
        raise HarnessError(f"{folder / IMAGE} contains intensities that are not numbers", "input", _FIX)
    if spacing != list(SPACING):
        factor = np.array(spacing) / np.array(SPACING)
        sides = factor * values.shape
        if not (sides >= 1).all() or np.prod(factor) * values.nbytes > LARGEST:
            raise HarnessError(f"{folder}: {IMAGE} has an invalid voxel spacing of {spacing} mm", "input", _FIX)
        values = zoom(values, factor, order=1, mode="constant", cval=values.min(), grid_mode=False)
        classes = zoom(classes, factor, order=0, mode="constant", cval=classes.min(), grid_mode=False)
    return values[None], classes[None]


def _read_classes(path: Path) -> NDArray[np.uint8]:
    with open_volume(path, _FIX) as labels:
        found = labels.get_fdata(caching="unchanged")
    with np.errstate(invalid="ignore"):  # NaN is reported below
        classes: NDArray[np.uint8] = found.astype(np.uint8)
    if not ((classes == found) & (classes < CLASSES)).all():
        raise HarnessError(f"{path} has labels other than 0 to {CLASSES - 1}", "input", _FIX)
    return classes
