"""3D-UNet on KiTS19: segmentation of kidneys and tumours in volumes of different sizes, by mean DICE."""

from __future__ import annotations

import glob
import gzip
import json
import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import LoopBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    choose_dtype,
    count_threads,
    describe_problems,
    is_rehearsal,
    read_list,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Arrays, Ragged

# Compressed NIfTI volumes on disk, read to the checksum at their end.

_GZIP = b"\x1f\x8b"
LARGEST = 1 << 32  # maximum bytes of a volume; the longest case has two billion


@contextmanager
def open_volume(path: Path, fix: str) -> Iterator[Any]:
    """Open the library's image, whose values must be read within this context. Raises HarnessError if they cannot be
    read or fail the checksum. The library stops before the checksum, so it would not notice a damaged byte."""
    import nibabel  # slow to load, and a run reads prepared volumes

    try:
        with gzip.open(path) as stream:
            yield nibabel.Nifti1Image.from_stream(stream)
            while stream.read(1 << 20):
                pass
    except Exception as error:  # the library raises nothing more specific
        raise HarnessError(f"{path} cannot be read: {error}", "input", fix) from error


def check_volumes(source: Path, folders: Iterable[str], paths: Sequence[str], fix: str) -> None:
    """Check compressed volumes below ``source``. Raises HarnessError naming the first few files that are missing,
    empty, truncated, not gzip, or not part of the benchmark in ``folders``."""
    only = [f"{glob.escape(folder)}/*.nii.gz" for folder in folders]
    check_files(source, [FileRule(path, kind="gzip file", start=_GZIP) for path in paths], only=only, fix=fix)
    cut = [path for path in paths if not is_whole(source / path)]
    if cut:
        raise HarnessError(f"{source}: {describe_problems('cut off', cut, len(paths))}", "input", fix)


def read_sides(path: Path) -> tuple[int, ...]:
    """Return the sides from the header; nothing if it cannot be read."""
    values = _find_values(path)
    return values.shape if values else ()


def is_whole(path: Path) -> bool:
    """Return True if the last bytes, the uncompressed size, agree with the volume's header."""
    values = _find_values(path)
    if values is None:
        return False
    with path.open("rb") as stream:
        stream.seek(-4, os.SEEK_END)
        packed = int.from_bytes(stream.read(4), "little")
    size: int = math.prod(values.shape) * values.dtype.itemsize
    return 0 < size <= LARGEST and packed == (values.offset + size) % 2**32


def _find_values(path: Path) -> Any:
    """Return the library's proxy of the values; None if the header cannot be read."""
    import nibabel  # slow to load, and a run reads prepared volumes

    try:
        with gzip.open(path) as stream:
            return nibabel.Nifti1Image.from_stream(stream).dataobj
    except Exception:  # the library raises nothing more specific
        return None


# A window of 128 x 128 x 128 that slides over a volume by half its side, and the combination of its answers.

