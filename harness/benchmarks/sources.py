"""The files that a benchmark is made from, as people have them on disk; generated ones say so forever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

# In the folder of every generated dataset: what is made from it is marked synthetic.
REHEARSAL = "rehearsal.json"


def is_rehearsal(source: Path | None) -> bool:
    return source is not None and (source / REHEARSAL).is_file()


def read_json(path: Path, fix: str) -> Any:
    """Raises HarnessError naming the file and where it is broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    except ValueError as error:
        raise HarnessError(f"{path} is cut off or not JSON: {error}", "input", fix) from error
