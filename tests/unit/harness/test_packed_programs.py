"""BERT without padding on the CPU: its program beside the padded ONNX file, in each precision, and by real children."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install -e '.[pytorch]'")
pytest.importorskip("tokenizers")
pytest.importorskip("onnxruntime")

import onnx  # noqa: E402
from onnx import helper  # noqa: E402

from harness.backends import BackendEngine, BuildPlan, LoadPlan, load_backend  # noqa: E402
from harness.backends.pytorch.packed import GraphSize, choose_sizes  # noqa: E402
from harness.backends.pytorch.packed_lowering import lower_program, open_program  # noqa: E402
from harness.backends.pytorch.packed_operators import add_and_normalize, attend_fp8, linear_gelu_fp8  # noqa: E402
from harness.benchmarks.bert import PACKING, load_samples  # noqa: E402
from harness.benchmarks.bert.network import NetworkSize, draw_weights, write_network  # noqa: E402
from harness.benchmarks.bert.program import read_weights, write_program  # noqa: E402
from harness.benchmarks.bert.rehearsal import MODEL, write_rehearsal  # noqa: E402
from harness.benchmarks.made_network import NetworkSession  # noqa: E402
from harness.contract import Benchmark, Counter, RunRequest, ScoreRequest  # noqa: E402
from harness.errors import HarnessError  # noqa: E402
from harness.quantization.programs import quantize_program  # noqa: E402
from harness.run.packing import BOUNDS, PackedSamples, make_memory  # noqa: E402
from tests.benchmarks.children import build, child, write_conf  # noqa: E402

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
def test_logits_are_those_of_the_padded_network(
    place: Path, samples: dict[str, np.ndarray], tmp_path: Path, precision: str
) -> None:
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


def test_quantization_is_recorded(place: Path, samples: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes((place / "deeper.pt2").read_bytes())
    settings = {"precision": "fp8", "calibration_count": 5}
    made = quantize_program(path, settings, samples, PACKING, Counter(tmp_path / "counter"), compare=4)
    assert (made["precision"], made["method"], made["samples"], made["tensors"]) == ("fp8", "max", 5, 8)
    assert min(made["comparison"]["signal_to_noise_db"]) > 26
    assert "fp8 (E4M3)" in made["document"]
    assert path.stat().st_size < 0.7 * (place / "deeper.pt2").stat().st_size  # no weights are left behind in fp32


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"precision": "int8"}, "int8"),
        ({"precision": "fp8", "calibration_method": "entropy"}, "entropy"),
        ({"precision": "fp8", "calibration_count": 1000}, "1000"),
    ],
)
def test_other_quantizations_are_refused(
    place: Path, samples: dict[str, np.ndarray], tmp_path: Path, settings: dict[str, Any], named: str
) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes((place / "deeper.pt2").read_bytes())
    with pytest.raises(HarnessError, match=named):
        quantize_program(path, settings, samples, PACKING, Counter(tmp_path / "counter"), compare=0)


def test_weights_are_found_however_the_exporter_lays_them_out(place: Path, tmp_path: Path) -> None:
    """A product of transposed weights that keep their name."""
    model = onnx.load(str(place / "deeper.onnx"))
    for product in [node for node in model.graph.node if node.op_type == "MatMul"]:
        held = next((item for item in model.graph.initializer if item.name == product.input[1]), None)
        if held is None:
            continue
        array = onnx.numpy_helper.to_array(held)
        held.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array.T), held.name))
        turned = helper.make_node("Transpose", [held.name], [f"{held.name}_turned"], perm=[1, 0])
        product.input[1] = turned.output[0]
        model.graph.node.insert(0, turned)
    onnx.save(model, str(tmp_path / "turned.onnx"))
    ours, theirs = (read_weights(path) for path in (place / "deeper.onnx", tmp_path / "turned.onnx"))
    named = [name for name in ours if name.startswith(("bert.", "qa_outputs."))]
    assert len(named) == 3 + 2 * (1 + 1 + 2 * 8)
    assert all(np.array_equal(ours[name], theirs[name]) for name in named)


def test_another_network_is_refused(tmp_path: Path) -> None:
    weights = draw_weights(np.random.default_rng(1), [False] * 300, NetworkSize(1, 64, 64))
    write_network(tmp_path / "bert.onnx", weights)
    model = onnx.load(str(tmp_path / "bert.onnx"))
    model.graph.initializer.remove(next(w for w in model.graph.initializer if w.name == "qa_outputs.bias"))
    onnx.save(model, str(tmp_path / "other.onnx"))
    with pytest.raises(HarnessError, match="qa_outputs"):
        write_program(tmp_path / "other.onnx", tmp_path / "model.pt2")


def test_sizes_of_graphs_have_room_for_every_batch() -> None:
    sizes = choose_sizes(98_304, 640)
    assert sizes[-1] == GraphSize(98_304, 640)
    assert sizes == sorted(sizes)
    assert len(sizes) < 40
    assert choose_sizes(400, 1)[-1] == GraphSize(400, 1)
    assert choose_sizes(384, 8) == [GraphSize(256, 4), GraphSize(384, 8)]


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
        RunRequest(
            benchmark=BERT,
            backend="pytorch",
            scenario="Offline",
            mode="accuracy",
            model_key="bert",
            user_conf=str(tmp_path / "user.conf"),
            log_dir=str(tmp_path),
            counter=str(tmp_path / "counter"),
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


def test_server_takes_batches_as_they_come(place: Path, tmp_path: Path) -> None:
    engine = make_engine(place, "fp16")
    conf = {"min_duration": 0, "min_query_count": 40, "target_qps": 1000, "target_latency": 60_000}
    write_conf(tmp_path / "user.conf", "Server", conf)
    done = child(
        RunRequest(
            benchmark=BERT,
            backend="pytorch",
            scenario="Server",
            mode="performance",
            model_key="bert",
            user_conf=str(tmp_path / "user.conf"),
            log_dir=str(tmp_path),
            counter=str(tmp_path / "counter"),
            settings={"batch_size": 6, "tokens": 600},
            inputs={"dataset": str(place / "dataset"), "engine": str(engine)},
        ),
        tmp_path,
    )
    assert done.values["samples_completed"] == 40
    assert done.facts["backend.tokens"].value == 600


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


def test_a_benchmark_that_packs_nothing_is_refused(place: Path, tmp_path: Path) -> None:
    counter = Counter(tmp_path / "counter")
    made = load_backend("pytorch").build(
        BuildPlan(
            model=place / "deeper.pt2", output=tmp_path, batch_size=4, precision="fp32", options={}, counter=counter
        )
    )
    assert isinstance(made, BackendEngine)
    made.write(tmp_path)
    plan = LoadPlan(
        engine=tmp_path,
        scenario="Offline",
        batch_size=4,
        streams=1,
        threads=1,
        outputs=(),
        options={},
        completed=lambda *_: None,
        failed=lambda *_: None,
    )
    with pytest.raises(HarnessError, match="packed") as refused:
        load_backend("pytorch").load(plan)
    assert "PACKING" in refused.value.fix
