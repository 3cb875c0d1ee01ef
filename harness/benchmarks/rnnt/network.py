"""The three parts of RNN-T as ONNX.

encoder: features [N, 64, 240], mask [N, 64, 1], hidden and cell [N, 5, 1024] -> encoded [N, 32, 1024], hidden_out,
cell_out. prediction: letter int64 [N, 1], hidden and cell [N, 2, 320] -> predicted [N, 320], hidden_out, cell_out.
joint: encoded [N, 1024], predicted [N, 320] -> logits [N, 29]. A narrower network keeps these shapes, padded with
zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.network_builder import NetworkBuilder, Tensors
from harness.benchmarks.rnnt.transcribing import (
    CHUNK,
    ENCODER_LAYERS,
    FEATURES,
    HIDDEN,
    OUTPUTS,
    PREDICTED,
    PREDICTION_LAYERS,
    STACKED,
)

MODEL = "model.onnx"
_UNUSED = "audio_preprocessor."  # parts of a checkpoint that only compute features
_FIX = "`reconcile fetch rnnt` downloads the reference's checkpoint"
PRE, POST = 2, 3  # layers of the encoder before and after frames are stacked
Weights = Mapping[str, NDArray[np.float32]]
"""Weights by their names in the reference's checkpoint, except that ``joint_net`` is ``joint.net``."""


def read_weights(path: Path) -> Weights:
    """Read the reference's checkpoint, saved by PyTorch. Raises HarnessError, which says whether the file is truncated,
    was not written by PyTorch, or has other contents."""
    from harness.benchmarks.saved_tensors import load_state

    state = load_state(path, "RNN-T", _FIX)
    found = {name: tensor.float().numpy() for name, tensor in state.items() if not name.startswith(_UNUSED)}
    return {name.replace("joint_net", "joint.net"): np.ascontiguousarray(array) for name, array in found.items()}


def write_parts(weights: Weights, output: Path) -> None:
    """Write encoder/model.onnx, prediction/model.onnx and joint/model.onnx."""
    for part, write in {"encoder": _write_encoder, "prediction": _write_prediction, "joint": _write_joint}.items():
        (output / part).mkdir()
        net = NetworkBuilder(np.random.default_rng(1))
        inputs = write(net, weights)
        outputs: Tensors = {name: (dtype, ["N", *shape]) for name, (shape, dtype) in OUTPUTS[part].items()}
        net.save(output / part / MODEL, f"rnnt_{part}", inputs, outputs)


