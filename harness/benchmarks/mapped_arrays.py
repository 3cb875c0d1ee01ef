"""Arrays that lie in published files, mapped where they are and checked to be whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from harness.errors import HarnessError

NPY = b"\x93NUMPY"


def map_npy(path: Path, dtypes: Sequence[str], width: int, fix: str, *, offset: int = 0, name: str = "") -> np.ndarray:
    """The array [rows, width] that begins at ``offset``, of one of ``dtypes``; ``width`` 0: [rows]. ``name``: for
    messages, of a part of the file. Raises HarnessError where it is cut off, or anything else."""
    shown = f"{path}{name}"
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            shape, columns_first, found = {
                (1, 0): npy.read_array_header_1_0,
                (2, 0): npy.read_array_header_2_0,
            }[npy.read_magic(stream)](stream)
            start = stream.tell()
    except (ValueError, KeyError) as error:
        raise HarnessError(f"{shown} is not a whole npy file: {error}", "input", fix) from error
    wanted = (width,) if width else ()
    if found.name not in dtypes or shape[1:] != wanted or len(shape) != 1 + len(wanted):
        described = f"{' or '.join(dtypes)} {'[rows, ' + str(width) + ']' if width else '[rows]'}"
        raise HarnessError(f"{shown} holds {found.name} {list(shape)}, not {described}", "input", fix)
    if start + int(np.prod(shape)) * found.itemsize > path.stat().st_size:
        raise HarnessError(f"{shown} is cut off", "input", fix)
    array: np.ndarray = np.memmap(path, found, "r", start, shape, "F" if columns_first else "C").view(np.ndarray)
    return array


def map_bare(path: Path, dtype: str, width: int, fix: str) -> np.ndarray:
    """The whole file as rows of ``width`` values, without a header. ``width`` 0: [rows]."""
    kind = np.dtype(dtype)
    row = kind.itemsize * max(width, 1)
    size = path.stat().st_size
    if not size or size % row:
        raise HarnessError(f"{path} is cut off: {size:,} bytes are no whole rows of {row:,}", "input", fix)
    shape = (size // row, width) if width else (size // row,)
    return np.memmap(path, kind, "r", 0, shape).view(np.ndarray)


def map_array(path: Path, dtype: str, width: int, fix: str) -> np.ndarray:
    """An npy file, or its values alone where it has no header."""
    try:
        with path.open("rb") as stream:
            begins = stream.read(len(NPY))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    return map_npy(path, [dtype], width, fix) if begins == NPY else map_bare(path, dtype, width, fix)
