"""DLRM of rounds up to v3.0 next to the reference: its preparation of 24 small days, its samples, network and script.

``DLRM_CHECKOUT`` names a checkout of facebookresearch/dlrm, which the reference imports; ``INFERENCE_REPOSITORY`` a
clone of mlcommons/inference with the tag v2.1. Needs PyTorch, scikit-learn and tqdm.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.benchmarks import dlrm
from harness.benchmarks.accuracy import read_accuracy_log
from harness.benchmarks.dlrm_v2.criteo import TABLES
from harness.benchmarks.sources import REHEARSAL
from harness.contract import Counter
from tests.acceptance.test_releases import extract
from tests.shared import need

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]

FOLDER = "recommendation/dlrm/pytorch"
DAYS, FEW, PAIRS = 24, 40, 6_001
WIDTH, BOTTOM, TOP = 8, (13, 32, 16, 8), (64, 32, 16, 8, 1)


def write_days(folder: Path) -> None:
    """Text as Criteo publishes it: some values are missing, some below 0, some beyond the largest table."""
    rng = np.random.default_rng(7)
    for day in range(DAYS):
        lines = []
        for _ in range(PAIRS if day == DAYS - 1 else FEW):
            dense = [str(value) if value > -3 else "" for value in rng.integers(-4, 900, dlrm.DENSE)]
            few = [f"{value:x}" for value in rng.integers(0, 9, len(dlrm.TABLE_ROWS) - 1)]
            lines.append("\t".join([str(rng.integers(2)), *dense, *few, f"{rng.integers(1 << 32):08x}"]))
        (folder / f"day_{day}").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def inference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extract("v2.1", tmp_path_factory.mktemp("inference"), FOLDER) / FOLDER


@pytest.fixture(scope="module")
def reference(inference: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Its dataset, made anew of prepared days, so that the trace is the first that it draws."""
    need("torch", "sklearn", "tqdm", "onnxruntime", "onnx")
    if not (named := os.environ.get("DLRM_CHECKOUT")):
        pytest.skip("DLRM_CHECKOUT names no checkout of facebookresearch/dlrm")
    sys.path.insert(0, str(inference / "python"))
    os.environ["DLRM_DIR"] = named
    tensorboard = types.ModuleType("torch.utils.tensorboard")
    vars(tensorboard)["SummaryWriter"] = None  # imported, and not used
    sys.modules["torch.utils.tensorboard"] = tensorboard
    folder = tmp_path_factory.mktemp("days")
    write_days(folder)

    def load() -> Any:
        np.random.seed(123)
        return importlib.import_module("criteo").Criteo(
            data_path=str(folder),
            name="terabyte",
            pre_process=None,
            use_cache=False,
            samples_to_aggregate_quantile_file=str(inference / "tools/dist_quantile.txt"),
            samples_to_aggregate_trace_file=str(folder / "trace.txt"),
            max_ind_range=dlrm.MOST_ROWS,
            memory_map=True,
        )

    load()
    with np.load(folder / "day_fea_count.npz") as counts:
        (folder / TABLES).write_text(json.dumps(counts["counts"].tolist()))
    (folder / REHEARSAL).write_text("{}")
    return load()


@pytest.fixture(scope="module")
def dataset(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dataset")
    dlrm.build_dataset(Path(reference.test_data.d_path), {}, output, Counter(output / "counter"))
    return output


def test_samples_are_those_of_the_reference(reference: Any, dataset: Path) -> None:
    samples = dlrm.BENCHMARK.load_samples(dataset)
    count = reference.get_item_count()
    assert len(samples["dense"]) == count > 5
    reference.load_query_samples(list(range(count)))
    for number in range(count):
        dense, _, sparse, labels, _ = reference.get_samples([number])
        assert np.allclose(samples["dense"][number], dense.numpy(), rtol=1e-6, atol=0)
        assert np.array_equal(samples["sparse"][number], sparse.numpy().T)
        assert np.array_equal(samples["labels"][number], labels.numpy()[:, 0])
    bounds = np.load(dataset / "bounds.npy").tolist()
    lines = (f"{start}, {end}, {end - start}\n" for start, end in itertools.pairwise(bounds))
    assert "".join(lines) == (Path(reference.test_data.d_path) / "trace.txt").read_text()


@pytest.mark.parametrize("form", ["onnx", "pt2"])
def test_the_network_answers_as_the_reference_does(
    reference: Any, dataset: Path, inference: Path, tmp_path: Path, form: str
) -> None:
    torch = importlib.import_module("torch")
    parts = len(dlrm.TABLE_ROWS) + 1
    network = importlib.import_module("dlrm_s_pytorch").DLRM_Net(
        WIDTH,
        np.array(json.loads((Path(reference.test_data.d_path) / TABLES).read_text())),
        np.array(BOTTOM),
        np.array([WIDTH + parts * (parts - 1) // 2, *TOP]),
        arch_interaction_op="dot",
        sigmoid_top=len(TOP) - 1,
    )
    torch.save({"state_dict": network.state_dict()}, tmp_path / "tb00_40M.pt")
    dlrm.build_model(tmp_path / "tb00_40M.pt", {"format": form}, {}, tmp_path, Counter(tmp_path / "counter"))
    samples, log = dlrm.BENCHMARK.load_samples(dataset), []
    for number in range(len(samples["dense"])):
        reference.load_query_samples([number])
        dense, offsets, sparse, labels, _ = reference.get_samples([number])
        with torch.no_grad():
            wanted = network(dense, offsets, sparse).numpy()
        found = answer(tmp_path, form, {name: np.array(samples[name][number]) for name in ("dense", "sparse")})
        assert np.allclose(found, wanted, atol=1e-6)
        assert np.ptp(wanted) > 1e-3, "answers differ from each other"
        pairs = np.stack([found[:, 0], labels.numpy()[:, 0]], axis=1).astype(np.float32)
        log.append({"seq_id": number, "qsl_idx": number, "data": pairs.tobytes().hex()})
    path = tmp_path / "mlperf_log_accuracy.json"
    path.write_text(json.dumps(log))
    command = [sys.executable, str(inference / "tools/accuracy-dlrm.py"), "--mlperf-accuracy-file", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    dlrm.BENCHMARK.score(read_accuracy_log(path), dataset, tmp_path)
    assert ran.stdout.splitlines()[-1] == (tmp_path / "accuracy.txt").read_text().strip()


def answer(folder: Path, form: str, given: dict[str, np.ndarray]) -> np.ndarray:
    found: np.ndarray
    if form == "onnx":
        builder = importlib.import_module("harness.benchmarks.network_builder")
        (found,) = builder.NetworkSession(folder / "model.onnx").compute(given)
    else:
        torch = importlib.import_module("torch")
        network = torch.export.load(folder / "model.pt2").module()
        found = network(*(torch.from_numpy(array) for array in given.values()))["probability"].numpy()
    return found
