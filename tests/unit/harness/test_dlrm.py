"""DLRM on Criteo, of rounds up to v3.0: the prepared day becomes samples, embeddings are multiplied, damage is named.

``tests/acceptance/test_reference_dlrm.py`` compares all of it with the reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.contract import Counter
from harness.errors import HarnessError
from tests.shared import need

need("onnx", "onnxruntime")

from harness.benchmarks import dlrm  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.dlrm_v2.criteo import TABLES, group_pairs  # noqa: E402
from harness.benchmarks.dlrm_v2.layers import Shape, name_bottom, name_table, name_top  # noqa: E402
from harness.benchmarks.dlrm_v2.network import write_network  # noqa: E402
from harness.benchmarks.network_builder import NetworkSession  # noqa: E402
from harness.benchmarks.sources import REHEARSAL  # noqa: E402

REHEARSED = ("dlrm", 2)
ROWS = 2_401  # the first 1,201 are evaluated
Arrays = dict[str, Any]


def make_day() -> Arrays:
    """Dense features are the number of the row, categorical ones that of the table."""
    rows = np.arange(ROWS, dtype=np.float64)
    return {
        "y": rows % 2,
        "X_int": np.repeat(rows[:, None], 13, axis=1),
        "X_cat": np.repeat(np.arange(26.0)[None], ROWS, axis=0),
    }


def build(folder: Path, day: Arrays, *, tables: int = 27, **settings: object) -> Path:
    data, output = folder / "data", folder / "dataset"
    data.mkdir()
    output.mkdir()
    np.savez_compressed(data / dlrm.DAY_FILE, **day)
    (data / TABLES).write_text(json.dumps([tables] * 26))
    (data / REHEARSAL).write_text("{}")
    dlrm.build_dataset(data, settings, output, Counter(folder / "counter"))
    return output


def test_a_sample_has_logarithms_and_one_value_of_each_feature(tmp_path: Path) -> None:
    day = make_day()
    day["X_cat"][3, 25] = dlrm.MOST_ROWS + 7.0
    dataset = build(tmp_path, day)
    samples = dlrm.BENCHMARK.load_samples(dataset)
    # 200, 200, 200, 200, then what is left of 500: the published trace begins so.
    assert [len(part) for part in samples["dense"]] == [200, 200, 200, 200, 401]
    assert samples["dense"][0][0].tolist() == [0.0] * 13
    assert samples["dense"][1][55] == pytest.approx(np.log(256.0))  # row 255
    assert samples["sparse"][4][-1].tolist() == list(range(26))
    assert samples["sparse"][0][3].tolist() == [*range(25), 7], "the remainder of the largest table"
    assert samples["labels"][2][:3].tolist() == [0.0, 1.0, 0.0]


def test_calibration_takes_the_second_half_and_count_the_first_samples(tmp_path: Path) -> None:
    dataset = build(tmp_path, make_day(), count=2, dtype="float16")
    assert len(np.load(dataset / "labels.npy")) == 400
    found = dlrm.BENCHMARK.load_calibration(dataset)
    assert len(found["sparse"]) == ROWS - 1201
    assert found["dense"].dtype == np.float16
    assert found["dense"][0, 0] == np.float16(np.log(np.float32(1202)))


def put(name: str, place: tuple[int, ...], value: float) -> Callable[[Arrays], object]:
    return lambda day: day[name].__setitem__(place, value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(put("y", (9,), 2), "row 9 has the label 2", id="label"),
        pytest.param(put("X_int", (300, 4), -7), "row 300 has nan as dense feature 4", id="below 0"),
        pytest.param(put("X_int", (8, 1), 0.5), "row 8 has 0.5", id="fraction"),
        pytest.param(put("X_cat", (1300, 2), np.nan), "row 1,300 has nan", id="no number"),
        pytest.param(put("X_cat", (7, 2), 27), "row 7 has the value 27, and table 2 has rows 0 to 26", id="no row"),
        pytest.param(lambda day: day.pop("X_int"), "X_int.npy is missing", id="no array"),
        pytest.param(lambda day: day.update(y=day["y"][1:]), "X_int.npy has 2,401 rows, y.npy has 2,400", id="rows"),
        pytest.param(lambda day: day.update(X_cat=day["X_cat"][:, 1:]), r"float64 \[2401, 25\]", id="columns"),
        pytest.param(lambda day: day.update(X_int=np.array(["a"] * ROWS)), "X_int.npy contains", id="texts"),
    ],
)
def test_a_day_that_cannot_be_is_refused(tmp_path: Path, change: Callable[[Arrays], object], said: str) -> None:
    day = make_day()
    change(day)
    with pytest.raises(HarnessError, match=said):
        build(tmp_path, day)
    assert not list((tmp_path / "dataset").glob("*.npy"))


def test_damage_within_the_archive_is_named(tmp_path: Path) -> None:
    build(tmp_path, make_day())
    path = tmp_path / "data" / dlrm.DAY_FILE
    whole = path.read_bytes()
    (tmp_path / "again").mkdir()
    for broken in (whole[:-40], whole[:300] + bytes(200) + whole[500:]):
        path.write_bytes(broken)
        with pytest.raises(HarnessError, match=dlrm.DAY_FILE):
            dlrm.build_dataset(tmp_path / "data", {}, tmp_path / "again", Counter(tmp_path / "counter"))


def test_a_day_of_another_length_is_not_the_published_one(tmp_path: Path) -> None:
    build(tmp_path, make_day())
    (tmp_path / "data" / REHEARSAL).unlink()
    with pytest.raises(HarnessError, match="2,401 rows, day 23 has 178,274,637"):
        dlrm.build_dataset(tmp_path / "data", {}, tmp_path, Counter(tmp_path / "counter"))


def test_the_network_multiplies_each_embedding_with_those_before_it(tmp_path: Path) -> None:
    """x = (1, 2), embeddings (3, 4) and (5, 6): products 11, 17 and 39."""
    shape = Shape(rows=(2, 1), values=(1, 1), width=2, bottom=(2,), top=(1,), crosses=0)
    bottom, last = np.zeros((2, 13), np.float32), name_top(0, 1)
    bottom[0, 0] = bottom[1, 1] = 1
    weights = {
        name_table(0): np.float32([[9, 9], [3, 4]]),
        name_table(1): np.float32([[5, 6]]),
        f"{name_bottom(0)}.weight": bottom,
        f"{name_bottom(0)}.bias": np.zeros(2, np.float32),
        f"{last}.weight": np.float32([[1, 0.1, 0.01, 0.001, 0.0001]]),
        f"{last}.bias": np.float32([-1]),
    }
    write_network(Given(weights), shape, tmp_path, Counter(tmp_path / "counter"))
    dense = np.zeros((1, 13), np.float32)
    dense[0, :2] = 1, 2
    session = NetworkSession(tmp_path / "model.onnx")
    ((found,),) = session.compute({"dense": dense, "sparse": np.int32([[1, 0]])})
    logit = 1 + 0.2 + 0.11 + 0.017 + 0.0039 - 1
    assert found.tolist() == pytest.approx([1 / (1 + np.exp(-logit))], abs=1e-6)


class Given:
    """Weights that are in memory."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self._weights = weights

    def read(self, name: str, out: np.ndarray | None = None) -> np.ndarray:
        array: np.ndarray = self._weights[name]
        if out is not None:
            out[...] = array
        return array


