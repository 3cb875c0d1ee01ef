"""The engine of another backend, described as one that a server serves."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from harness.backends import BackendEngine, BuildPlan, load_backend
from harness.catalog import TritonEngineOptions, list_options
from harness.contract import BACKENDS
from harness.errors import HarnessError

MADE = "made"  # folder of the other backend's engine, in that of this one


@dataclass(frozen=True, slots=True)
class ServedBy:
    """``name``: Triton's own backend for the engines of one of ours. ``source``: the file that it reads where it does
    not read the engine itself; ``kind`` of its instances."""

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
    """Raises HarnessError where the other backend does not build what is asked, or does not know an option."""
    options = TritonEngineOptions(plan.options)
    made_by, served_by = options.made_by, options.served_by
    folder = plan.output / MADE
    folder.mkdir()
    made = _build(replace(plan, output=folder, options=_select_options(plan.options, made_by)), made_by)
    made.write(folder)
    file = f"{MADE}/{made.file}"
    if served_by == "own" and (source := OWN_BACKENDS[made_by].source):
        # Triton's OpenVINO backend reads networks, not what the plug-in exports.
        cast(Any, load_backend(made_by)).write_network(plan.model, folder / source)
        file = f"{MADE}/{source}"
    return BackendEngine(
        backend="triton",
        version=version,
        file=file,
        precision=made.precision,
        batch_size=made.batch_size,
        # Around our own session any batch will do: the session pads it next to the engine.
        batch_sizes=made.batch_sizes if served_by == "own" else (),
        inputs=made.inputs,
        outputs=made.outputs,
        settings={"made_by": made_by, "made_by_version": made.version, "served_by": served_by},
    )


def _build(plan: BuildPlan, made_by: str) -> BackendEngine:
    offered = BACKENDS[made_by].precisions
    if plan.precision not in offered:
        fix = f"use one of {', '.join(offered)}, or another backend as engine.options.made_by"
        raise HarnessError(f"{made_by} builds no {plan.precision} engine", "input", fix)
    return load_backend(made_by).build(plan)


def _select_options(options: Any, made_by: str) -> dict[str, Any]:
    """Select the options of the other backend. An unknown one is refused: it would be ignored."""
    asked = {name: value for name, value in options.items() if name not in list_options(TritonEngineOptions)}
    known = BACKENDS[made_by].engine
    every = set(BACKENDS["triton"].engine)
    if foreign := sorted(name for name in asked if name in every and name not in known):
        fix = f"take it out; its options are {', '.join(known)}"
        raise HarnessError(f"{made_by} has no engine option {foreign[0]}", "input", fix)
    return asked


def copy_engine(file: Path, folder: Path) -> None:
    """Copy the engine's file, with its companions (weights in a file of their own), into a folder of the repository.
    HarnessError where there is no room for them."""
    files_there = sorted(path for path in file.parent.iterdir() if path.is_file() and path.name != "engine.json")
    files = [path for path in files_there if not _is_other_engine(path, file)]
    size, free = sum(path.stat().st_size for path in files), shutil.disk_usage(folder).free
    if size > free:
        problem = f"the engine takes {size:,} bytes, and {folder} has room for {free:,}"
        raise HarnessError(problem, "resources", "free space on that file system (`reconcile gc`) and run again")
    for path in files:
        shutil.copyfile(path, folder / path.name)


def _is_other_engine(path: Path, file: Path) -> bool:
    return path.suffix == ".blob" and file.suffix != ".blob"
