"""The gate for folders that somebody else wrote: submission trees, logs of other machines.

Whoever sends one chooses every entry of it. A link leads to files of the reader, which would be read, shown or recorded
as if they had been sent; a pipe or a device is never read to its end; a file without blocks costs its sender nothing
and its reader hours.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

# Everything that is read whole: LoadGen's longest detail logs have tens of megabytes.
LARGEST = 64 << 20
# What is copied or hashed piece by piece: answers of an accuracy run (images have gigabytes).
LARGEST_ANSWERS = 64 << 30
_ANSWERS = "mlperf_log_accuracy.json"
_SPARSE = 64  # text that a file system compresses by itself shrinks less


def strange_entries(folder: Path, inside: Path | None = None) -> Iterator[tuple[Path, str]]:
    """(path, what it is) of everything at and below a folder that is no folder and no regular file of a sensible size,
    and of the links that lead out of ``inside``, by default the folder itself. Links that stay inside are followed once
    only: what they lead to has an entry of its own."""
    top = Path(os.path.realpath(inside or folder))
    if not Path(os.path.realpath(folder)).is_relative_to(top):
        yield folder, "a link that leads elsewhere"
        return
    for parent, folders, files in os.walk(folder):
        for name in sorted([*folders, *files]):
            path = Path(parent) / name
            if what := _strange(path, top):
                yield path, what


def _strange(path: Path, top: Path) -> str:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            if not Path(os.path.realpath(path)).is_relative_to(top):
                return "a link that leads elsewhere"
            status = path.stat()
    except OSError as error:
        return f"not readable ({error.strerror})"
    if stat.S_ISDIR(status.st_mode):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return "a pipe, socket or device"
    return _too_large(path.name, status)


def _too_large(name: str, status: os.stat_result) -> str:
    if status.st_size <= LARGEST:
        return ""
    if name != _ANSWERS or status.st_size > LARGEST_ANSWERS:
        return f"a file of {status.st_size:,} bytes, too many for what its name says"
    blocks = status.st_blocks * 512
    return f"a file of {status.st_size:,} bytes that holds {blocks:,}" if blocks * _SPARSE < status.st_size else ""
