"""The model repository: one model in version 1, and config.pbtxt rendered from the engine and the run's settings."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from harness.backends import BackendEngine, BuildPlan, LoadPlan, Tensor, load_backend
from harness.backends.triton.protocol import DATATYPES
from harness.catalog import TritonEngineOptions, TritonRunOptions, list_options
from harness.contract import BACKENDS
from harness.errors import HarnessError
from harness.machine.placement import WorkerPlace, place_workers

MODEL = "model"
SERVED = "served"  # parameter that names the engine for our code in the Python backend
_PYTHON = "from harness.backends.triton.python_model import TritonPythonModel as TritonPythonModel\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Settings of a model in a run. ``instances``: number per device, or in total without devices; ``places``: each
    instance's processors and threads; ``threads``: the run's setting, 0 for a share; ``devices``: GPUs by number."""

    instances: int
    threads: int
    places: tuple[WorkerPlace, ...]
    devices: tuple[int, ...]
    dynamic_batching: bool
    preferred_batch_sizes: tuple[int, ...]
    batch_delay_us: int
    pinned_memory: bool
    scenario: str


def read_settings(plan: LoadPlan, engine: BackendEngine) -> ModelSettings:
    """Read the settings. Raises HarnessError for invalid values."""
    options = TritonRunOptions(plan.options)
    instances, delay = options.instances, options.batch_delay_us
    if instances < 1 or delay < 0:
        problem = f"instances {instances} and batch_delay_us {delay} are invalid"
        raise HarnessError(problem, "input", "use at least one instance, and a delay of 0 or more")
    dynamic = options.dynamic_batching
    if dynamic and engine.batch_sizes:
        sizes = ", ".join(map(str, engine.batch_sizes))
        fix = "remove dynamic_batching, or set engine: {options: {served_by: python}}, which pads"
        raise HarnessError(f"the engine supports only batches of {sizes}; the server may create others", "input", fix)
    on_gpu = OWN_BACKENDS[str(engine.settings["made_by"])].kind == "KIND_GPU"
    return ModelSettings(
        instances=instances,
        threads=plan.threads,
        places=tuple(place_workers(instances, plan.threads)),
        devices=tuple(range(max(1, options.devices))) if on_gpu else (),
        dynamic_batching=dynamic,
        preferred_batch_sizes=_read_sizes(options.preferred_batch_sizes, engine.batch_size),
        batch_delay_us=delay,
        pinned_memory=options.pinned_memory,
        scenario=plan.scenario,
    )


def _read_sizes(text: str, largest: int) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if wrong := [word for word in words if not word.isdecimal() or not 0 < int(word) <= largest]:
        fix = f"use sizes from 1 to {largest}, the engine's batch_size, such as {largest}"
        raise HarnessError(f"preferred_batch_sizes: {wrong[0]} is not a batch size", "input", fix)
    return tuple(int(word) for word in words)


def write_repository(root: Path, engine: BackendEngine, folder: Path, settings: ModelSettings) -> None:
    """Write the repository to ``root``. ``folder``: the engine's folder."""
    version = root / MODEL / "1"
    version.mkdir(parents=True)
    if engine.settings["served_by"] == "python":
        (version / "model.py").write_text(_PYTHON, encoding="utf-8")
    else:
        copy_engine(folder / engine.file, version)
    (root / MODEL / "config.pbtxt").write_text(render_config(engine, folder, settings), encoding="utf-8")


def render_config(engine: BackendEngine, folder: Path, settings: ModelSettings) -> str:
    """Render config.pbtxt. ``folder``: the engine's folder, from which our code in the server loads it."""
    return "\n".join(_render_lines(engine, folder, settings)) + "\n"


def _render_lines(engine: BackendEngine, folder: Path, settings: ModelSettings) -> Iterator[str]:
    own = OWN_BACKENDS[str(engine.settings["made_by"])]
    python = engine.settings["served_by"] == "python"
    yield f'name: "{MODEL}"'
    yield f"backend: {_quote('python' if python else own.name)}"
    if not python:
        yield f"default_model_filename: {_quote(Path(engine.file).name)}"
    yield f"max_batch_size: {engine.batch_size}"
    yield from _render_tensors("input", engine.inputs, reshaped=not python)
    yield from _render_tensors("output", engine.outputs, reshaped=not python)
    yield from _render_instances(settings, own.kind, policed=bool(list_policies(engine, settings)))
    if settings.dynamic_batching:
        sizes = settings.preferred_batch_sizes
        preferred = f" preferred_batch_size: [ {', '.join(map(str, sizes))} ]" if sizes else ""
        yield f"dynamic_batching {{{preferred} max_queue_delay_microseconds: {settings.batch_delay_us} }}"
    enabled = str(settings.pinned_memory and bool(settings.devices)).lower()
    yield (
        f"optimization {{ input_pinned_memory {{ enable: {enabled} }} output_pinned_memory {{ enable: {enabled} }} }}"
    )
    parameters = {SERVED: json.dumps(_describe_served(engine, folder, settings))} if python else {}
    for name, value in (parameters or _list_threads(own.name, settings)).items():
        yield f"parameters {{ key: {_quote(name)} value: {{ string_value: {_quote(value)} }} }}"


def _render_tensors(part: str, tensors: Sequence[Tensor], *, reshaped: bool) -> Iterator[str]:
    for tensor in tensors:
        dims = ", ".join(map(str, tensor.shape or (1,)))
        # Triton requires an axis after the batch axis.
        reshape = " reshape { shape: [ ] }" if reshaped and not tensor.shape else ""
        datatype = f"TYPE_{DATATYPES[tensor.dtype]}"
        yield f"{part} [ {{ name: {_quote(tensor.name)} data_type: {datatype} dims: [ {dims} ]{reshape} }} ]"