def test_the_network_of_a_rehearsal_foresees_every_click(made: Path, tmp_path: Path) -> None:
    counter = Counter(tmp_path / "counter")
    dlrm.build_dataset(made / "data", {}, tmp_path, counter)
    dlrm.build_model(made / "models/dlrm.onnx", {}, {}, tmp_path, counter)
    session, samples = NetworkSession(tmp_path / "model.onnx"), dlrm.BENCHMARK.load_samples(tmp_path)
    answers = []
    for number in range(2):
        (found,) = session.compute({name: np.array(samples[name][number]) for name in ("dense", "sparse")})
        answers.append(np.stack([found[:, 0], samples["labels"][number]], axis=1).astype(np.float32).tobytes())
    metrics = dlrm.BENCHMARK.score(AnswerLog(np.arange(2), tuple(answers), 0, 0), tmp_path, tmp_path)
    assert metrics["auc"] == pytest.approx(100.0, abs=1e-3)
    assert metrics["total"] == group_pairs(1400)[2]


def test_a_checkpoint_is_one_of_the_reference(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[pytorch]'")
    counter = Counter(tmp_path / "counter")
    for document, said in (
        ({}, "no state_dict"),
        ({"state_dict": {"bot_l.0.weight": torch.zeros(1)}}, "has no emb_l.0"),
    ):
        torch.save(document, tmp_path / "tb00_40M.pt")
        with pytest.raises(HarnessError, match=said):
            dlrm.build_model(tmp_path / "tb00_40M.pt", {}, {}, tmp_path, counter)
