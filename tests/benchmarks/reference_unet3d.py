"""Compare our volumes, windows and DICE with the reference's: ``python -m tests.benchmarks.reference_unet3d CHECKOUT``.

CHECKOUT is one of mlcommons/inference with vision/medical_imaging/3d-unet-kits19. Cases of many shapes and spacings are
generated. The reference's functions are called separately, because its scripts require the published cases and an old
pandas.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from harness.benchmarks import unet3d

_FOLDER = "vision/medical_imaging/3d-unet-kits19"
_CASES = 20


def write_case(rng: np.random.Generator, folder: Path) -> None:
    folder.mkdir()
    shape = tuple(int(side) for side in rng.integers(20, 150, 3))
    spacing = [1.6, 1.2, 1.2] if rng.random() < 0.2 else rng.uniform(0.7, 3.0, 3).tolist()
    affine = np.diag([*spacing, 1.0])
    volume = rng.normal(50, 200, shape).astype(np.int16)
    for name, data in ((unet3d.IMAGE, volume), (unet3d.LABELS, rng.integers(0, 3, shape).astype(np.uint8))):
        nibabel.save(nibabel.Nifti1Image(data, affine), folder / name)


def load_reference(checkout: Path) -> tuple[Any, Any, Any]:
    """Load the reference's modules. Other imports are replaced by empty modules if nothing in them is called."""
    os.chdir(checkout / _FOLDER)
    sys.path.insert(0, str(checkout / _FOLDER))
    sys.modules.setdefault("pandas", types.ModuleType("pandas"))
    signal = importlib.import_module("scipy.signal")
    if not hasattr(signal, "gaussian"):  # it has moved since
        signal.gaussian = importlib.import_module("scipy.signal.windows").gaussian  # type: ignore[attr-defined]
    return tuple(importlib.import_module(name) for name in ("preprocess", "inference_utils", "accuracy_kits"))  # type: ignore[return-value]


def slide(reference: Any, volume: np.ndarray) -> np.ndarray:
    """Apply the reference's sliding window to a generated network."""
    image = volume[None]
    result, norm, patch = reference.prepare_arrays(image)
    for i, j, k in reference.get_slice_for_sliding_window(image):
        place = (..., slice(i, i + 128), slice(j, j + 128), slice(k, k + 128))
        result[place] += compute(image[place]) * patch
        norm[place] += patch
    answer: np.ndarray = reference.finalize(result, norm)
    return answer[0]


def compute(windows: np.ndarray) -> np.ndarray:
    """Compute [n, 1, ...] -> [n, 3, ...]. The result depends on the position in the window, so overlapping windows
    differ."""
    ramp = np.linspace(-1, 1, 128, dtype=np.float32)[:, None, None]
    return np.concatenate([windows * ramp, windows * 0.5, np.abs(windows) - ramp], axis=1)


def slide_ours(volume: np.ndarray) -> np.ndarray:
    steps = unet3d.loop({"input": volume})
    asked = next(steps)
    while True:
        try:
            asked = steps.send([compute(asked["input"])])
        except StopIteration as end:
            answer: np.ndarray = end.value
            return answer


def main(checkout: Path) -> None:
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary)
        names = [f"case_{number:05d}" for number in range(_CASES)]
        for name in names:
            write_case(rng, data / name)
        preprocess, utilities, accuracy = load_reference(checkout)
        results = data / "results"
        arguments = types.SimpleNamespace(results_dir=str(results), data_dir=str(data), calibration=True)
        reference = preprocess.Preprocessor(arguments)
        equal = slid = scored = 0
        for name in names:
            image, label, _ = reference.load_and_resample(name)
            image = reference.normalize_intensity(image.copy())
            image, label = reference.pad_to_min_shape(image, label)
            image, label = reference.adjust_shape_for_sliding_window(image, label)
            image, label = image.astype(np.float32), label.astype(np.uint8)
            ours, labels = unet3d.prepare_case(data / name)
            equal += np.array_equal(ours, image) and np.array_equal(labels, label)
            answer = slide_ours(ours)
            slid += np.array_equal(answer, slide(utilities, image))
            _, wanted = accuracy.get_dice_score(name, answer, label)
            scored += np.array_equal(unet3d.compute_dice(answer, label), wanted)
        print(f"{len(names)} cases: {equal} prepared alike, {slid} answered alike, {scored} scored alike")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
