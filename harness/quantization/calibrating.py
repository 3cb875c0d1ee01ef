"""Insert Q/DQ pairs with ranges from calibration samples, and write the document that explains them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quant_pre_process, quantize_static

from harness.contract import Counter
from harness.errors import HarnessError
from harness.quantization.floats import find_batch, list_tensors, lower_precision
from harness.quantization.onnx_files import load, save
from harness.quantization.settings import read_count, read_flag, read_scale
from harness.run.qsl import Arrays

METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
    "distribution": CalibrationMethod.Distribution,
}
_TYPES = {"int8": QuantType.QInt8, "fp8": QuantType.QFLOAT8E4M3FN}
_FEED = 8  # samples per calibration batch if the model accepts any size


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPrecision:
    """``count``: calibration samples, 0 for all. ``residuals``: quantize the other branch of residual sums.

    ``input_scale``: if not 0, the model takes int8 samples that are multiplied by this.
    """

    precision: str
    method: str
    count: int = 0
    residuals: bool = True
    input_scale: float = 0.0

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> WantedPrecision:
        """Read from model.settings. Raises HarnessError for an unknown value."""
        precision = str(settings["precision"])
        default = "distribution" if precision == "fp8" else "minmax"
        method = str(settings.get("calibration_method", default))
        if method not in METHODS or (precision == "fp8") != (method == "distribution"):
            allowed = "distribution" if precision == "fp8" else ", ".join(m for m in METHODS if m != "distribution")
            raise HarnessError(f"no calibration_method {method!r} for {precision}", "input", f"use one of: {allowed}")
        return cls(
            precision=precision,
            method=method,
            count=read_count(settings, "calibration_count"),
            residuals=read_flag(settings, "quantize_residuals", default=True),
            input_scale=read_scale(settings.get("input_scale", 0)),
        )


class Feed:
    """Calibration samples in batches of ``size``, in their order."""

    def __init__(self, arrays: Arrays, counter: Counter, size: int) -> None:
        self._batches = self._cut(arrays, size)
        self._counter = counter

    @staticmethod
    def _cut(arrays: Arrays, size: int) -> Iterator[dict[str, np.ndarray]]:
        count = len(next(iter(arrays.values())))
        for start in range(0, count, size):
            yield {name: np.asarray(array[start : start + size]) for name, array in arrays.items()}

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self._batches, None)
        if batch is not None:
            self._counter.bump(len(next(iter(batch.values()))))
        return batch

    def set_range(self, start_index: int, end_index: int) -> None:
        """Called by onnxruntime only for striped calibration, which is not used here."""


def change_precision(
    model: Path, settings: Mapping[str, Any], samples: Arrays | None, counter: Counter, cache: Path | None = None
) -> dict[str, Any]:
    """Rewrite ``model`` in place in ``settings["precision"]``; return the facts for the record.

    ``samples``: the calibration samples, by input name; None if the benchmark has none. ``cache``: a folder that stores
    ranges by their origin.
    """
    precision = str(settings["precision"])
    if precision in ("fp16", "bf16"):
        half = read_flag(settings, "half_inputs", default=False)
        save(lower_precision(load(model), bfloat=precision == "bf16", half_inputs=half), model)
        return {"precision": precision}
    if precision not in _TYPES:
        raise HarnessError(f"no model precision {precision!r}", "input", "use fp16, bf16, int8 or fp8")
    wanted = WantedPrecision.read(settings)
    if not samples:
        problem = "the dataset has no calibration samples"
        raise HarnessError(problem, "missing", "write calibration.npy in build_dataset()")
    arrays = load_calibration_arrays(model, samples, wanted.count)
    counter.stage("building", len(next(iter(arrays.values()))))
    return quantize(model, wanted, arrays, counter, cache)


def load_calibration_arrays(model: Path, samples: Arrays, count: int) -> dict[str, np.ndarray]:
    """Load the first ``count`` samples, in the order of the benchmark's calibration list."""
    names = [tensor.name for _, tensor in list_tensors(model)[0]]
    if len(samples) == len(names) == 1:
        samples = {names[0]: next(iter(samples.values()))}
    missing = [name for name in names if name not in samples]
    if missing:
        problem = f"no calibration array for input {missing[0]}"
        raise HarnessError(problem, "input", "give the arrays the names of the inputs")
    available = min(len(samples[name]) for name in names)
    if count > available:
        raise HarnessError(f"calibration_count {count}, the list has {available}", "input", "lower it")
    wanted, size = count or available, find_batch(model, 1)
    if wanted % size:
        problem = f"{wanted} calibration samples are not a multiple of {size}, the model's fixed batch"
        fix = f"set calibration_count to a multiple of {size}, or export the model with a dynamic batch axis"
        raise HarnessError(problem, "input", fix)
    return {name: samples[name][:wanted] for name in names}


