"""The reference's checkpoint in torchsnapshot's format: ``.snapshot_metadata`` maps each part of a tensor to bytes of a
file. Tensors are read one at a time, so the checkpoint need not fit into memory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from harness.benchmarks.dlrm_v2.layers import Shape, Weights, list_weights
from harness.benchmarks.sources import check_ends, choose_setting, is_below
from harness.contract import Counter
from harness.errors import HarnessError

METADATA = ".snapshot_metadata"
BUFFER = "buffer_protocol"  # a tensor's raw bytes
_DTYPES: Mapping[str, np.dtype[Any]] = {"torch.float32": np.dtype(np.float32), "torch.float16": np.dtype(np.float16)}
_WRAPPERS = ("module.", "model.")  # prefixes of the modules in which training wraps the network
_FIX = (
    "download the checkpoint again, as described by `reconcile fetch dlrm-v2-99`; its folder contains "
    ".snapshot_metadata"
)


@dataclass(frozen=True, slots=True)
class TensorPart:
    """Part of a tensor: its offset in the tensor, its shape, its file, and the offset of its bytes there."""

    offsets: tuple[int, ...]
    shape: tuple[int, ...]
    location: str
    start: int
    dtype: np.dtype[Any]


class Checkpoint:
    """Tensors by their torchrec names, such as ``over_arch.model.1.weight``."""

    def __init__(self, folder: Path, pieces: Mapping[str, Sequence[TensorPart]]) -> None:
        self._folder, self._pieces = folder, pieces
        self.shapes = {name: _join_shape(name, parts) for name, parts in pieces.items()}

    def read(self, name: str, out: np.ndarray | None = None) -> np.ndarray:
        """Read as float32, into ``out`` if it is passed, such as a mapped file."""
        tensor = np.empty(self.shapes[name], np.float32) if out is None else out
        for piece in self._pieces[name]:
            place = tuple(slice(at, at + size) for at, size in zip(piece.offsets, piece.shape, strict=True))
            tensor[place] = np.memmap(self._folder / piece.location, piece.dtype, "r", piece.start, piece.shape)
        return tensor


def open_checkpoint(folder: Path, wanted: Sequence[str]) -> Checkpoint:
    """Open a checkpoint. Raises HarnessError if any of ``wanted`` is missing, or a file is missing or truncated."""
    manifest = _read_manifest(folder / METADATA)
    try:
        pieces = {name: list(parts) for name, parts in _read_pieces(manifest).items()}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        problem = f"{folder / METADATA} has no valid tensor locations: {error!r}"
        raise HarnessError(problem, "input", _FIX) from error
    missing = [name for name in wanted if name not in pieces]
    if missing:
        raise HarnessError(f"{folder / METADATA} does not list {', '.join(missing[:3])}", "input", _FIX)
    chosen = {name: pieces[name] for name in wanted}
    ends: dict[str, int] = {}
    for piece in (piece for parts in chosen.values() for piece in parts):
        end = piece.start + prod(piece.shape) * piece.dtype.itemsize
        ends[piece.location] = max(end, ends.get(piece.location, 0))
    check_ends(folder, ends, _FIX)
    return Checkpoint(folder, chosen)


def _read_manifest(path: Path) -> Mapping[str, Any]:
    """Read the manifest, JSON in newer versions, YAML in older ones."""
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if text.lstrip().startswith("{") else YAML(typ="safe").load(text)
        manifest: Mapping[str, Any] = document["manifest"]
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", _FIX) from error
    except (ValueError, TypeError, KeyError, RecursionError, YAMLError) as error:
        raise HarnessError(f"{path} is truncated, or not of a checkpoint: {error}", "input", _FIX) from error
    return manifest


def _read_pieces(manifest: Mapping[str, Any]) -> dict[str, dict[TensorPart, None]]:
    """Read the pieces of every tensor, regardless of the rank that wrote them; duplicates from several ranks count
    once."""
    found: dict[str, dict[TensorPart, None]] = {}
    for path, entry in manifest.items():
        name = path.split("/")[-1]
        while name.startswith(_WRAPPERS):
            name = name.partition(".")[2]
        pieces = dict.fromkeys(_list_pieces(name, entry))
        if entry["type"] == "Tensor":
            found.setdefault(name, pieces)
        else:
            found.setdefault(name, {}).update(pieces)
    return {name: pieces for name, pieces in found.items() if pieces}


def _list_pieces(name: str, entry: Mapping[str, Any]) -> Iterator[TensorPart]:
    match entry["type"]:
        case "Tensor":
            yield _make_piece(name, entry, [0] * len(entry["shape"]))
        case "ShardedTensor" | "ChunkedTensor" as kind:
            for shard in entry["shards" if kind == "ShardedTensor" else "chunks"]:
                yield _make_piece(name, shard["tensor"], shard["offsets"])


def _make_piece(name: str, tensor: Mapping[str, Any], offsets: Sequence[int]) -> TensorPart:
    if tensor["serializer"] != BUFFER or tensor["dtype"] not in _DTYPES:
        how = f"{tensor['dtype']}, written with {tensor['serializer']}"
        raise HarnessError(f"{name} of the checkpoint is {how}, which is not supported", "input", _FIX)
    start = (tensor.get("byte_range") or [0])[0]
    part = TensorPart(tuple(offsets), tuple(tensor["shape"]), tensor["location"], start, _DTYPES[tensor["dtype"]])
    if any(type(number) is not int or number < 0 for number in (*part.offsets, *part.shape, start)):
        raise ValueError(f"{name} has a part at {list(offsets)} of {list(part.shape)}")
    if len(part.offsets) != len(part.shape) or not is_below(part.location):
        raise ValueError(f"{name} has a part in {part.location!r}")
    return part


def _join_shape(name: str, pieces: Sequence[TensorPart]) -> tuple[int, ...]:
    """Return the joined shape. Raises HarnessError if the pieces do not fill the shape, so no tensor is larger than its
    data on disk."""
    if len({len(piece.shape) for piece in pieces}) != 1:
        raise HarnessError(f"{name} has parts with different axes", "input", _FIX)
    ends = (tuple(at + size for at, size in zip(piece.offsets, piece.shape, strict=True)) for piece in pieces)
    shape = tuple(max(sizes) for sizes in zip(*ends, strict=True))
    covered = sum(prod(piece.shape) for piece in pieces)
    if covered != prod(shape):
        raise HarnessError(f"{name} has {covered} of {prod(shape)} values", "input", _FIX)
    return shape


def write_model(weights: Weights, shape: Shape, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write the model in the format that the settings require."""
    if choose_setting("model", settings, "format", ("onnx", "pt2")) == "onnx":
        from harness.benchmarks.dlrm_v2.network import write_network

        write_network(weights, shape, output, counter)
    else:
        from harness.benchmarks.dlrm_v2.program import write_program

        write_program(weights, shape, output, counter)


