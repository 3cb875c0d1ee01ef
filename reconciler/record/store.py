"""The object store and the logs in git: files by their SHA-256, verified on the way in, never changed in place."""

from __future__ import annotations

from pathlib import Path

from reconciler.files import Places, copy, link, replace, sha256_file
from reconciler.record.codec import encode, record_id
from reconciler.record.index import record_path
from reconciler.resource.records import LOG_LIMIT, Artifact, Record


def object_path(places: Places, sha256: str) -> Path:
    return places.objects / sha256[:2] / sha256


def artifact_path(places: Places, place: str, sha256: str) -> Path:
    return places.logs / sha256 if place == "logs" else object_path(places, sha256)


def keep(places: Places, source: Path, name: str, *, in_git: bool = False) -> Artifact:
    """Store a file by its digest; ``in_git`` puts a copy under ``state/logs`` too, when it is small enough.

    The object is a second name of the same file, so nothing is moved away: a pass that is killed now finds the
    attempt whole.
    """
    sha256, size = sha256_file(source), source.stat().st_size
    link(source, object_path(places, sha256))  # also over a file of that name: it may be damaged
    if not in_git or size > LOG_LIMIT:
        return Artifact(name, sha256, size, "objects")
    log = places.logs / sha256
    if not log.is_file() or sha256_file(log) != sha256:
        copy(source, log)
    return Artifact(name, sha256, size, "logs")


def write_record(places: Places, record: Record) -> str:
    """Write a record, last of all an attempt leaves: whatever it names is on disk already. Gives its id."""
    data = encode(record)
    identity = record_id(record.address, record.key, data)
    replace(record_path(places, identity), data)
    return identity


def restore(places: Places, place: str, sha256: str) -> bool:
    """Bring a missing or damaged file back from its other copy here; False when there is no good one."""
    path = artifact_path(places, place, sha256)
    other = object_path(places, sha256) if place == "logs" else places.logs / sha256
    if not other.is_file() or sha256_file(other) != sha256:
        return False
    copy(other, path)
    return True


def discard(places: Places, place: str, sha256: str) -> None:
    """Move a damaged file out of the way: kept for a look, believed by nobody."""
    path = artifact_path(places, place, sha256)
    if path.exists():
        places.quarantine.mkdir(parents=True, exist_ok=True)
        path.replace(places.quarantine / f"{place}-{sha256}")
