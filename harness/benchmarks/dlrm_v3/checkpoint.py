"""The tables of the reference's checkpoint, read in place: ``sparse/`` in the format of torch.distributed.checkpoint.

``.metadata`` maps each part of a table to bytes of a file, written by torch.save. A table of a terabyte is
memory-mapped, and its rows are read from disk or the page cache. The metadata is a pickle, which is read without
PyTorch and without importing or calling anything that it names.
"""

from __future__ import annotations

import mmap
import pickle
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.benchmarks.dlrm_v3.layers import CATEGORIES, ITEMS, USERS
from harness.benchmarks.sources import check_ends, find_stored, is_below
from harness.errors import HarnessError

SPARSE, DENSE, METADATA = "sparse", "non_sparse.ckpt", ".metadata"
FIX = (
    "download the checkpoint again, as described by `reconcile fetch dlrm-v3`; its folder contains sparse/ "
    "and non_sparse.ckpt"
)
_NAME = "embeddings.{}.weight"  # suffix of a table's weight name
_TYPES: Mapping[str, np.dtype[Any]] = {"float16": np.dtype(np.float16), "float32": np.dtype(np.float32)}


@dataclass(frozen=True, slots=True)
class TablePart:
    """Rows and columns of a table: their offset and size, and the position of their bytes in torch.save's file."""

    offsets: tuple[int, int]
    size: tuple[int, int]
    file: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class TableShape:
    size: tuple[int, int]
    dtype: np.dtype[Any]
    parts: tuple[TablePart, ...]


class Table:
    """A table for lookups. For an index out of range it returns the nearest row, as the reference does."""

    def __init__(self, shape: TableShape, mapped: Mapping[TablePart, np.ndarray]) -> None:
        self.rows, self.width = shape.size
        self._dtype = shape.dtype
        firsts = sorted({part.offsets[0] for part in shape.parts})
        self._firsts = np.array(firsts)
        self._bands = [[(p.offsets[1], mapped[p]) for p in shape.parts if p.offsets[0] == first] for first in firsts]

    def take(self, numbers: NDArray[np.integer[Any]]) -> np.ndarray:
        """Return rows as [numbers, width]."""
        wanted = np.clip(numbers, 0, self.rows - 1)
        if len(self._bands) == 1:
            return self._take(0, wanted)
        found = np.empty((len(wanted), self.width), self._dtype)
        bands = np.searchsorted(self._firsts, wanted, "right") - 1
        for band in np.unique(bands).tolist():
            rows = np.flatnonzero(bands == band)
            found[rows] = self._take(band, wanted[rows] - self._firsts[band])
        return found

    def _take(self, band: int, rows: NDArray[np.integer[Any]]) -> np.ndarray:
        found = np.empty((len(rows), self.width), self._dtype)
        for column, part in self._bands[band]:
            # Contiguous in memory as on disk, so that a row is read at once.
            found[:, column : column + part.shape[1]] = np.take(part, rows, axis=0)
        return found


def read_shapes(checkpoint: Path) -> dict[str, TableShape]:
    """Read the shapes of the three tables. Raises HarnessError naming what is missing from the metadata, or files that
    are missing or truncated."""
    folder = checkpoint / SPARSE
    described = _read_metadata(folder / METADATA)
    shapes = {}
    for name in (ITEMS, CATEGORIES, USERS):
        ending = _NAME.format(name)
        found = next((entry for full, entry in described.items() if full.endswith(ending)), None)
        if found is None:
            raise HarnessError(f"{folder / METADATA} does not list {ending}", "input", FIX)
        _check_covered(folder, name, found)
        shapes[name] = found
    ends: dict[str, int] = {}
    for part in (part for shape in shapes.values() for part in shape.parts):
        ends[part.file] = max(part.start + part.length, ends.get(part.file, 0))
    check_ends(folder, ends, FIX)
    return shapes


def open_table(checkpoint: Path, name: str, shape: TableShape) -> Table:
    folder = checkpoint / SPARSE
    return Table(shape, {part: _map(folder / part.file, part, shape.dtype, name) for part in shape.parts})


