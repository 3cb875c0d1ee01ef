"""Compare our score of BraTS 2019 with the official accuracy script's.

``python -m tests.benchmarks.reference_brats INFERENCE NNUNET``: checkouts of mlcommons/inference and MIC-DKFZ/nnUNet,
the latter at the commit that the script requires (b38c69b3). Needs SimpleITK, medpy and batchgenerators. Both score a
rehearsal's accuracy log, as written by the harness: for its own labels, for labels of which half are another class, and
for random labels. The cropping of cases is nnU-Net's, not ours.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from harness.benchmarks import unet3d_brats
from harness.benchmarks.accuracy import read_accuracy_log
from reconciler.rules.benchmark_facts import load_benchmark_facts
from tests.benchmarks.children import run
from tests.benchmarks.rehearsed import Rehearsed

_FOLDERS = ("vision/medical_imaging/3d-unet-brats19", "retired_benchmarks/vision/medical_imaging/3d-unet-brats19")
_SCRIPT = "accuracy-brats.py"
_PUBLISHED = {0: 0, 1: 2, 2: 1, 3: 4}  # class -> label on disk
_LINE = "Accuracy: mean"


def stand_in() -> None:
    """Replace modules that nnU-Net imports but does not call here, or that have moved since."""
    skimage, transform = types.ModuleType("skimage"), types.ModuleType("skimage.transform")
    transform.resize = skimage.transform = transform  # type: ignore[attr-defined]
    sys.modules |= {"skimage": skimage, "skimage.transform": transform, "pandas": types.ModuleType("pandas")}
    sys.modules["scipy.ndimage.interpolation"] = importlib.import_module("scipy.ndimage")
    evaluation = types.ModuleType("nnunet.postprocessing.consolidate_postprocessing")
    evaluation.collect_cv_niftis = None  # type: ignore[attr-defined]
    sys.modules[evaluation.__name__] = evaluation


def write_log(case: Rehearsed) -> Path:
    """Write the accuracy log of an Offline run."""
    found = run(
        case.folder,
        "Offline",
        benchmark=case.benchmark,
        backend=case.backend,
        dataset=case.dataset,
        engine=case.engine,
        model_key="3d-unet",
        conf={"min_duration": 0, "target_qps": 1},
        settings={"batch_size": case.batch, **case.run},
        mode="accuracy",
    )
    return Path(found["folder"], "mlperf_log_accuracy.json")


def prepare(data: Path, names: Sequence[str], output: Path) -> None:
    """Write the files that the official preparation leaves for its accuracy script, with nnU-Net's own cropping."""
    cropper = importlib.import_module("nnunet.preprocessing.cropping").ImageCropper
    output.mkdir()
    for name in names:
        files = [str(data / unet3d_brats.find_file(name, part)) for part in unet3d_brats.IMAGES]
        _, _, properties = cropper.crop_from_list_of_files(files, None)
        (output / f"{name}.pkl").write_bytes(pickle.dumps([None, properties]))
    (output / "preprocessed_files.pkl").write_bytes(pickle.dumps(list(names)))


def run_script(script: Path, log: Path, prepared: Path, labels: Path, checkout: Path) -> str:
    """Return the line that the script prints."""
    with tempfile.TemporaryDirectory() as predicted:
        options = {
            "log_file": log,
            "preprocessed_data_dir": prepared,
            "postprocessed_data_dir": predicted,
            "label_data_dir": labels,
            "num_threads_nifti_save": 1,
        }
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        start = (
            "import runpy; from tests.benchmarks import reference_brats; reference_brats.stand_in(); "
            f"runpy.run_path({str(script)!r}, run_name='__main__')"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", start, *arguments], env=environment, capture_output=True, text=True, check=False
        )
    found = [line for line in done.stdout.splitlines() if line.startswith(_LINE)]
    return found[0] if found else done.stdout + done.stderr


def label(data: Path, dataset: Path, labels: Path, name: str, classes: np.ndarray) -> None:
    """Write the classes of a case as its labels in the dataset, on disk and for the official script."""
    path = data / unet3d_brats.find_file(name, unet3d_brats.LABELS)
    affine = nibabel.load(path).affine
    published = np.vectorize(_PUBLISHED.get, otypes=[np.int16])(classes)
    nibabel.save(nibabel.Nifti1Image(published.transpose(2, 1, 0), affine), path)
    nibabel.save(nibabel.Nifti1Image(classes.transpose(2, 1, 0), affine), labels / f"{name}.nii.gz")
    np.save(dataset / "labels" / f"{name}.npy", unet3d_brats.read_labels(data, name))


def main(inference: Path, checkout: Path) -> int:
    stand_in()
    sys.path.insert(0, str(checkout))
    script = next(inference / folder / _SCRIPT for folder in _FOLDERS if (inference / folder / _SCRIPT).is_file())
    rng = np.random.default_rng(1)
    differ = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        case = Rehearsed(folder, load_benchmark_facts()["unet3d_brats"])
        log = write_log(case)
        cases = unet3d_brats.load_cases(case.dataset)
        own = {item.name: unet3d_brats.load_labels(case.dataset, item) for item in cases}
        prepare(case.data, list(own), folder / "prepared")
        chosen: dict[str, Any] = {
            "right": lambda classes: classes,
            "half right": lambda classes: np.where(rng.random(classes.shape) < 0.5, classes, (classes + 1) % 4),
            "random": lambda classes: rng.integers(0, 4, classes.shape),
        }
        for title, change in chosen.items():
            labels = Path(tempfile.mkdtemp(dir=folder))
            for name, classes in own.items():
                label(case.data, case.dataset, labels, name, change(classes).astype(np.uint8))
            unet3d_brats.score(read_accuracy_log(log), case.dataset, folder)
            ours = (folder / "accuracy.txt").read_text().strip()
            theirs = run_script(script, log, folder / "prepared", labels, checkout)
            differ += ours != theirs
            reported = "alike" if ours == theirs else "DIFFERENT"
            print(f"{title}: {reported}\n  ours:   {ours}\n  theirs: {theirs}", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*(Path(argument).resolve() for argument in sys.argv[1:3])))
