"""ONNX models on disk, with weights in separate files.

They are read here rather than by onnx, which refuses weight files with hard links, as in every input of a build.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from harness.errors import HarnessError

_MOST_IN_ONE_FILE = 2**31  # maximum bytes of a protobuf message


def load(model: Path, *, weights: bool = True) -> Any:
    """Load a model. Raises HarnessError if the file is not a model, or weights are missing. ``weights`` False: do not
    load weights in other files.
    """
    try:
        loaded = onnx.load(str(model), load_external_data=False)
    except DecodeError as error:
        raise HarnessError(f"{model.name} is damaged: {error}", "input", "export or download it again") from error
    if not loaded.graph.output:
        raise HarnessError(f"{model.name} has no output", "input", "export or download it again")
    for tensor in _list_external(loaded) if weights else ():
        tensor.raw_data = _read_content(tensor, model)
        tensor.ClearField("data_location")
        del tensor.external_data[:]
    return loaded


def save(model: Any, path: Path) -> None:
    """Save the model as one file if possible, otherwise with separate weights under a fixed name."""
    weights_file = path.with_name(f"{path.name}.data")
    weights_file.unlink(missing_ok=True)
    large = model.ByteSize() >= _MOST_IN_ONE_FILE
    onnx.save(model, str(path), save_as_external_data=large, location=weights_file.name if large else None)


def list_files(model: Path) -> list[Path]:
    """List the model's file, then those of its weights."""
    loaded = load(model, weights=False)
    return [model, *sorted({model.parent / _read_location(tensor)["location"] for tensor in _list_external(loaded)})]


def gather(model: Path) -> None:
    """Rewrite with ``save`` a model whose weights may be anywhere in its folder, and remove the files of those
    weights."""
    _, *weights_file = list_files(model)
    if weights_file:
        loaded = load(model)
        for path in weights_file:
            path.unlink()
        save(loaded, model)


def copy(model: Path, folder: Path) -> Path:
    """Copy a model written by ``save``, with its weights."""
    for path in list_files(model):
        shutil.copyfile(path, folder / path.name)
    return folder / model.name


def _read_content(tensor: Any, model: Path) -> bytes:
    place = _read_location(tensor)
    path, length = model.parent / place["location"], int(place.get("length", -1))
    if not path.resolve().is_relative_to(model.parent.resolve()):
        problem = f"{model.name} keeps weights in {place['location']}, outside its folder"
        raise HarnessError(problem, "input", "keep all files of a model in one folder")
    if not path.is_file():
        problem = f"{model.name} keeps weights in {place['location']}, which does not exist"
        raise HarnessError(problem, "missing", "build_model() must write that file next to the model")
    with path.open("rb") as stream:
        stream.seek(int(place.get("offset", 0)))
        content = stream.read(length)
    if len(content) < length:
        fix = "export or download it again"
        raise HarnessError(f"{place['location']} is too short for the weights {tensor.name}", "input", fix)
    return content


def _read_location(tensor: Any) -> dict[str, str]:
    return {"location": "", **{entry.key: entry.value for entry in tensor.external_data}}


def _list_external(model: Any) -> Iterator[Any]:
    tensors = [*model.graph.initializer, *_list_constants(model.graph.node)]
    for function in model.functions:
        tensors += _list_constants(function.node)
    return (tensor for tensor in tensors if tensor.data_location == TensorProto.EXTERNAL)


def _list_constants(nodes: Iterable[Any]) -> Iterator[Any]:
    """List the constants in attributes, including those of inner graphs."""
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from [attribute.t] if attribute.HasField("t") else []
        yield from attribute.tensors
        for graph in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from graph.initializer
            yield from _list_constants(graph.node)
