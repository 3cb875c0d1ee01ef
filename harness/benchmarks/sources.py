"""The files that a benchmark is made from, as people have them on disk; generated ones say so forever."""

from __future__ import annotations

from pathlib import Path

# In the folder of every generated dataset: what is made from it is marked synthetic.
REHEARSAL = "rehearsal.json"


def is_rehearsal(source: Path | None) -> bool:
    return source is not None and (source / REHEARSAL).is_file()
