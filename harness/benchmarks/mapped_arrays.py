"""Memory-map arrays in published files, and check that they are complete."""

from __future__ import annotations

import tokenize
import warnings
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from harness.errors import HarnessError

NPY = b"\x93NUMPY"


class Header(NamedTuple):
    shape: tuple[int, ...]
    columns_first: bool
    dtype: np.dtype
    start: int


def _read_header(path: Path, offset: int, shown: str, fix: str) -> Header:
    """Read the header. Raises HarnessError unless the file contains a numeric array of the size that the header
    states."""
    try:
        with path.open("rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Python 2's headers are also accepted
            stream.seek(offset)
            found = parse_header(stream)
    except OSError as error:
        raise HarnessError(f"{shown}: {error.strerror}", "missing", fix) from error
    except (ValueError, KeyError, TypeError, SyntaxError, OverflowError, MemoryError, RecursionError) as error:
        raise HarnessError(f"{shown} is not a complete npy file: {error}", "input", fix) from error
    except tokenize.TokenError as error:
        raise HarnessError(f"{shown} is not a complete npy file: {error.args[0]}", "input", fix) from error
    if found.start + prod(found.shape) * found.dtype.itemsize > path.stat().st_size:
        raise HarnessError(f"{shown} is truncated", "input", fix)
    return found


def parse_header(stream: IO[bytes]) -> Header:
    """Parse the header. Raises numpy's errors, and ValueError for an array that does not contain numbers."""
    parse = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(stream)]
    shape, columns_first, dtype = parse(stream)
    if dtype.hasobject or any(size < 0 for size in shape):
        raise ValueError(f"its header states {dtype} {list(shape)}")
    return Header(shape, columns_first, dtype, stream.tell())


def load_npy(path: Path, fix: str) -> np.ndarray:
    """Load an array of any type and shape. Raises HarnessError if the file is truncated or not an array."""
    header = _read_header(path, 0, str(path), fix)
    if not prod(header.shape):
        return np.empty(header.shape, header.dtype)
    shape, columns_first, dtype, start = header
    return np.array(np.memmap(path, dtype, "r", start, shape, "F" if columns_first else "C"))


def map_npy(path: Path, dtypes: Sequence[str], width: int, fix: str, *, offset: int = 0, name: str = "") -> np.ndarray:
    """Map an array [rows, width] that begins at ``offset`` and has one of ``dtypes``; ``width`` 0: [rows]. ``name``:
    the part of the file, for messages. Raises HarnessError if the file is truncated or has other content, or if data
    follows an array without a ``name``."""
    shown = f"{path}{name}"
    shape, columns_first, found, start = _read_header(path, offset, shown, fix)
    wanted = (width,) if width else ()
    if found.name not in dtypes or shape[1:] != wanted or len(shape) != 1 + len(wanted):
        described = f"{' or '.join(dtypes)} {'[rows, ' + str(width) + ']' if width else '[rows]'}"
        raise HarnessError(f"{shown} contains {found.name} {list(shape)}, not {described}", "input", fix)
    if not shape[0]:
        raise HarnessError(f"{shown} has no rows", "input", fix)
    if not name and start + prod(shape) * found.itemsize < path.stat().st_size:
        raise HarnessError(f"{shown} is longer than its header states", "input", fix)
    return np.memmap(path, found, "r", start, shape, "F" if columns_first else "C").view(np.ndarray)


def map_bare(path: Path, dtype: str, width: int, fix: str) -> np.ndarray:
    """Map a file without a header as rows of ``width`` values; ``width`` 0: [rows]."""
    kind = np.dtype(dtype)
    row = kind.itemsize * max(width, 1)
    size = path.stat().st_size
    if not size or size % row:
        raise HarnessError(f"{path} is truncated: {size:,} bytes are not complete rows of {row:,}", "input", fix)
    shape = (size // row, width) if width else (size // row,)
    return np.memmap(path, kind, "r", 0, shape).view(np.ndarray)


def map_array(path: Path, dtype: str, width: int, fix: str) -> np.ndarray:
    """Map an npy file, or a file of plain values if it has no header."""
    try:
        with path.open("rb") as stream:
            begins = stream.read(len(NPY))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    return map_npy(path, [dtype], width, fix) if begins == NPY else map_bare(path, dtype, width, fix)
