"""Programs of joined operators on the CPU: DLRM-DCNv2 in fp8, as model, as engine and in its answers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[pytorch]'")

from harness.backends import BackendEngine  # noqa: E402
from harness.backends.pytorch.building import build_engine  # noqa: E402
from harness.backends.pytorch.fused import FILE, FusedModel  # noqa: E402
from harness.benchmarks import dlrm_v2  # noqa: E402
from harness.benchmarks.dlrm_v2.checkpoint import draw_weights, write_checkpoint  # noqa: E402
from harness.benchmarks.dlrm_v2.layers import DENSE, MULTI_HOT, TABLE_ROWS, Shape  # noqa: E402
from harness.contract import Counter  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from tests.unit.harness.plans import make_build_plan  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

ROWS = tuple(min(rows, 50) for rows in TABLE_ROWS)
SHAPE = Shape(rows=ROWS, width=16, bottom=(32, 16, 16), rank=16, top=(64, 32, 16, 16, 1))
PAIRS = 200


def samples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    sparse = [rng.integers(0, rows, (PAIRS, n), np.int32) for rows, n in zip(SHAPE.rows, MULTI_HOT, strict=True)]
    return {"dense": rng.random((PAIRS, DENSE), np.float32), "sparse": np.concatenate(sparse, axis=1)}


def write_model(folder: Path, shape: Shape = SHAPE) -> Path:
    for name in ("checkpoint", "model"):
        (folder / name).mkdir()
    write_checkpoint(folder / "checkpoint", draw_weights(np.random.default_rng(1), shape))
    settings = {"format": "pt2", "precision": "fp8"}
    dlrm_v2.BENCHMARK.build_model(folder / "checkpoint", settings, {}, folder / "model", Counter(folder / "counter"))
    return folder / "model/model.pt2"


def lower(path: Path, given: Mapping[str, np.ndarray], **settings: Any) -> dict[str, Any]:
    counter = Counter(path.parent.parent / "counter")
    return dlrm_v2.BENCHMARK.lower_program(path, {"precision": "fp8", **settings}, given, counter, compare=100)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray, dict[str, Any]]:
    """The program in fp8, what it answered in fp32, and what its record keeps."""
    path = write_model(tmp_path_factory.mktemp("made"))
    given = [torch.from_numpy(array) for array in samples().values()]
    exact = torch.export.load(path).module()(*given)["probability"].numpy()
    return path, exact, lower(path, samples())


def build(model: Path, output: Path, precision: str = "fp8", **options: Any) -> BackendEngine:
    return build_engine("pytorch", "cpu", make_build_plan(model, output, batch_size=64, precision=precision, **options))


def test_the_record_says_how_it_was_rounded_and_what_that_cost(model: Any) -> None:
    _, _, made = model
    assert (made["precision"], made["samples"]) == ("fp8", PAIRS)
    assert 10 < made["comparison"]["signal_to_noise_db"][0] < 60
    assert "fp8 (E4M3)" in made["document"]


def test_an_engine_answers_as_the_fp32_program_does_nearly(model: Any, tmp_path: Path) -> None:
    path, exact, _ = model
    engine = build(path, tmp_path / "engine", half_inputs=True)
    assert [(tensor.shape, tensor.dtype) for tensor in engine.inputs] == [((13,), "float16"), ((214,), "int32")]
    given = samples()
    arrays = [given["dense"].astype(np.float16), given["sparse"]]
    loaded = FusedModel(torch.export.load(tmp_path / "engine" / FILE), "cpu")
    answers = loaded.run([(array.ctypes.data, array.shape, array.dtype.name) for array in arrays])
    ((address, count),) = answers.list_addresses()
    found = np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))
    logits = [np.log(values / (1 - values)) for values in (found, exact.reshape(-1))]
    assert np.corrcoef(*logits)[0, 1] > 0.97
    assert np.abs(found - exact.reshape(-1)).max() > 0  # it is another program


def test_what_does_not_fit_is_refused(model: Any, tmp_path: Path) -> None:
    path, _, _ = model
    with pytest.raises(HarnessError, match="the model is in fp8"):
        build(path, tmp_path / "engine", "fp16")
    plain = write_model(tmp_path)
    with pytest.raises(HarnessError, match="not in fp8"):
        build(plain, tmp_path / "other")
    with pytest.raises(HarnessError, match="the list has 200"):
        lower(plain, samples(), calibration_count=201)
    with pytest.raises(HarnessError, match="by minmax"):
        lower(plain, samples(), calibration_method="minmax")
    (tmp_path / "odd").mkdir()
    odd = write_model(tmp_path / "odd", Shape(rows=SHAPE.rows, width=16, bottom=(32, 16, 16), rank=8, top=SHAPE.top))
    with pytest.raises(HarnessError, match="multiples of 16"):
        lower(odd, samples())