def _write_encoder(net: NetworkBuilder, weights: Weights) -> Tensors:
    width = weights["encoder.pre_rnn.lstm.weight_hh_l0"].shape[1]
    states = _State(net, ENCODER_LAYERS, width, HIDDEN)
    x = net.node("Transpose", ["features"], perm=[1, 0, 2])  # frames become the first axis
    x = _recur(net, weights, "encoder.pre_rnn.lstm", x, range(PRE), states, first=0)
    x = net.node("Mul", [net.node("Transpose", [x], perm=[1, 0, 2]), "mask"])  # makes values past the end zero
    x = net.node("Reshape", [x, net.constant([0, CHUNK // STACKED, STACKED * width], "int64")])
    x = net.node("Transpose", [x], perm=[1, 0, 2])
    x = _recur(net, weights, "encoder.post_rnn.lstm", x, range(POST), states, first=PRE)
    _widen(net, net.node("Transpose", [x], perm=[1, 0, 2]), 3, HIDDEN - width, "encoded")
    states.write()
    size: list[int | str] = ["N", ENCODER_LAYERS, HIDDEN]
    return {
        "features": ("float32", ["N", CHUNK, FEATURES]),
        "mask": ("float32", ["N", CHUNK, 1]),
        "hidden": ("float32", size),
        "cell": ("float32", size),
    }


def _write_prediction(net: NetworkBuilder, weights: Weights) -> Tensors:
    embedded = weights["prediction.embed.weight"]
    width = embedded.shape[1]
    states = _State(net, PREDICTION_LAYERS, width, PREDICTED)
    # Before a transcript's first letter, the input is zeros.
    table = net.constant(np.concatenate([embedded, np.zeros((1, width), np.float32)]))
    x = net.node("Transpose", [net.node("Gather", [table, "letter"])], perm=[1, 0, 2])
    x = _recur(net, weights, "prediction.dec_rnn.lstm", x, range(PREDICTION_LAYERS), states, first=0)
    _widen(net, net.node("Squeeze", [x, net.constant([0], "int64")]), 2, PREDICTED - width, "predicted")
    states.write()
    size: list[int | str] = ["N", PREDICTION_LAYERS, PREDICTED]
    return {"letter": ("int64", ["N", 1]), "hidden": ("float32", size), "cell": ("float32", size)}


def _write_joint(net: NetworkBuilder, weights: Weights) -> Tensors:
    predicted = weights["prediction.embed.weight"].shape[1]
    first, last = (weights[f"joint.net.{layer}.weight"] for layer in (0, 3))
    encoded = first.shape[1] - predicted
    both = net.node(
        "Concat",
        [_narrow(net, "encoded", 1, encoded, HIDDEN), _narrow(net, "predicted", 1, predicted, PREDICTED)],
        axis=1,
    )
    inner = net.node("MatMul", [both, net.constant(first.T)])
    inner = net.node("Relu", [net.node("Add", [inner, net.constant(weights["joint.net.0.bias"])])])
    product = net.node("MatMul", [inner, net.constant(last.T)])
    net.node("Add", [product, net.constant(weights["joint.net.3.bias"])], "logits")
    return {"encoded": ("float32", ["N", HIDDEN]), "predicted": ("float32", ["N", PREDICTED])}


class _State:
    """The inputs hidden and cell [N, layers, full width], of which ``width`` values are used, and the outputs
    hidden_out and cell_out."""

    def __init__(self, net: NetworkBuilder, layers: int, width: int, whole: int) -> None:
        self._net, self._rest = net, whole - width
        self._given = {}
        for name in ("hidden", "cell"):
            narrow = _narrow(net, name, 2, width, whole)
            self._given[name] = net.split(net.node("Transpose", [narrow], perm=[1, 0, 2]), [1] * layers, axis=0)
        self._made: dict[str, list[str]] = {"hidden": [], "cell": []}

    def take(self, layer: int) -> list[str]:
        """Return hidden and cell of a layer, each [1, N, width]."""
        return [self._given[name][layer] for name in ("hidden", "cell")]

    def keep(self, hidden: str, cell: str) -> None:
        """Store the state of the next layer."""
        self._made["hidden"].append(hidden)
        self._made["cell"].append(cell)

    def write(self) -> None:
        for name, layers in self._made.items():
            stacked = self._net.node("Concat", layers, axis=0)
            _widen(self._net, self._net.node("Transpose", [stacked], perm=[1, 0, 2]), 3, self._rest, f"{name}_out")


def _recur(
    net: NetworkBuilder, weights: Weights, name: str, x: str, layers: Sequence[int], states: _State, *, first: int
) -> str:
    """Chain LSTMs over [frames, N, width]; ``first``: number of the first of them in the state."""
    for layer in layers:
        given, kept = (_order_gates(weights[f"{name}.weight_{which}_l{layer}"]) for which in ("ih", "hh"))
        shifts = [_order_gates(weights[f"{name}.bias_{which}_l{layer}"]) for which in ("ih", "hh")]
        inputs = [net.constant(value[None]) for value in (given, kept, np.concatenate(shifts))]
        out, hidden, cell = net.nodes(
            "LSTM", [x, *inputs, "", *states.take(first + layer)], 3, hidden_size=kept.shape[1]
        )
        states.keep(hidden, cell)
        x = net.node("Squeeze", [out, net.constant([1], "int64")])  # remove the axis of the only direction
    return x


def _order_gates(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reorder from PyTorch's order (input, forget, cell, output) to ONNX's (input, output, forget, cell)."""
    i, f, g, o = np.split(weight, 4)
    return np.concatenate([i, o, f, g])


def _narrow(net: NetworkBuilder, source: str, axis: int, width: int, whole: int) -> str:
    """Keep the first ``width`` values of an axis."""
    if width == whole:
        return source
    bounds = [net.constant([value], "int64") for value in (0, width, axis)]
    return net.node("Slice", [source, *bounds])


def _widen(net: NetworkBuilder, source: str, axes: int, rest: int, output: str) -> None:
    """Append zeros to the last axis."""
    pads = net.constant([0] * (2 * axes - 1) + [rest], "int64")
    net.node("Pad", [source, pads], output) if rest else net.node("Identity", [source], output)
