"""The built-in benchmark from its data to its score, through the four verbs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.benchmarks import digits
from harness.contract import Benchmark, BuildRequest, Counter, ScoreRequest
from tests.requests import make_run_request
from tests.shared import need
from tests.unit.harness.children import Children


def build(children: Children, kind: str, **request: object) -> Path:
    folder = children.place()
    (folder / "artifact").mkdir()
    ended = children.start(
        BuildRequest(
            kind=kind,  # type: ignore[arg-type]
            benchmark=Benchmark(name="digits"),
            output=str(folder / "artifact"),
            counter=str(folder / "counter"),
            **request,  # type: ignore[arg-type]
        ),
        folder,
    )
    assert ended.result.done, ended.output
    return folder / "artifact"


def test_withheld_top1_is_at_least_96_percent(children: Children) -> None:
    need("sklearn", "onnx", "onnxruntime", "mlperf_loadgen")
    dataset = build(children, "Dataset")
    # Fewer than by default: the quickstart's own test trains in full.
    model = build(children, "Model", settings={"epochs": 12}, inputs={"dataset": str(dataset)})
    settings = {"batch_size": 64}
    engine = build(children, "Engine", backend="onnxruntime", settings=settings, inputs={"model": str(model)})
    folder = children.place()
    (folder / "user.conf").write_text("*.*.min_duration = 0\n", encoding="ascii")
    ran = children.start(
        make_run_request(
            folder,
            benchmark=Benchmark(name="digits"),
            backend="onnxruntime",
            mode="accuracy",
            settings=settings,
            inputs={"dataset": str(dataset), "engine": str(engine)},
        ),
        folder,
    )
    assert ran.result.done, ran.output
    assert ran.result.values["marks"] == []
    place = children.place()
    scored = children.start(
        ScoreRequest(
            benchmark=Benchmark(name="digits"),
            accuracy_log=str(folder / "mlperf_log_accuracy.json"),
            output=str(place),
            counter=str(place / "counter"),
            inputs={"dataset": str(dataset)},
        ),
        place,
    )
    values = scored.result.values
    assert scored.result.done, scored.output
    assert values["metrics"]["total"] == values["samples"] == digits.HELD_OUT == 1024
    assert values["missing"] == values["duplicates"] == values["contradictions"] == 0
    assert values["metrics"]["accuracy"] >= 96
    line = (place / "accuracy.txt").read_text(encoding="ascii")
    assert line == "accuracy={accuracy:.3f}%, good={good}, total={total}\n".format(**values["metrics"])


def test_split_leaves_no_sample_in_both_parts(tmp_path: Path) -> None:
    need("sklearn")
    digits.BENCHMARK.build_dataset(None, {}, tmp_path, Counter(tmp_path / "counter"))
    withheld, train = np.load(tmp_path / "samples.npy"), np.load(tmp_path / "train_samples.npy")
    assert (withheld.shape, train.shape) == ((1024, 1, 8, 8), (773, 1, 8, 8))
    assert (withheld.min(), withheld.max(), withheld.dtype) == (-1, 1, np.float32)
    both = {sample.tobytes() for sample in withheld} & {sample.tobytes() for sample in train}
    assert not both
    assert set(np.load(tmp_path / "labels.npy")) == set(np.load(tmp_path / "train_labels.npy")) == set(range(10))


def test_gradients_are_those_of_the_loss() -> None:
    """Against differences of the loss, in double precision."""
    rng = np.random.default_rng(0)
    parameters = {name: value.astype(np.float64) for name, value in digits.initial(rng).items()}
    images, labels = rng.standard_normal((3, 1, 8, 8)), np.array([1, 5, 5])

    def loss() -> float:
        active = images.transpose(0, 2, 3, 1)
        for name in ("conv1", "conv2"):
            active = digits.convolve(parameters, name, digits.patches(active))
        pooled = active.reshape(3, 4, 2, 4, 2, -1).max(axis=(2, 4)).transpose(0, 3, 1, 2).reshape(3, -1)
        scores = pooled @ parameters["dense"].T + parameters["dense_bias"]
        chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        return float(-np.log(chances[np.arange(3), labels]).mean())

    gradients = digits.backward(parameters, images, labels)
    for name, gradient in gradients.items():
        flat, slope = parameters[name].reshape(-1), gradient.reshape(-1)
        for position in rng.integers(0, len(flat), 5):
            kept, step = flat[position], 1e-6
            flat[position] = kept + step
            above = loss()
            flat[position] = kept - step
            below = loss()
            flat[position] = kept
            assert slope[position] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=1e-5)
