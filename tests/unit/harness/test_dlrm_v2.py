"""DLRM-DCNv2 on Criteo: pairs are grouped, damage is named, a checkpoint is read in pieces, AUC counts pairs."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.contract import Counter
from harness.errors import HarnessError
from tests.shared import need

need("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from harness.benchmarks import dlrm_v2  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.dlrm_v2 import criteo  # noqa: E402
from harness.benchmarks.dlrm_v2.checkpoint import open_checkpoint  # noqa: E402
from harness.benchmarks.dlrm_v2.criteo import (  # noqa: E402
    TABLES,
    count_evaluated,
    group_pairs,
)
from harness.benchmarks.dlrm_v2.layers import Shape, list_weights, name_table  # noqa: E402
from harness.benchmarks.dlrm_v2.rehearsal import CHECKPOINT  # noqa: E402
from tests.unit.harness.generated import build_dataset  # noqa: E402

SAMPLES = 3
REHEARSED = ("dlrm_v2", SAMPLES)
# Of dlrm_trace_of_aggregated_samples.txt, as the README of the reference gives it.
TRACE = "3db90209564316f2506c99cc994ad0b2"


def build(folder: Path, **settings: object) -> Path:
    return build_dataset(dlrm_v2, folder / "data", **settings)


def export(folder: Path, **settings: object) -> Path:
    output = folder / "model"
    output.mkdir()
    dlrm_v2.BENCHMARK.build_model(folder / "models" / CHECKPOINT, settings, {}, output, Counter(folder / "counter"))
    return output


def test_the_published_day_is_grouped_as_the_published_trace_says() -> None:
    bounds = group_pairs(count_evaluated(criteo.ROWS)).tolist()
    assert len(bounds) - 1 == 330_067
    lines = (f"{start}, {end}, {end - start}\n" for start, end in itertools.pairwise(bounds))
    assert hashlib.md5("".join(lines).encode(), usedforsecurity=False).hexdigest() == TRACE


def test_samples_are_runs_of_pairs_with_their_features_and_labels(folder: Path) -> None:
    samples = criteo.load_samples(build(folder))
    bounds = group_pairs(700 * SAMPLES)[: SAMPLES + 1]
    assert [len(part) for part in samples["dense"]] == np.diff(bounds).tolist()
    dense, labels = (np.load(folder / "data" / name) for name in (criteo.DENSE_FILE, criteo.LABELS_FILE))
    with np.load(folder / "data" / criteo.SPARSE_FILE) as archive:
        sparse = np.concatenate([archive[str(number)] for number in range(26)], axis=1)
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        assert np.array_equal(samples["dense"][number], dense[start:end])
        assert np.array_equal(samples["sparse"][number], sparse[start:end])
        assert np.array_equal(samples["labels"][number], labels[start:end, 0])


def test_calibration_takes_the_second_half_of_the_day(folder: Path) -> None:
    found = criteo.load_calibration(build(folder, count=1, dtype="float16"))
    dense = np.load(folder / "data" / criteo.DENSE_FILE)
    assert np.array_equal(found["dense"], dense[len(dense) // 2 :].astype(np.float16))
    assert found["sparse"].shape == (len(dense) // 2, 214)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def put(name: str, row: int, value: float, *, table: int = 0) -> Callable[[Path], None]:
    """A value in one of the day's files, the last of its row."""

    def change(data: Path) -> None:
        if name != criteo.SPARSE_FILE:
            array = np.load(data / name)
            array[row, -1] = value
            np.save(data / name, array)
            return
        with np.load(data / name) as archive:
            members: dict[str, Any] = {member: archive[member] for member in archive.files}
        members[str(table)][row, -1] = value
        np.savez(data / name, **members)

    return change


def of_the_reference(change: Callable[[Path], None]) -> Callable[[Path], None]:
    """Somebody's own day, whose tables are not cut."""

    def change_both(data: Path) -> None:
        (data / TABLES).unlink()
        change(data)

    return change_both


CALIBRATED = 2 * int(group_pairs(700 * SAMPLES)[SAMPLES]) - 1  # the last row of the day


def link_to_nothing(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.parent / "gone.json")


