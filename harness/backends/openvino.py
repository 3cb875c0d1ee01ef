"""OpenVINO on the CPU. The engine file is the compiled model exported by the plug-in; a run imports it.

Streams are the requests of an asynchronous queue. Completions are called on OpenVINO's own threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import openvino as ov

from harness.backends import (
    BackendEngine,
    BuildPlan,
    LoadPlan,
    Outputs,
    Session,
    Tensor,
    Token,
    collect_library_facts,
    find_backend_version,
    match_samples,
)
from harness.backends.streams import Staging
from harness.catalog import OpenvinoEngineOptions
from harness.contract import Fact
from harness.errors import HarnessError
from harness.run.qsl import Arrays, Rows, count_rows

ENGINE_FILE = "model.blob"
_DEVICE = "CPU"
_PRECISIONS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}
_find_version = partial(find_backend_version, "openvino")


def facts() -> dict[str, Fact]:
    libraries = Path(ov.__file__).parent / "libs"
    used = [*libraries.glob("libopenvino.so*"), *libraries.glob("libopenvino_intel_cpu_plugin.so*")]
    return collect_library_facts(_find_version(), libraries, used)


def build(plan: BuildPlan) -> BackendEngine:
    """Compile for this processor. "bounded" computes any batch up to batch_size, "fixed" pads partial ones."""
    options = OpenvinoEngineOptions(plan.options)
    fixed = options.shape == "fixed" or plan.batch_size == 1
    properties = {
        "INFERENCE_PRECISION_HINT": _PRECISIONS[plan.precision],
        "PERFORMANCE_HINT": options.performance_hint.upper(),
    }
    try:
        model = ov.Core().read_model(plan.model)
        first = ov.Dimension(plan.batch_size) if fixed else ov.Dimension(1, plan.batch_size)
        shapes = {port: ov.PartialShape([first, *list(port.partial_shape)[1:]]) for port in model.inputs}
        model.reshape(shapes)
        compiled = ov.Core().compile_model(model, _DEVICE, properties)
        content = compiled.export_model()
    except RuntimeError as error:
        fix = "check the model with onnx.checker; unsupported operators may need another opset or backend"
        problem = f"OpenVINO {_find_version()} cannot build {plan.model.name}: {error}"
        raise HarnessError(problem, "backend", fix) from error
    (plan.output / ENGINE_FILE).write_bytes(content.getvalue())
    inputs, outputs = _describe_tensors(compiled.inputs), _describe_tensors(compiled.outputs)
    sizes = (plan.batch_size,) if fixed else ()
    return plan.describe_engine("openvino", _find_version(), ENGINE_FILE, inputs, outputs, sizes)


def write_network(model: Path, target: Path) -> None:
    """Convert an ONNX model to OpenVINO's format, for servers that compile it themselves. ``target``: the .xml file."""
    ov.save_model(ov.Core().read_model(model), target, compress_to_fp16=False)


def load(plan: LoadPlan) -> OpenVinoSession:
    return OpenVinoSession(plan, plan.require_engine("OpenVINO"))


class OpenVinoSession(Session):
    reads_in_place = True

    def __init__(self, plan: LoadPlan, folder: Path) -> None:
        self._plan = plan
        self._engine = BackendEngine.read(folder, "openvino")
        self.batch_size = min(plan.batch_size, self._engine.batch_size)
        self.sizes: Sequence[int] = self._engine.batch_sizes
        compiled = _import(folder / self._engine.file, self._choose_properties())
        self._queue = ov.AsyncInferQueue(compiled, plan.depth)
        self._queue.set_callback(self._complete)
        self._request = compiled.create_infer_request()
        self._output_count = len(self._engine.outputs)
        self._staging: list[Staging] = []
        self.notes: Mapping[str, Any] = {
            "threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
            "streams": plan.streams,
            "engine_streams": int(compiled.get_property("NUM_STREAMS")),
            "precision": self._engine.precision,
        }

    def place(self, samples: Arrays) -> None:
        arrays = match_samples(samples, self._engine.inputs)
        sizes = (self._engine.batch_size, self._engine.batch_sizes)
        self._staging = [Staging(arrays, *sizes) for _ in range(self._plan.depth)]

    def compute(self, rows: Rows) -> Outputs:
        self._feed(self._request, self._staging[0], rows)
        self._request.infer(share_outputs=True)
        return self._read_outputs(self._request, count_rows(rows))

    def submit(self, rows: Rows, token: Token) -> None:
        # The queue hands out requests in this order and only to this thread, so this is the request that starts.
        index = self._queue.get_idle_request_id()
        self._feed(self._queue[index], self._staging[index], rows)
        self._queue.start_async(userdata=token)

    def ready(self) -> None:
        self._queue.get_idle_request_id()

    def drain(self) -> None:
        self._queue.wait_all()

    def close(self) -> None:
        self._queue.wait_all()

    def _choose_properties(self) -> dict[str, Any]:
        """Return the properties for an import. The precision must be repeated, since otherwise the plug-in uses the
        fastest one that it supports."""
        properties: dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": _PRECISIONS[self._engine.precision],
            "NUM_STREAMS": self._plan.streams,
        }
        if self._plan.threads:
            properties["INFERENCE_NUM_THREADS"] = self._plan.threads * self._plan.streams
        return properties

    @staticmethod
    def _feed(request: Any, staging: Staging, rows: Rows) -> None:
        for index, array in enumerate(staging.batch(rows)):
            request.set_input_tensor(index, ov.Tensor(array, shared_memory=True))

    def _read_outputs(self, request: Any, count: int) -> Outputs:
        return [request.get_output_tensor(index).data[:count] for index in range(self._output_count)]

    def _complete(self, request: Any, token: Token) -> None:
        try:
            outputs = self._read_outputs(request, len(token))
        except Exception as error:  # must not reach the calling thread
            self._plan.failed(token, error)
        else:
            self._plan.completed(token, outputs)


def _import(path: Path, properties: dict[str, Any]) -> Any:
    try:
        compiled = ov.Core().import_model(path.read_bytes(), _DEVICE, properties)
        used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    except RuntimeError as error:
        fix = "rebuild the engine: it was built for another processor or version"
        raise HarnessError(f"OpenVINO {_find_version()} cannot load {path.name}: {error}", "backend", fix) from error
    if used != properties["INFERENCE_PRECISION_HINT"]:
        problem = f"OpenVINO would compute in {used}, but the engine declares {properties['INFERENCE_PRECISION_HINT']}"
        raise HarnessError(problem, "backend", "use a precision that this processor supports")
    return compiled


def _describe_tensors(ports: Any) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(
            port.get_any_name(),
            tuple(-1 if size.is_dynamic else size.get_length() for size in list(port.partial_shape)[1:]),
            port.element_type.to_dtype().name,
        )
        for port in ports
    )