def _render_instances(settings: ModelSettings, kind: str, *, policed: bool) -> Iterator[str]:
    gpus = f" gpus: [ {', '.join(map(str, settings.devices))} ]" if settings.devices else ""
    if not policed:
        yield f"instance_group [ {{ count: {settings.instances} kind: {kind}{gpus} }} ]"
        return
    for node, count in sorted(Counter(place.node for place in settings.places).items()):
        yield f'instance_group [ {{ count: {count} kind: {kind} host_policy: "{name_policy(node)}" }} ]'


def list_policies(engine: BackendEngine, settings: ModelSettings) -> dict[str, WorkerPlace]:
    """Map policy names to places of their instances, for Triton's own backends on several NUMA nodes. Our code in the
    Python backend binds itself."""
    if engine.settings["served_by"] == "python" or settings.devices or settings.places[0].node < 0:
        return {}
    return {name_policy(place.node): place for place in settings.places}


def name_policy(node: int) -> str:
    return f"node{node}"


def _list_threads(backend: str, settings: ModelSettings) -> Mapping[str, str]:
    """Return the threads as parameters of Triton's own backends."""
    threads = str(min(place.threads for place in settings.places))
    return {
        "onnxruntime": {"intra_op_thread_count": threads, "inter_op_thread_count": "1"},
        "openvino": {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": "1"},
    }.get(backend, {})


def _describe_served(engine: BackendEngine, folder: Path, settings: ModelSettings) -> dict[str, Any]:
    return {
        "backend": engine.settings["made_by"],
        "engine": str(folder / MADE),
        "batch_size": engine.batch_size,
        "instances": settings.instances,
        "threads": settings.threads,
        # Spinning threads would take the other instances' processors.
        "scenario": settings.scenario if settings.instances == 1 else "Server",
    }


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# Another backend's engine, described as an engine for a server.

MADE = "made"  # folder of the other backend's engine, inside this engine's


@dataclass(frozen=True, slots=True)
class ServedBy:
    """``name``: Triton's backend for the engines of one of ours. ``source``: the file that it reads, if not the engine
    itself; ``kind``: the kind of its instances."""

    name: str
    kind: Literal["KIND_CPU", "KIND_GPU"]
    source: str = ""


OWN_BACKENDS = {
    "onnxruntime": ServedBy("onnxruntime", "KIND_CPU"),
    "onnxruntime-cuda": ServedBy("onnxruntime", "KIND_GPU"),
    "openvino": ServedBy("openvino", "KIND_CPU", "model.xml"),
    "tensorrt": ServedBy("tensorrt", "KIND_GPU"),
}


def build_served(plan: BuildPlan, version: str) -> BackendEngine:
    """Build the engine. Raises HarnessError if the other backend does not support the request or an option."""
    options = TritonEngineOptions(plan.options)
    made_by, served_by = options.made_by, options.served_by
    folder = plan.output / MADE
    folder.mkdir()
    made = _build(replace(plan, output=folder, options=_select_options(plan.options, made_by)), made_by)
    made.write(folder)
    file = f"{MADE}/{made.file}"
    if served_by == "own" and (source := OWN_BACKENDS[made_by].source):
        # Triton's OpenVINO backend reads networks, not exported models.
        cast(Any, load_backend(made_by)).write_network(plan.model, folder / source)
        file = f"{MADE}/{source}"
    return BackendEngine(
        backend="triton",
        version=version,
        file=file,
        precision=made.precision,
        batch_size=made.batch_size,
        # With our own session any batch size is accepted, since the session pads batches for the engine.
        batch_sizes=made.batch_sizes if served_by == "own" else (),
        inputs=made.inputs,
        outputs=made.outputs,
        settings={"made_by": made_by, "made_by_version": made.version, "served_by": served_by},
    )


def _build(plan: BuildPlan, made_by: str) -> BackendEngine:
    offered = BACKENDS[made_by].precisions
    if plan.precision not in offered:
        fix = f"use one of {', '.join(offered)}, or set engine.options.made_by to another backend"
        raise HarnessError(f"{made_by} builds no {plan.precision} engine", "input", fix)
    return load_backend(made_by).build(plan)


def _select_options(options: Any, made_by: str) -> dict[str, Any]:
    """Select the options of the other backend. An unknown option is refused, since it would be ignored."""
    asked = {name: value for name, value in options.items() if name not in list_options(TritonEngineOptions)}
    known = BACKENDS[made_by].engine
    every = set(BACKENDS["triton"].engine)
    if foreign := sorted(name for name in asked if name in every and name not in known):
        fix = f"remove it; valid options: {', '.join(known)}"
        raise HarnessError(f"{made_by} has no engine option {foreign[0]}", "input", fix)
    return asked


def copy_engine(file: Path, folder: Path) -> None:
    """Copy the engine's file, and separate files of weights, into a folder of the repository. Raises HarnessError if
    there is no room."""
    files_there = sorted(path for path in file.parent.iterdir() if path.is_file() and path.name != "engine.json")
    files = [path for path in files_there if path.suffix != ".blob" or file.suffix == ".blob"]
    size, free = sum(path.stat().st_size for path in files), shutil.disk_usage(folder).free
    if size > free:
        problem = f"the engine needs {size:,} bytes, but {folder} has only {free:,} free"
        raise HarnessError(problem, "resources", "free space on that file system (`reconcile gc`) and run again")
    for path in files:
        shutil.copyfile(path, folder / path.name)
