"""Logs that the real LoadGen wrote once: what tests expect of them depends on no run of today.

``python -m tests.kept_logs`` makes them again, all or those that are named; run the tests of the readers afterwards.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

FOLDER = Path(__file__).parent


def unpack(name: str, folder: Path) -> Path:
    """Put the logs of a set below a folder: each run's in a folder of its own."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder
