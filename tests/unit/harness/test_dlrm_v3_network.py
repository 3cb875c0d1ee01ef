"""DLRMv3's checkpoint and network: tables are read as PyTorch reads them, damage is named, and likes are foreseen."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[pytorch]'")

from harness.benchmarks import dlrm_v3  # noqa: E402
from harness.benchmarks.accuracy import AnswerLog  # noqa: E402
from harness.benchmarks.dlrm_v3.checkpoint import open_table, read_shapes  # noqa: E402
from harness.benchmarks.dlrm_v3.layers import ITEMS, HstuShape  # noqa: E402
from harness.benchmarks.dlrm_v3.network import Hstu  # noqa: E402
from harness.benchmarks.dlrm_v3.rehearsal import (  # noqa: E402
    CHECKPOINT,
    draw_weights,
)
from harness.contract import Counter  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from tests.unit.harness.generated import generate  # noqa: E402

COUNT = 20
pytestmark = pytest.mark.filterwarnings("ignore")  # what PyTorch says of its own code


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = generate(tmp_path_factory, "dlrm_v3", COUNT)
    (folder / "dataset").mkdir()
    dlrm_v3.BENCHMARK.build_dataset(folder / "data", {}, folder / "dataset", Counter(folder / "counter"))
    return folder


@pytest.fixture
def checkpoint(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "models" / CHECKPOINT, tmp_path / CHECKPOINT))


def export(source: Path) -> Path:
    output = source.parent / "model"
    output.mkdir()
    dlrm_v3.BENCHMARK.build_model(source, {}, {}, output, Counter(source.parent / "counter"))
    return output / "model.pt2"


def test_tables_are_read_as_pytorchs_own_reader_reads_them(checkpoint: Path) -> None:
    shapes = read_shapes(checkpoint)
    assert len({part.file for part in shapes[ITEMS].parts}) == 2  # of two devices
    rng = np.random.default_rng(1)
    for name, shape in shapes.items():
        full = f"sparse_dict._embedding_collection.embeddings.{name}.weight"
        state = {full: torch.zeros(shape.size, dtype=torch.float16)}
        torch.distributed.checkpoint.load(state, checkpoint_id=checkpoint / "sparse", no_dist=True)
        table, rows = open_table(checkpoint, name, shape), rng.integers(0, shape.size[0], 500)
        assert np.array_equal(table.take(rows), state[full].numpy()[rows])
        outside = table.take(np.array([-1, shape.size[0] + 5]))
        assert np.array_equal(outside, state[full].numpy()[[0, -1]])


def test_the_exported_network_foresees_what_is_liked(made: Path, checkpoint: Path) -> None:
    network = torch.export.load(export(checkpoint)).module()
    samples, loop = dlrm_v3.BENCHMARK.load_samples(made / "dataset"), dlrm_v3.BENCHMARK.open_loop(checkpoint)
    answers = []
    for number in range(COUNT):
        steps = loop({name: rows[number] for name, rows in samples.items()})
        asked = {name: torch.from_numpy(rows) for name, rows in next(steps).items()}
        with pytest.raises(StopIteration) as ended:
            steps.send([network(**asked)["probability"].numpy()])
        answers.append(ended.value.value.tobytes())
    found = dlrm_v3.BENCHMARK.score(AnswerLog(np.arange(COUNT), tuple(answers), 0, 0), made / "dataset", made)
    assert found["DLRM_ACC"] > 0.99
    assert found["DLRM_AUC"] > 0.99
    assert 0.867 < found["DLRM_NE"] < 1  # rounds hold it to a lower bound


def draw_request(rng: np.random.Generator, longest: int, length: int) -> dict[str, Any]:
    return {
        "history": torch.from_numpy(rng.normal(size=(1, longest, 8)).astype(np.float32)),
        "history_categories": torch.from_numpy(rng.integers(0, 4, (1, longest), np.int32)),
        "actions": torch.from_numpy(2 ** rng.integers(0, 5, (1, longest), np.int32)),
        "length": torch.tensor([length], dtype=torch.int32),
        "user": torch.from_numpy(rng.normal(size=(1, 8)).astype(np.float32)),
        "candidates": torch.from_numpy(rng.normal(size=(1, 5, 8)).astype(np.float32)),
        "candidate_categories": torch.from_numpy(rng.integers(0, 4, (1, 5), np.int32)),
    }


def test_neither_padding_nor_other_candidates_change_an_answer() -> None:
    rng = np.random.default_rng(2)
    shape = HstuShape(embedding=8, width=16, hidden=8, joined=8, linear=4, attention=4, layers=2, positions=64, times=3)
    weights = {name: torch.from_numpy(tensor) for name, tensor in draw_weights(rng, shape).items()}
    network = Hstu(weights, torch.from_numpy(rng.normal(size=(4, 8)).astype(np.float32)), shape)
    request = draw_request(rng, 30, 21)
    found = network(**request)["probability"]
    other = {name: tensor.clone() for name, tensor in request.items()}
    other["history"][:, 21:], other["actions"][:, 21:] = 5, 1
    assert torch.allclose(network(**other)["probability"], found, atol=1e-6)
    other["candidates"][:, 1:] = 3
    apart = (network(**other)["probability"] - found).abs()[0]
    assert apart[0] < 1e-6
    assert (apart[1:] > 1e-4).all()
    other["history"][:, 4] += 1
    assert (network(**other)["probability"] - found).abs()[0, 0] > 1e-5


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-500])


def forget_weight(path: Path) -> None:
    saved = torch.load(path, weights_only=True)
    del saved["dense_dict"]["_item_embedding_mlp.0.bias"]
    torch.save(saved, path)


class Dangerous:
    def __reduce__(self) -> Any:
        return eval, ("open('/nonexistent/made', 'w')",)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("sparse", shutil.rmtree, "sparse"),
        ("sparse/.metadata", Path.unlink, ".metadata"),
        ("sparse/.metadata", lambda path: path.write_bytes(b"\x80\x04"), ".metadata"),
        ("sparse/.metadata", lambda path: path.write_bytes(pickle.dumps(Dangerous())), ".metadata"),
        ("sparse/__1_0.distcp", Path.unlink, "__1_0.distcp"),
        ("sparse/__0_0.distcp", cut, "__0_0.distcp"),
        ("non_sparse.ckpt", cut, "non_sparse.ckpt"),
        ("non_sparse.ckpt", forget_weight, "_item_embedding_mlp.0.bias"),
    ],
)
def test_damage_is_named(checkpoint: Path, name: str, damage: Callable[[Path], None], said: str) -> None:
    damage(checkpoint / name)
    with pytest.raises(HarnessError) as caught:
        export(checkpoint)
    assert said in caught.value.problem
    assert "`reconcile fetch dlrm-v3`" in caught.value.fix
    assert not list((checkpoint.parent / "model").iterdir())
