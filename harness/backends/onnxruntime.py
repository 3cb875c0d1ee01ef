"""ONNX Runtime on the CPU. The engine file is the model with its graph optimised before the run.

Each stream is one of our threads and runs one batch at a time; ONNX Runtime releases the interpreter lock while it
computes. With one thread per batch, all streams of a NUMA node share a session; otherwise each has its own, since a
session has only one thread pool, for which its batches would compete.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime as ort

from harness.backends import (
    BackendEngine,
    BuildPlan,
    LoadPlan,
    Outputs,
    Tensor,
    collect_library_facts,
    find_backend_version,
)
from harness.backends.streams import StreamSession
from harness.catalog import OnnxruntimeEngineOptions
from harness.contract import Fact
from harness.errors import HarnessError
from harness.machine.numa import pin_temporarily
from harness.run.qsl import Rows, count_rows

ENGINE_FILE = "model.onnx"
_WEIGHTS_FILE = "weights.bin"  # next to the engine file, if the model's weights are also in a separate file
_PROVIDERS = ["CPUExecutionProvider"]
_LEVELS = {
    "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(bool)": "bool",
}
_find_version = partial(find_backend_version, "onnxruntime")


def facts() -> dict[str, Fact]:
    libraries = Path(ort.__file__).parent / "capi"
    return collect_library_facts(_find_version(), libraries, libraries.glob("*.so*"))


def build(plan: BuildPlan) -> BackendEngine:
    """Optimise the graph and save it. Levels above "extended" may use layouts of this processor."""
    options = ort.SessionOptions()
    options.graph_optimization_level = _LEVELS[OnnxruntimeEngineOptions(plan.options).graph_optimization]
    options.optimized_model_filepath = str(plan.output / ENGINE_FILE)
    if _stores_weights(plan.model):
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", _WEIGHTS_FILE)
    options.log_severity_level = 3  # otherwise it warns that the file is only for this processor, as the key says
    session = _open(plan.model, options)
    inputs, outputs = _describe_tensors(session.get_inputs()), _describe_tensors(session.get_outputs())
    fixed = {node.shape[0] for node in session.get_inputs() if isinstance(node.shape[0], int)}
    plan.refuse_fixed_batch(fixed)
    return plan.describe_engine("onnxruntime", _find_version(), ENGINE_FILE, inputs, outputs, fixed)


def _stores_weights(model: Path) -> bool:
    """Return True if the graph refers to a file in its folder."""
    others = [path.name.encode() for path in model.parent.iterdir() if path != model]
    text = model.read_bytes() if others else b""
    return any(name in text for name in others)


def load(plan: LoadPlan) -> OnnxRuntimeSession:
    return OnnxRuntimeSession(plan, plan.require_engine("ONNX Runtime"))


class OnnxRuntimeSession(StreamSession):
    reads_in_place = True
    makes_new_outputs = True

    def __init__(self, plan: LoadPlan, folder: Path) -> None:
        super().__init__(plan, BackendEngine.read(folder, "onnxruntime"))
        path = folder / self._engine.file
        shared: dict[int, Any] = {}  # sessions by node, for streams that compute a batch with one thread
        self._sessions = []
        for place in self._places:
            session = shared.get(place.node)
            if session is None:
                # A session's threads stay where they are created, and its weights where they are first written.
                with pin_temporarily(place.node, place.processors):
                    session = _open(path, self._make_options(place.threads))
                if place.threads == 1:
                    shared[place.node] = session
            self._sessions.append(session)
        self._input_names = [tensor.name for tensor in self._engine.inputs]
        self._output_names = [tensor.name for tensor in self._engine.outputs]

    def _make_options(self, threads: int) -> Any:
        options = ort.SessionOptions()
        options.graph_optimization_level = _LEVELS["none"]  # done by the build
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Spinning threads take the cores of LoadGen's thread and ours, which exchange the batches of a query, so
        # spinning is useful only if neither has anything else to do.
        alone = self._plan.scenario == "Offline" and self._plan.streams == 1
        spinning = alone or self._plan.scenario == "SingleStream"
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spinning else "0")
        return options

    def _run(self, stream: int, rows: Rows) -> Outputs:
        feed = dict(zip(self._input_names, self._staging[stream].batch(rows), strict=True))
        outputs = self._sessions[stream].run(self._output_names, feed)
        count = count_rows(rows)
        return [output[:count] for output in outputs]  # without the padding of the batch


def _open(path: Path, options: Any) -> Any:
    try:
        return ort.InferenceSession(str(path), options, providers=_PROVIDERS)
    except Exception as error:  # its exceptions share no base class
        fix = "check the model with onnx.checker; unsupported operators may need another opset or backend"
        problem = f"ONNX Runtime {_find_version()} cannot load {path.name}: {error}"
        raise HarnessError(problem, "backend", fix) from error


def _describe_tensors(nodes: Any) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(node.name, tuple(size if isinstance(size, int) else -1 for size in node.shape[1:]), _DTYPES[node.type])
        for node in nodes
    )
