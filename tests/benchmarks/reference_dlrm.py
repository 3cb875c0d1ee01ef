"""Compare our samples, checkpoint reader and AUC with others': ``python -m tests.benchmarks.reference_dlrm CHECKOUT``.

CHECKOUT is one of mlcommons/inference with recommendation/dlrm_v2. Days of many sizes are generated. Needs PyTorch for
the reference's tensors, scikit-learn, and torchsnapshot, which writes checkpoints like training does; of torchrec, only
names are needed.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import dlrm_v2
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.dlrm_v2 import criteo
from harness.benchmarks.dlrm_v2.checkpoint import open_checkpoint
from harness.benchmarks.dlrm_v2.layers import DENSE, MULTI_HOT, TABLE_ROWS
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from tests.benchmarks.comparing import run_script, write_log

_FOLDER = "recommendation/dlrm_v2/pytorch"
_DAYS = 20


class KeyedJaggedTensor:
    """The reference's input to torchrec: all values, feature by feature."""

    def __init__(self, *, values: Any, length_per_key: list[int], stride: int, **_: Any) -> None:
        self.values, self.sizes, self.stride = values, length_per_key, stride


def stand_in_for_torchrec() -> None:
    """Define the names that the reference imports; none of them computes anything."""
    criteo_names = {"CAT_FEATURE_COUNT": 26, "DAYS": 24, "DEFAULT_CAT_NAMES": [], "DEFAULT_INT_NAMES": []}
    modules: dict[str, dict[str, Any]] = {
        "torchrec": {},
        "torchrec.datasets": {},
        "torchrec.datasets.criteo": criteo_names,
        "torchrec.datasets.utils": {"Batch": types.SimpleNamespace},
        "torchrec.sparse": {},
        "torchrec.sparse.jagged_tensor": {"KeyedJaggedTensor": KeyedJaggedTensor},
    }
    for name, values in modules.items():
        module = types.ModuleType(name)
        vars(module).update(values)
        sys.modules[name] = module


def write_day(rng: np.random.Generator, folder: Path, rows: int) -> None:
    folder.mkdir()
    np.save(folder / criteo.DENSE_FILE, rng.exponential(2, (rows, DENSE)).astype(np.float32))
    np.save(folder / criteo.LABELS_FILE, rng.integers(0, 2, (rows, 1), np.int32))
    sparse = {
        str(number): rng.integers(0, size, (rows, values), np.int32)
        for number, (size, values) in enumerate(zip(TABLE_ROWS, MULTI_HOT, strict=True))
    }
    np.savez(folder / criteo.SPARSE_FILE, allow_pickle=False, **sparse)
    (folder / REHEARSAL).write_text("{}")


def load_reference(checkout: Path, day: Path) -> Any:
    """Return the reference's dataset as made by run_local.sh, with the trace that it writes."""
    headers: Any = np.lib.format
    if not hasattr(headers, "_read_array_header"):  # it has moved since
        headers._read_array_header = lambda stream, _version: headers.read_array_header_1_0(stream)
    reference = importlib.import_module("multihot_criteo")
    np.random.seed(123)
    return reference.MultihotCriteo(
        data_path=str(day),
        name="multihot-criteo",
        num_embeddings_per_feature=list(TABLE_ROWS),
        pre_process=None,
        samples_to_aggregate_quantile_file=str(checkout / _FOLDER / "tools/dist_quantile.txt"),
        samples_to_aggregate_trace_file=str(day / "trace.txt"),
        memory_map=True,
    )


def compare_samples(reference: Any, samples: Any) -> tuple[int, int]:
    """Return the reference's samples and ours that differ from them."""
    count = reference.get_item_count()
    differing = abs(count - len(samples["dense"]))
    reference.load_query_samples(list(range(count)))
    for number in range(min(count, len(samples["dense"]))):
        (batch,), _ = reference.get_samples([number])
        features = batch.sparse_features
        parts = np.split(features.values.numpy(), np.cumsum(features.sizes)[:-1])
        sparse = np.concatenate([part.reshape(features.stride, -1) for part in parts], axis=1)
        wanted = {"dense": batch.dense_features.numpy(), "sparse": sparse, "labels": batch.labels.numpy()}
        differing += any(not np.array_equal(samples[name][number], array) for name, array in wanted.items())
    return count, differing


