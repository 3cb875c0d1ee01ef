"""Flushes to the disk. They are for power cuts, which no test makes: a process that is killed loses nothing that it has
written. On a disk that others use too they take most of the time of a pass."""

from __future__ import annotations

import os


def skip_flushes() -> None:
    """Skip them in this process and its forks. Anything but an open file is still refused."""
    os.fsync = _check_open  # type: ignore[assignment]


def _check_open(descriptor: int) -> None:
    os.fstat(descriptor)
