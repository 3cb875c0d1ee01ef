"""Compressed NIfTI volumes on disk, read to the checksum at their end."""

from __future__ import annotations

import glob
import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from harness.benchmarks.sources import FileRule, check_files, describe_problems
from harness.errors import HarnessError

_GZIP = b"\x1f\x8b"
LARGEST = 1 << 32  # bytes of a volume: the longest case has two billion


class _Header(NamedTuple):
    """``begins``: offset of the values, in bytes."""

    sides: tuple[int, ...]
    bits: int
    begins: float


@contextmanager
def open_volume(path: Path, fix: str) -> Iterator[Any]:
    """Open the library's image, whose values must be read within this context. Raises HarnessError if they cannot be
    read or fail the checksum: the library stops before the checksum, so a damaged byte would go unnoticed."""
    import nibabel  # slow to load, and a run reads prepared volumes

    try:
        with gzip.open(path) as stream:
            yield nibabel.Nifti1Image.from_stream(stream)
            while stream.read(1 << 20):
                pass
    except Exception as error:  # the library raises nothing more specific
        raise HarnessError(f"{path} cannot be read: {error}", "input", fix) from error


def check_volumes(source: Path, folders: Iterable[str], paths: Sequence[str], fix: str) -> None:
    """Check compressed volumes below ``source``. Raises HarnessError naming the first few files that are missing,
    empty, truncated, not gzip, or not of the benchmark in ``folders``."""
    only = [f"{glob.escape(folder)}/*.nii.gz" for folder in folders]
    check_files(source, [FileRule(path, kind="gzip file", start=_GZIP) for path in paths], only=only, fix=fix)
    cut = [path for path in paths if not is_whole(source / path)]
    if cut:
        raise HarnessError(f"{source}: {describe_problems('cut off', cut, len(paths))}", "input", fix)


def read_sides(path: Path) -> tuple[int, ...]:
    """Return the sides from the header; nothing if it cannot be read."""
    header = _read_header(path)
    return header.sides if header else ()


def is_whole(path: Path) -> bool:
    """Return True if the last bytes, the uncompressed size, agree with the volume's header."""
    header = _read_header(path)
    if header is None:
        return False
    with path.open("rb") as stream:
        stream.seek(-4, os.SEEK_END)
        packed = struct.unpack("<I", stream.read(4))[0]
    size = math.prod(header.sides) * header.bits // 8
    if not 0 <= header.begins <= LARGEST or min((*header.sides, header.bits)) <= 0 or size > LARGEST:
        return False
    return bool(packed == (int(header.begins) + size) % 2**32)


def _read_header(path: Path) -> _Header | None:
    try:
        with gzip.open(path) as stream:
            header = stream.read(112)
        order = "<" if header[:4] == b"\x5c\x01\x00\x00" else ">"
        dimensions = struct.unpack(f"{order}8h", header[40:56])
        (bits,) = struct.unpack(f"{order}h", header[72:74])
        (begins,) = struct.unpack(f"{order}f", header[108:112])
    except (OSError, EOFError, struct.error, zlib.error):
        return None
    return _Header(dimensions[1 : 1 + dimensions[0]], bits, begins)