def compare_scores(checkout: Path, folder: Path, dataset: Path, predictions: np.ndarray) -> tuple[str, str]:
    """Return the last line of the official script and ours."""
    pairs = np.stack([predictions, np.load(dataset / "labels.npy")], axis=1).astype(np.float32)
    log = write_log(folder, np.split(pairs, np.load(dataset / "bounds.npy")[1:-1]))
    script = checkout / _FOLDER / "tools/accuracy-dlrm.py"
    ran = run_script([sys.executable, script, "--mlperf-accuracy-file", log])
    dlrm_v2.BENCHMARK.score(read_accuracy_log(log), dataset, folder)
    return ran.stdout.splitlines()[-1], (folder / "accuracy.txt").read_text().strip()


def compare_checkpoint(folder: Path, rng: np.random.Generator) -> str:
    """Compare tensors written by torchsnapshot, whole and in chunks, with our reader's result."""
    torch, torchsnapshot = (importlib.import_module(name) for name in ("torch", "torchsnapshot"))
    shapes = {"model.over_arch.model.1.weight": (1, 256), "model.dense_arch.model._mlp.0._linear.weight": (512, 13)}
    tensors = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    tensors["model.big"] = rng.normal(size=(3000, 128)).astype(np.float32)
    state = torchsnapshot.StateDict(**{name: torch.from_numpy(array) for name, array in tensors.items()})
    knobs = importlib.import_module("torchsnapshot.knobs")
    with knobs.override_max_chunk_size_bytes(500_000):
        torchsnapshot.Snapshot.take(path=str(folder), app_state={"model": state})
    names = [name.removeprefix("model.") for name in tensors]
    found = open_checkpoint(folder, names)
    equal = sum(np.array_equal(found.read(name), tensors[f"model.{name}"]) for name in names)
    pieces = len([path for path in folder.rglob("*") if path.is_file()])
    return f"{equal} of {len(names)} tensors read alike from {pieces} files of torchsnapshot"


def main(checkout: Path) -> None:
    stand_in_for_torchrec()
    sys.path.insert(0, str(checkout / _FOLDER / "python"))
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        counter = Counter(folder / "counter")
        samples = differing = traces = 0
        for number in range(_DAYS):
            day, output = folder / f"day{number}", folder / f"output{number}"
            write_day(rng, day, int(rng.integers(2_000, 6_000)))
            output.mkdir()
            dlrm_v2.build_dataset(day, {}, output, counter)
            count, wrong = compare_samples(load_reference(checkout, day), criteo.load_samples(output))
            samples, differing = samples + count, differing + wrong
            bounds = np.load(output / "bounds.npy").tolist()
            lines = (f"{start}, {end}, {end - start}\n" for start, end in itertools.pairwise(bounds))
            traces += "".join(lines) == (day / "trace.txt").read_text()
        print(f"{samples} samples of {_DAYS} days: {differing} differ, {traces} traces are equal")
        print(compare_checkpoint(folder / "snapshot", rng))
        labels = np.load(folder / "output0/labels.npy")
        chance = rng.random(len(labels)).astype(np.float32)
        right = 0.5 * chance + 0.5 * labels
        half = np.where(rng.random(len(labels)) < 0.5, right, chance)
        few = np.round(chance, 1)  # many are equal
        for name, predictions in {"right": right, "half": half, "random": chance, "equal": few}.items():
            official, written = compare_scores(checkout, folder, folder / "output0", predictions)
            print(f"{name}: {'equal' if official == written else 'DIFFERENT'} {official} {written}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