_RANKS = 2  # number of ranks that write a checkpoint


def draw_weights(rng: np.random.Generator, shape: Shape) -> dict[str, NDArray[np.float32]]:
    """Draw weights whose deviations preserve the scale of values from layer to layer."""
    found = {}
    for name, size in list_weights(shape).items():
        deviation = 0.05 if len(size) == 1 else (1.5 / size[1]) ** 0.5
        deviation = 0.3 if "embedding_bags" in name else deviation
        found[name] = rng.normal(0, deviation, size).astype(np.float32)
    return found


def write_checkpoint(folder: Path, weights: Mapping[str, NDArray[np.float32]]) -> None:
    """Write a checkpoint as torchsnapshot does for training on several devices. Each table has one file per device,
    with a share of its rows; small weights follow each other in one file."""
    manifest: dict[str, Any] = {}
    small, end = b"", 0
    (folder / "batched").mkdir()
    for name, tensor in weights.items():
        path = f"model/model.{name}"
        if "embedding_bags" in name:
            bounds = np.linspace(0, len(tensor), _RANKS + 1).astype(int).tolist()
            for rank, (first, last) in enumerate(itertools.pairwise(bounds)):
                location = f"sharded/{path}_{first}_0"
                (folder / location).parent.mkdir(parents=True, exist_ok=True)
                (folder / location).write_bytes(tensor[first:last].tobytes())
                shard = {"offsets": [first, 0], "sizes": [last - first, tensor.shape[1]]}
                entry = _describe((last - first, tensor.shape[1]), location)
                manifest[f"{rank}/{path}"] = {"type": "ShardedTensor", "shards": [{**shard, "tensor": entry}]}
        else:
            entry = _describe(tensor.shape, "batched/0", (end, end + tensor.nbytes))
            manifest |= {f"{rank}/{path}": entry for rank in range(_RANKS)}
            small, end = small + tensor.tobytes(), end + tensor.nbytes
    (folder / "batched/0").write_bytes(small)
    document = {"version": "0.1.0", "world_size": _RANKS, "manifest": manifest}
    (folder / METADATA).write_text(json.dumps(document, indent=1), encoding="utf-8")


def _describe(shape: tuple[int, ...], location: str, place: tuple[int, int] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "Tensor", "location": location, "serializer": BUFFER, "dtype": "torch.float32"}
    return {**found, "shape": list(shape), "replicated": False, "byte_range": list(place) if place else None}