def quantize(
    model: Path, wanted: WantedPrecision, arrays: Arrays, counter: Counter, cache: Path | None
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=model.parent) as folder:
        prepared, ranges = Path(folder) / "prepared.onnx", Path(folder) / "ranges.json"
        sums = prepare(model, prepared, wanted)
        kept = cache / f"{compute_calibration_key(prepared, wanted, arrays)}.json" if cache is not None else None
        if kept is not None:
            _bring(kept, ranges)
        result = Path(folder) / "quantized.onnx"
        with contextlib.redirect_stdout(io.StringIO()):  # onnxruntime reports each collection
            quantize_static(
                str(prepared),
                str(result),
                Feed(arrays, counter, find_batch(prepared, _FEED)),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=[*KINDS, *POOLINGS, MARK],
                per_channel=wanted.precision == "int8",
                activation_type=_TYPES[wanted.precision],
                weight_type=_TYPES[wanted.precision],
                calibrate_method=METHODS[wanted.method],
                calibration_cache_path=str(ranges),
                extra_options=_choose_options(wanted, arrays),
            )
        if kept is not None:
            _keep(ranges, kept)
        finished = load(result)
        remove_marks(finished)
        resize_unquantized(finished)
        scales = quantize_inputs(finished) if wanted.input_scale else {}
        tensors = len(json.loads(ranges.read_text(encoding="utf-8")).get("data", {}))
        save(finished, model)
    made = {
        "precision": wanted.precision,
        "method": wanted.method,
        "samples": len(next(iter(arrays.values()))),
        "samples_sha256": digest_samples(arrays),
        "tensors": tensors,
        "residual_sums": sums,
        "input_scales": scales,
        "tool": f"onnxruntime {ort.__version__}",
    }
    return {**made, "document": write_document(made)}


def _bring(kept: Path, ranges: Path) -> None:
    """Copy stored ranges, unless they are damaged."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        content = kept.read_bytes()
        if json.loads(content)["data"]:
            ranges.write_bytes(content)


def _keep(ranges: Path, kept: Path) -> None:
    """Store the ranges. If that fails, they are computed again next time."""
    aside = kept.with_name(f"{kept.name}.{os.getpid()}.partial")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ranges, aside)
        aside.replace(kept)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        sys.stdout.write(f"the calibration ranges were not saved: {error}\n")


def prepare(model: Path, prepared: Path, wanted: WantedPrecision) -> int:
    """Fold constants and infer shapes, then mark residual sums; return the number of these sums."""
    logging.getLogger().setLevel(logging.ERROR)  # onnxruntime warns about intentional steps
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True, save_as_external_data=False)
    loaded = load(prepared)
    drop_identities(loaded)
    separate_weights(loaded)
    sums = mark_residuals(loaded) if wanted.residuals else 0
    save(loaded, prepared)
    return sums


def _choose_options(wanted: WantedPrecision, arrays: Arrays) -> dict[str, Any]:
    zero = np.array(0, np.int8)
    fixed = {"scale": np.array(wanted.input_scale, np.float32), "zero_point": zero, "quant_type": _TYPES["int8"]}
    return {
        "TensorQuantOverrides": {name: [fixed] for name in arrays} if wanted.input_scale else {},
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "QuantizeBias": False,
        "AddQDQPairToWeight": True,
        "QDQKeepRemovableActivations": True,
        "OpTypesToExcludeOutputQuantization": [*KINDS, *POOLINGS, MARK],
    }


def compute_calibration_key(prepared: Path, wanted: WantedPrecision, arrays: Arrays) -> str:
    """Compute the key of the ranges from the prepared model, the method, the samples and the tool."""
    digest = hashlib.sha256(prepared.read_bytes())
    digest.update(f"{wanted.precision} {wanted.method} {ort.__version__} {digest_samples(arrays)}".encode())
    return digest.hexdigest()


def digest_samples(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].shape} {arrays[name].dtype}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def write_document(made: Mapping[str, Any]) -> str:
    """Write the calibration document of a submission, in Markdown."""
    grid = "symmetric int8 with zero point 0" if made["precision"] == "int8" else "fp8 (E4M3)"
    lines = [
        "# Calibration",
        "",
        f"Post-training quantization to {made['precision']} with {made['tool']}, without retraining.",
        "",
        f"- Samples: {made['samples']}, in the order of the benchmark's calibration list (sha256 of their arrays: "
        f"{made['samples_sha256']}).",
        f"- Ranges of {made['tensors']} activations by the method {made['method']}, over all samples.",
        f"- Activations: {grid}, one scale per tensor. Weights: the same, "
        + ("one scale per output channel." if made["precision"] == "int8" else "one scale per tensor."),
        "- Quantized: inputs and weights of convolutions and matrix products, inputs of global pooling"
        + (f", and one branch of {made['residual_sums']} residual sums." if made["residual_sums"] else "."),
        "- Not quantized: biases, activation functions, softmax and normalisation.",
    ]
    return "\n".join(lines) + "\n"


# Places of Q/DQ pairs that TensorRT fuses best.
#
# Inputs of convolutions and matrix products are quantized, but not their outputs: the next operators (bias, activation,
# a residual sum) are fused into the same kernel and use its accumulator. The *other* branch of a residual sum is
# quantized, so that the kernel reads it as int8; if that tensor also feeds a convolution, both share one pair. The last
# sum before a global pooling is quantized for the pooling.

KINDS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
POOLINGS = ("GlobalAveragePool",)
MARK = "Identity"  # onnxruntime quantizes the inputs of any operator, even of an unknown one
_PREFIX = "residual_mark"


def mark_residuals(model: Any) -> int:
    """Insert a marked Identity in the other branch of each residual sum; return their number."""
    graph = model.graph
    makers = {output: node for node in graph.node for output in node.output}
    weights = {tensor.name for tensor in graph.initializer}
    marked = []
    for node in graph.node:
        if node.op_type != "Add" or len(node.input) != 2 or weights & set(node.input):
            continue
        branch = _find_other_branch(node, makers, weights)
        if branch is not None:
            marked.append((node, branch))
    for number, (node, branch) in enumerate(marked):
        name = f"{_PREFIX}_{number}"
        place = list(graph.node).index(node)
        graph.node.insert(place, helper.make_node(MARK, [node.input[branch]], [name], name=name))
        node.input[branch] = name
    return len(marked)


def remove_marks(model: Any) -> None:
    graph = model.graph
    marks = [node for node in graph.node if node.op_type == MARK and node.name.startswith(_PREFIX)]
    _bypass(graph, marks)


def _bypass(graph: Any, identities: Iterable[Any]) -> None:
    """Remove nodes that copy their input, so that the readers of their outputs read the inputs."""
    for node in identities:
        for other in _list_readers(graph, node.output[0]):
            for position, name in enumerate(other.input):
                if name == node.output[0]:
                    other.input[position] = node.input[0]
        graph.node.remove(node)


def resize_unquantized(model: Any) -> None:
    """Let each Resize read its input before quantization.

    TensorRT 8.6 moves a Q/DQ pair before a Resize behind it, and has no int8 kernel for Resize.
    """
    makers = {output: node for node in model.graph.node for output in node.output}
    for node in model.graph.node:
        dequantize = makers.get(node.input[0]) if node.op_type == "Resize" else None
        if dequantize is not None and dequantize.op_type == "DequantizeLinear":
            node.input[0] = makers[dequantize.input[0]].input[0]


def drop_identities(model: Any) -> None:
    """Drop every Identity before marking, except those that produce an output of the model."""
    graph = model.graph
    outputs = {value.name for value in graph.output}
    _bypass(graph, [node for node in graph.node if node.op_type == MARK and node.output[0] not in outputs])


def separate_weights(model: Any) -> None:
    """Give each convolution and matrix product its own copy of a weight that several use.

    TensorRT 8.6 does not fold the Q/DQ pair of a shared weight into its users: its layers are then listed with float
    weights, and the quantization of the weights as layers of their own.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    taken = set[str]()
    for number, node in enumerate(node for node in model.graph.node if node.op_type in KINDS):
        for position, name in enumerate(node.input):
            if name in weights and name in taken:
                copy = model.graph.initializer.add()
                copy.CopyFrom(weights[name])
                copy.name = node.input[position] = f"{name}_copy_{number}"
            taken.add(name)