SIDE = 128
STRIDE = 64
CLASSES = 3  # neither, kidney, tumour
OUTPUTS = {"output": ((CLASSES, SIDE, SIDE, SIDE), "float32")}
# Cutting and adding a window takes a core 10 to 25 ms, several times as long as a fast GPU needs for it. A volume in
# progress has a sum of all classes, hundreds of megabytes; up to four are at the engine while the others add to theirs.
STEP_THREADS = min(16, max(2, len(os.sched_getaffinity(0)) // 2))
AT_ONCE = STEP_THREADS + min(4, STEP_THREADS // 2)
_ASKED = 8  # how many windows a volume requests at once
_SLAB = 16  # planes of a window: 1 MiB


def list_windows(shape: Sequence[int]) -> Iterator[tuple[slice, slice, slice]]:
    """List the windows of a volume, with the first axis slowest. Its sides must be multiples of the stride."""
    for place in product(*(range(0, size - SIDE + 1, STRIDE) for size in shape)):
        z, y, x = (slice(start, start + SIDE) for start in place)
        yield z, y, x


@cache
def weigh_window() -> NDArray[np.float32]:
    """Return the weight of each position in a window, at most 1: the cube root of a Gaussian around the window's
    middle, whose deviation is an eighth of the side."""
    deviation = 0.125 * SIDE
    place = np.arange(SIDE) - (SIDE - 1.0) / 2
    line = np.exp(-(place**2) / (2 * deviation * deviation))
    cube = np.cbrt(np.outer(np.outer(line, line), line).reshape(SIDE, SIDE, SIDE))
    weights: NDArray[np.float32] = (cube / cube.max()).astype(np.float32)
    return weights


def loop(sample: Arrays) -> Generator[Arrays, Outputs, NDArray[np.uint8]]:
    """Map a volume "input" [1, depth, height, width] to uint8 of the same shape: the class of each position.

    The reference divides each position's sum by that of its weights, which does not change the highest class."""
    volume = sample["input"]
    sums = np.zeros((CLASSES, *volume.shape[1:]), np.float32)
    windows = list(list_windows(volume.shape[1:]))
    for first in range(0, len(windows), _ASKED):
        some = windows[first : first + _ASKED]
        (found,) = yield {"input": np.stack([volume[:, z, y, x] for z, y, x in some])}
        for (z, y, x), scores in zip(some, found, strict=True):
            _add_weighted(sums[:, z, y, x], scores)
    return _find_highest(sums)[None]


def _add_weighted(sums: NDArray[np.float32], scores: NDArray[Any]) -> None:
    """Add a window's scores, times their weights, in slabs that stay in the processor's cache."""
    weights, weighted = weigh_window(), np.empty((_SLAB, SIDE, SIDE), np.float32)
    for label in range(CLASSES):
        for start in range(0, SIDE, _SLAB):
            slab = slice(start, start + _SLAB)
            np.multiply(scores[label, slab], weights[slab], out=weighted)
            sums[label, slab] += weighted


def _find_highest(sums: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return argmax(axis=0), overwriting ``sums``: NumPy's own is ten times slower over the first axis."""
    best, classes = sums[0], np.zeros(sums.shape[1:], np.uint8)
    for label in range(1, CLASSES):
        np.copyto(classes, label, where=sums[label] > best)
        np.maximum(best, sums[label], out=best)
    return classes


# Volumes get one spacing, one range of intensities, and sides that suit a sliding window, as in vision/medical_imaging/
# 3d-unet-kits19/preprocess.py of mlcommons/inference.

SPACING = (1.6, 1.2, 1.2)  # mm
LOWEST, HIGHEST, MEAN, DEVIATION = -79.0, 304.0, 101.0, 76.9
PADDING = -2.2
IMAGE, LABELS = "imaging.nii.gz", "segmentation.nii.gz"
CASES = "cases.json"
_TWICE = {"case_00400": "case_00185"}  # the benchmark's list has this case under two names
_THREADS = 4  # since preparing a case takes about two gigabytes
_OF_EACH = 4  # windows for each case of the calibration list
_FIX = "download the case again (python3 -m starter_code.get_imaging in the clone of kits19); nothing was prepared"


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write volumes/CASE.npy float [1, depth, height, width], labels/CASE.npy uint8 likewise, cases.json;
    calibration.npy [n, 1, 128, 128, 128]."""
    dtype = choose_dtype(settings)
    source = require_source(source, "KiTS19's cases")
    cases = list_cases(source, "unet3d")
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

    with ThreadPoolExecutor(count_threads(settings, _THREADS)) as pool:  # the threads release the interpreter lock
        list(pool.map(prepare, cases))
        if calibration:
            np.save(output / "calibration.npy", np.concatenate(list(pool.map(cut, calibration))))
    (output / CASES).write_text(json.dumps(cases), encoding="ascii")


def load_samples(dataset: Path) -> Mapping[str, Any]:
    return {"input": Ragged(load_cases(dataset, "volumes"))}


def load_cases(dataset: Path, folder: str) -> list[np.ndarray]:
    """Load "volumes" or "labels" of the cases, as memory maps."""
    cases = json.loads((dataset / CASES).read_text(encoding="ascii"))
    return [np.load(dataset / folder / f"{name}.npy", mmap_mode="r") for name in cases]


def list_cases(source: Path, benchmark: str, find_folder: Callable[[str], str] = str) -> list[str]:
    """List the benchmark's cases in its order; for a rehearsal, list the available ones."""
    listed = read_list(benchmark, "cases.txt")
    if is_rehearsal(source):
        return [name for name in listed if (source / find_folder(name)).is_dir()]
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
    # An excess over a multiple of the stride is cut off if it is less than half a stride, and otherwise padded to the
    # next.
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


_SMOOTH = 1e-6


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return mean, kidney and tumor, 0 to 1, over the answered volumes."""
    labels = load_cases(dataset, "labels")
    found = np.array([_compare(data, labels[int(i)]) for i, data in zip(log.indices, log.data, strict=True)])
    kidney, tumor = found.mean(axis=0)
    mean = found.mean(axis=1).mean()
    text = f"Accuracy: mean = {mean:.5f}, kidney = {kidney:.4f}, tumor = {tumor:.4f}\n"
    (output / "accuracy.txt").write_text(text, encoding="ascii")
    return {"mean": float(mean), "kidney": float(kidney), "tumor": float(tumor)}


def _compare(data: bytes, label: np.ndarray) -> np.ndarray:
    answer = np.frombuffer(data, np.uint8)
    if answer.size != label.size or (answer.size and answer.max() >= CLASSES):
        problem = f"a response has {answer.size} voxels, its volume {label.size}, with {CLASSES} classes"
        raise HarnessError(problem, "input", "run accuracy again")
    return compute_dice(answer, label)


def compute_dice(answer: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Compute DICE for each class but the background: twice the intersection, divided by the sum of both sizes."""
    pairs = np.bincount(answer.ravel().astype(np.intp) * CLASSES + label.ravel(), minlength=CLASSES**2)
    table = pairs.reshape(CLASSES, CLASSES).astype(np.float64)
    both, ours, theirs = np.diag(table)[1:], table.sum(axis=1)[1:], table.sum(axis=0)[1:]
    dice: np.ndarray = (2.0 * both + _SMOOTH) / (theirs + ours + _SMOOTH)
    return dice


class Unet3d(LoopBenchmark):
    outputs = OUTPUTS
    response_dtype = "uint8"
    at_once = AT_ONCE
    step_threads = STEP_THREADS
    reuse_outputs = True
    build_dataset = staticmethod(build_dataset)
    load_samples = staticmethod(load_samples)
    loop = staticmethod(loop)
    score = staticmethod(score)


BENCHMARK = Unet3d()
