"""An audit.config that a compliance test placed in the folder of its command, and that is there still."""

from __future__ import annotations

from pathlib import Path

from reconciler.files import hash_file
from reconciler.json_files import read_json


def find_placed_by(attempt: Path) -> Path | None:
    """The very file that this attempt's folder says it placed: its test runs, or ended as by a loss of power."""
    try:
        request = read_json(attempt / "request.json")
        source, target = Path(request["place_audit"]), Path(request["cwd"]) / "audit.config"
        return target if request["place_audit"] and hash_file(target) == hash_file(source) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_placed_below(attempts: Path) -> frozenset[Path]:
    """What all attempts here placed, by resolved path. It is not part of anybody's code."""
    found = (find_placed_by(attempt) for attempt in attempts.glob("*"))
    return frozenset(path.resolve() for path in found if path is not None)
