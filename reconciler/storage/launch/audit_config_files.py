"""Find an audit.config that a compliance test placed in its command's folder and that still exists."""

from __future__ import annotations

from pathlib import Path

from reconciler.storage.json_files import read_json
from reconciler.storage.untrusted_files import read_regular

_LARGEST = 1 << 20  # bytes


def find_placed_by(attempt: Path) -> Path | None:
    """Return the file that this attempt's folder says it placed, or the file with the same settings that its command
    put there instead. Such a file means that the test is running, or was cut off, for example by a power failure."""
    try:
        request = read_json(attempt / "request.json")
        source, target = Path(request["place_audit"]), Path(request["cwd"]) / "audit.config"
        return target if request["place_audit"] and _read_settings(target) == _read_settings(source) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_settings(path: Path) -> set[bytes]:
    """Return the lines without comments and spaces."""
    lines = (line.partition(b"#")[0].split() for line in read_regular(path, _LARGEST).splitlines())
    return {b"".join(words) for words in lines if words}


def find_placed_below(attempts: Path) -> frozenset[Path]:
    """Find the files that all attempts here placed, by resolved path. They are not part of a user's code."""
    found = (find_placed_by(attempt) for attempt in attempts.glob("*"))
    return frozenset(path.resolve() for path in found if path is not None)