@pytest.mark.parametrize(
    ("change", "place", "value"),
    [
        (put(criteo.SPARSE_FILE, 7, 100, table=20), "/20.npy: row 7 ", " 100,"),
        (put(criteo.SPARSE_FILE, 7, -1, table=5), "/5.npy: row 7 ", " -1,"),
        (of_the_reference(put(criteo.SPARSE_FILE, 7, 40_000_000, table=20)), "/20.npy: row 7 ", " 40,000,000,"),
        (put(criteo.SPARSE_FILE, CALIBRATED, 3, table=5), f"/5.npy: row {CALIBRATED:,} ", " 3,"),
        (put(criteo.LABELS_FILE, 5, 2), "labels.npy: row 5 ", " 2,"),
        (put(criteo.LABELS_FILE, 5, -1), "labels.npy: row 5 ", " -1,"),
        (put(criteo.DENSE_FILE, 9, np.nan), "dense.npy: row 9 ", " nan "),
        (put(criteo.DENSE_FILE, 9, -np.inf), "dense.npy: row 9 ", " -inf "),
        (lambda data: link_to_nothing(data / TABLES), "table_rows.json", "gone.json"),
        (lambda data: (data / TABLES).write_text("[1, 2]"), "table_rows.json", ""),
    ],
)
def test_an_unfit_value_is_named(folder: Path, change: Callable[[Path], None], place: str, value: str) -> None:
    change(folder / "data")
    with pytest.raises(HarnessError) as caught:
        build(folder)
    assert place in caught.value.problem
    assert value in caught.value.problem
    assert caught.value.fix
    assert not list((folder / "dataset").iterdir())


def test_the_written_network_foresees_every_click_of_its_rehearsal(folder: Path, tmp_path: Path) -> None:
    dataset, model = build(folder), export(folder)
    session = onnxruntime.InferenceSession(model / "model.onnx", providers=["CPUExecutionProvider"])
    samples = criteo.load_samples(dataset)
    answers = []
    for number in range(SAMPLES):
        (found,) = session.run(None, {name: np.array(samples[name][number]) for name in ("dense", "sparse")})
        answers.append(np.stack([found[:, 0], samples["labels"][number]], axis=1).astype(np.float32).tobytes())
    metrics = dlrm_v2.BENCHMARK.score(AnswerLog(np.arange(SAMPLES), tuple(answers), 0, 0), dataset, tmp_path)
    pairs = len(np.load(dataset / "labels.npy"))
    assert metrics["auc"] == pytest.approx(100.0, abs=1e-3)
    assert metrics["total"] == pairs
    line = (tmp_path / "accuracy.txt").read_text()
    assert line.startswith("AUC=100.000%, accuracy=")
    assert line.endswith(f"total={pairs}, queries={SAMPLES}\n")


def test_pieces_of_a_table_are_put_together_whichever_rank_wrote_them(folder: Path) -> None:
    checkpoint = open_checkpoint(folder / "models" / CHECKPOINT, list(list_weights(Shape())))
    name = name_table(9)
    table = checkpoint.read(name)
    assert table.shape == (100, 8)
    halves = sorted((folder / "models" / CHECKPOINT / "sharded/model").glob(f"model.{name}_*"), key=str)
    assert np.concatenate([np.fromfile(half, np.float32).reshape(-1, 8) for half in halves]).shape == table.shape
    assert table.tobytes() == b"".join(half.read_bytes() for half in halves)


def test_a_network_is_written_for_pytorch_where_the_spec_asks_for_it(folder: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[pytorch]'")
    model = export(folder, format="pt2")
    network = torch.export.load(model / "model.pt2").module()
    samples = criteo.load_samples(build(folder))
    given = {name: np.array(samples[name][0]) for name in ("dense", "sparse")}
    found = network(*(torch.from_numpy(array) for array in given.values()))["probability"]
    (model / "model.pt2").unlink()
    model.rmdir()
    session = onnxruntime.InferenceSession(export(folder) / "model.onnx", providers=["CPUExecutionProvider"])
    assert np.allclose(found.numpy(), session.run(None, given)[0], atol=1e-5)


def test_equal_predictions_count_half() -> None:
    labels = np.array([0, 1, 0, 1])
    assert criteo.compute_auc(np.array([0.1, 0.5, 0.5, 0.9]), labels) == pytest.approx(3.5 / 4)
    assert criteo.compute_auc(np.full(4, 0.5), labels) == 0.5


def answer(predictions: list[float], labels: list[float]) -> bytes:
    return np.stack([predictions, labels], axis=1).astype(np.float32).tobytes()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(answer([0.1], [0.0]), "a response has 8 bytes, a sample of 2 pairs needs 16", id="size"),
        pytest.param(answer([0.1, 0.2], [0, 0]), "the labels of its sample", id="labels"),
        pytest.param(answer([0.1, np.nan], [0, 1]), "not a number", id="nan"),
    ],
)
def test_an_answer_that_cannot_be_scored_is_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    np.save(tmp_path / "labels.npy", np.array([0, 1], np.float32))
    np.save(tmp_path / "bounds.npy", np.array([0, 2]))
    with pytest.raises(HarnessError, match=problem):
        dlrm_v2.BENCHMARK.score(AnswerLog(np.arange(1), (data,), 0, 0), tmp_path, tmp_path)