def quantize_inputs(model: Any) -> dict[str, float]:
    """Let the model take quantized samples; return input name -> scale. An input that is also used unquantized is
    unchanged."""
    graph = model.graph
    scales: dict[str, float] = {}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for value in graph.input:
        readers = _list_readers(graph, value.name)
        if len(readers) != 1 or readers[0].op_type != "QuantizeLinear":
            continue
        step = readers[0]
        for node in _list_readers(graph, step.output[0]):
            node.input[list(node.input).index(step.output[0])] = value.name
        value.type.tensor_type.elem_type = constants[step.input[2]].data_type
        scales[value.name] = float(numpy_helper.to_array(constants[step.input[1]]).reshape(-1)[0])
        graph.node.remove(step)
    return scales


def _list_readers(graph: Any, name: str) -> list[Any]:
    return [node for node in graph.node if name in node.input]


def _find_other_branch(node: Any, makers: Mapping[str, Any], weights: Set[str]) -> int | None:
    """Find the input of a sum that does not come directly from a kernel that could fuse the sum; None if there is no
    such input, or if it comes from a Resize (see resize_unquantized)."""
    if any(name in makers and makers[name].op_type == "Resize" for name in node.input):
        return None
    match [_is_from_kernel(name, makers, weights) for name in node.input]:
        case [True, _]:
            return 1
        case [False, True]:
            return 0
    return None


def _is_from_kernel(name: str, makers: Mapping[str, Any], weights: Set[str]) -> bool:
    """Return True for the output of a kernel; a matrix product and its bias count as one kernel."""
    node = makers.get(name)
    if node is not None and node.op_type == "Add" and weights & set(node.input):
        node = next((makers[given] for given in node.input if given in makers), None)
    return node is not None and node.op_type in KINDS
