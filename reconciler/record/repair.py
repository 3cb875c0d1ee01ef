"""Brings damaged or missing records and logs back: from their other copy here, else from git."""

from __future__ import annotations

from collections.abc import Callable

from reconciler.files import Places, replace, sha256_bytes
from reconciler.record.store import artifact_path, discard, restore

HeadFile = Callable[[str], bytes | None]


def repair_record(places: Places, path: str, head_file: HeadFile) -> str:
    """What was done about a damaged record file (``path`` relative to the repository), in words."""
    committed = head_file(path)
    full = places.root / path
    digest = full.stem.rpartition("-")[2]
    if committed is not None and sha256_bytes(committed).startswith(digest):
        replace(full, committed)
        return "restored from git"
    places.quarantine.mkdir(parents=True, exist_ok=True)
    full.replace(places.quarantine / full.name)
    return f"moved to {places.quarantine / full.name}; what it recorded counts as never done"


def repair_artifact(places: Places, place: str, sha256: str, head_file: HeadFile) -> bool:
    """Whether a log or object is good again, or may be forgotten. A log that is in no copy is lost: False."""
    discard(places, place, sha256)
    if restore(places, place, sha256):
        return True
    if place != "logs":
        return True  # nothing needs it until an action reads it, and then it is made again
    committed = head_file(f"state/logs/{sha256}")
    if committed is None or sha256_bytes(committed) != sha256:
        return False
    replace(artifact_path(places, place, sha256), committed)
    return True
