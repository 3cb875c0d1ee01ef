"""Output of a server while it goes on: kept in parts, so that no file grows without end.

``harness.child.output`` writes them, in the folder of a service's attempt. Runs that ask the server keep a copy of its
output so far, and people follow them as they grow.
"""

from __future__ import annotations

import shutil
from pathlib import Path

# Its start, which stays; then two that take turns: once the newer is full it replaces the older.
LOG_PARTS = ("log.start", "log.older", "log.newer")


def copy_log(folder: Path, target: Path) -> None:
    """Copy a server's output up to now, as one file; none where it printed nothing. For either side: the server goes
    on."""
    found = (folder / name for name in LOG_PARTS)
    parts = [path for path in found if path.is_file()]
    if any(path.stat().st_size for path in parts):
        with target.open("wb") as out:
            for path in parts:
                with path.open("rb") as stream:
                    shutil.copyfileobj(stream, out)