def _check_covered(folder: Path, name: str, shape: TableShape) -> None:
    """Check that parts with the same first row are adjacent and of one height, and that these bands are contiguous."""
    row = 0
    for first, band in groupby(sorted(shape.parts, key=lambda part: part.offsets), lambda part: part.offsets[0]):
        parts, column = list(band), 0
        for part in parts:
            if first != row or part.offsets[1] != column or part.size[0] != parts[0].size[0]:
                problem = f"{folder / METADATA}: a part of {name} at {list(part.offsets)} is in the wrong place"
                raise HarnessError(problem, "input", FIX)
            column += part.size[1]
        row += parts[0].size[0]
        if column != shape.size[1]:
            problem = f"{folder / METADATA}: parts of {name} contain {column} of its {shape.size[1]} columns"
            raise HarnessError(problem, "input", FIX)
    if row != shape.size[0]:
        raise HarnessError(
            f"{folder / METADATA}: parts of {name} contain {row} of its {shape.size[0]} rows", "input", FIX
        )


def _map(path: Path, part: TablePart, dtype: np.dtype[Any], name: str) -> np.ndarray:
    """Map the values that torch.save wrote there, the uncompressed member data/0 of a zip."""
    with path.open("rb") as stream:
        try:
            # A zip may begin anywhere in a file, so only what follows it is hidden.
            with (
                mmap.mmap(stream.fileno(), part.start + part.length, access=mmap.ACCESS_READ) as mapped,
                zipfile.ZipFile(mapped) as archive,  # type: ignore[call-overload]  # a stub that is too narrow
            ):
                (member,) = (item for item in archive.infolist() if item.filename.endswith("/data/0"))
            if member.header_offset < part.start:
                raise ValueError("its zip begins before it")
            start = find_stored(stream, member.header_offset)
        except (OSError, ValueError, struct.error, NotImplementedError, zipfile.BadZipFile) as error:
            raise HarnessError(f"{path} is damaged where {name} should be: {error}", "input", FIX) from error
    if start + member.file_size > part.start + part.length:
        raise HarnessError(f"{path} is damaged where {name} should be: it is truncated", "input", FIX)
    if member.file_size != prod(part.size) * dtype.itemsize:
        problem = f"{path} contains {member.file_size:,} bytes of a part of {name}, not {list(part.size)} {dtype.name}"
        raise HarnessError(problem, "input", FIX)
    return np.memmap(path, dtype, "r", start, part.size).view(np.ndarray)


class _Named:
    """Placeholder for an object of a class that is not loaded; stores its arguments and fields."""

    given: tuple[Any, ...]

    def __new__(cls, *given: Any) -> _Named:
        made = object.__new__(cls)
        made.given = given
        return made

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state if isinstance(state, dict) else {"state": state})


@cache
def _make_placeholder(name: str) -> type[_Named]:
    return type(name, (_Named,), {})


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return tuple if (module, name) == ("torch", "Size") else _make_placeholder(name)


def _read_metadata(path: Path) -> dict[str, TableShape]:
    """Read every tensor with two axes, by its full name."""
    try:
        with path.open("rb") as stream:
            metadata = _Reader(stream).load()
        places = {(key.fqn, tuple(key.offset)): value for key, value in metadata.storage_data.items() if key.offset}
        return {
            name: _describe(name, entry, places)
            for name, entry in metadata.state_dict_metadata.items()
            if isinstance(name, str) and len(getattr(entry, "size", ())) == 2
        }
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", FIX) from error
    except HarnessError:
        raise
    except Exception as error:  # a damaged pickle may raise any error
        raise HarnessError(f"{path} is truncated, or not of a checkpoint: {error}", "input", FIX) from error


def _describe(name: str, entry: Any, places: Mapping[Any, Any]) -> TableShape:
    kind = entry.properties.state[0].__name__
    if kind not in _TYPES:
        raise HarnessError(f"{name} of the checkpoint is {kind}, which is not supported", "input", FIX)
    parts = []
    for chunk in entry.chunks:
        place = places[name, tuple(chunk.offsets)]
        offsets: Any = tuple(chunk.offsets)
        size: Any = tuple(chunk.sizes)
        part = TablePart(offsets, size, place.relative_path, place.offset, place.length)
        numbers = (*offsets, *size, part.start, part.length)
        if any(type(number) is not int or number < 0 for number in numbers) or len(offsets) != 2 or len(size) != 2:
            raise ValueError(f"{name} has a part at {offsets} of {size}")
        if not is_below(part.file):
            raise ValueError(f"{name} has a part in {part.file!r}")
        if prod(size):  # a process may have no rows
            parts.append(part)
    return TableShape((entry.size[0], entry.size[1]), _TYPES[kind], tuple(parts))
