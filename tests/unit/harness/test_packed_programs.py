"""BERT without padding on the CPU: its program against the padded ONNX file, in each precision and in real children."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[pytorch]'")
pytest.importorskip("tokenizers")
pytest.importorskip("onnxruntime")


from harness.backends import BuildPlan, load_backend  # noqa: E402
from harness.backends.pytorch.packed_lowering import lower_program, open_program  # noqa: E402
from harness.backends.pytorch.packed_operators import add_and_normalize, attend_fp8, linear_gelu_fp8  # noqa: E402
from harness.benchmarks.bert import PACKING, load_samples  # noqa: E402
from harness.benchmarks.bert.network import NetworkSize, draw_weights, write_network  # noqa: E402
from harness.benchmarks.bert.program import write_program  # noqa: E402
from harness.benchmarks.bert.rehearsal import MODEL, write_rehearsal  # noqa: E402
from harness.benchmarks.network_builder import NetworkSession  # noqa: E402
from harness.contract import Benchmark, Counter, ScoreRequest  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.quantization.programs import quantize_program  # noqa: E402
from harness.run.packing import BOUNDS, PackedSamples, make_memory  # noqa: E402
from tests.benchmarks.children import build, child, write_conf  # noqa: E402
from tests.requests import make_run_request  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

BERT = Benchmark(name="bert")
# Of logits, the distance from those of the padded network in fp32 over their length.
BOUNDS_OF_ERROR = {"fp32": 1e-5, "fp16": 2e-3, "bf16": 2e-2, "fp8": 5e-2}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rehearsal's questions, its network of two layers, and the program that was made of that."""
    folder = tmp_path_factory.mktemp("packed")
    for name in ("data", "models"):
        (folder / name).mkdir()
    write_rehearsal(
        folder / "data", folder / "models", count=12, seed=3, size="small", counter=Counter(folder / "count")
    )
    build(folder, "Dataset", BERT, source=str(folder / "data")).rename(folder / "dataset")
    words = len((folder / "data" / "vocab.txt").read_text(encoding="utf-8").splitlines())
    avoided = [False] * words
    write_network(folder / "deeper.onnx", draw_weights(np.random.default_rng(5), avoided, NetworkSize(2, 128, 256)))
    write_program(folder / "deeper.onnx", folder / "deeper.pt2")
    return folder


@pytest.fixture(scope="module")
def samples(place: Path) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in load_samples(place / "dataset").items()}


def answer(path: Path, samples: dict[str, np.ndarray], precision: str) -> tuple[Any, list[np.ndarray]]:
    program = torch.export.load(path)
    module = lower_program(open_program(program), precision, "cpu")
    packed = PackedSamples(PACKING, samples)
    rows = slice(0, len(packed.lengths))
    inputs = dict.fromkeys(program.graph_signature.user_inputs, "int32")
    memory = make_memory(inputs, rows.stop, int(packed.lengths.sum()))
    packed.pack(rows, memory)
    with torch.no_grad():
        found = module(*(torch.from_numpy(array) for array in memory.values()))
    return module, packed.unpack(rows, [part.float().numpy() for part in found])


def far(found: list[np.ndarray], wanted: list[np.ndarray], mask: np.ndarray) -> float:
    ours, theirs = (np.stack(both)[:, mask == 1] for both in (found, wanted))
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "fp8"])
def test_logits_are_as_padded(place: Path, samples: dict[str, np.ndarray], tmp_path: Path, precision: str) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes((place / "deeper.pt2").read_bytes())
    if precision == "fp8":
        counter = Counter(tmp_path / "counter")
        quantize_program(path, {"precision": "fp8"}, samples, PACKING, counter, compare=0)
    wanted = NetworkSession(place / "deeper.onnx").compute(samples)
    module, found = answer(path, samples, precision)
    assert far(found, wanted, samples["input_mask"]) < BOUNDS_OF_ERROR[precision]
    assert all((part[samples["input_mask"] == 0] == PACKING.fill).all() for part in found)
    called = {node.target for node in module.graph.nodes if node.op == "call_function"}
    assert add_and_normalize in called
    assert ({attend_fp8, linear_gelu_fp8} <= called) == (precision == "fp8")
    assert torch.ops.packed.quantize.default not in called  # what is rounded is rounded where it is computed


def make_engine(place: Path, precision: str) -> Path:
    settings = {"format": "pt2", **({"precision": "fp8"} if precision == "fp8" else {})}
    source, inputs = str(place / "models" / MODEL), {"dataset": str(place / "dataset")}
    model = build(place, "Model", BERT, settings=settings, source=source, inputs=inputs)
    wanted = {"precision": precision, "batch_size": 6}
    return build(place, "Engine", BERT, backend="pytorch", settings=wanted, inputs={"model": str(model)})


@pytest.mark.parametrize("precision", ["fp32", "fp8"])
def test_a_whole_run_answers_as_the_padded_network(place: Path, tmp_path: Path, precision: str) -> None:
    engine = make_engine(place, precision)
    document = json.loads((engine / "engine.json").read_text(encoding="utf-8"))
    assert document["inputs"][-1] == [BOUNDS, [], "int32"]
    write_conf(tmp_path / "user.conf", "Offline", {"min_duration": 0, "target_qps": 1})
    inputs = {"dataset": str(place / "dataset"), "engine": str(engine)}
    child(
        make_run_request(
            tmp_path,
            benchmark=BERT,
            backend="pytorch",
            mode="accuracy",
            model_key="bert",
            settings={"batch_size": 4, "streams": 2, "tokens": 500},
            inputs=inputs,
        ),
        tmp_path,
    )
    log = tmp_path / "mlperf_log_accuracy.json"
    (tmp_path / "score").mkdir()
    scored = child(
        ScoreRequest(
            benchmark=BERT,
            accuracy_log=str(log),
            output=str(tmp_path / "score"),
            counter=str(tmp_path / "counter"),
            inputs={"dataset": str(place / "dataset")},
        ),
        tmp_path,
    )
    assert scored.values["missing"] == 0
    assert scored.values["metrics"]["f1"] >= (99.999 if precision == "fp32" else 90)


@pytest.mark.parametrize(("model", "engine"), [("fp32", "fp8"), ("fp8", "fp16")])
def test_precisions_of_model_and_engine_agree(place: Path, tmp_path: Path, model: str, engine: str) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes((place / "deeper.pt2").read_bytes())
    counter = Counter(tmp_path / "counter")
    if model == "fp8":
        samples = {name: np.asarray(array) for name, array in load_samples(place / "dataset").items()}
        quantize_program(path, {"precision": "fp8"}, samples, PACKING, counter, compare=0)
    plan = BuildPlan(model=path, output=tmp_path, batch_size=4, precision=engine, options={}, counter=counter)
    with pytest.raises(HarnessError, match="fp8"):
        load_backend("pytorch").build(plan)
