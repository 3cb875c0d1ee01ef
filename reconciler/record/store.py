"""The object store and the logs in git: files named by their SHA-256, verified on the way in, never changed in
place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from reconciler.record.codec import encode, make_record_id
from reconciler.record.index import locate_record
from reconciler.resource.records import LOG_LIMIT, Artifact, Record
from reconciler.storage.files import LOGS, RepositoryPaths, copy, hash_bytes, hash_file, link, remove, replace


def find_object(paths: RepositoryPaths, sha256: str) -> Path:
    return paths.objects / sha256[:2] / sha256


def find_artifact(paths: RepositoryPaths, place: str, sha256: str) -> Path:
    return paths.logs / sha256 if place == "logs" else find_object(paths, sha256)


def keep(paths: RepositoryPaths, source: Path, name: str, *, in_git: bool = False) -> Artifact:
    """Store a file by its digest; ``in_git`` also puts a copy under ``state/logs`` if it is small enough.

    The object is a second name of the same file, so nothing is moved away, and a pass that is killed now leaves the
    attempt complete.
    """
    sha256, size = hash_file(source), source.stat().st_size
    put_object(paths, source, sha256)
    if not in_git or size > LOG_LIMIT:
        return Artifact(name, sha256, size, "objects")
    log = paths.logs / sha256
    if not log.is_file() or hash_file(log) != sha256:
        if log.is_dir():
            discard(paths, "logs", sha256)
        copy(source, log)
    return Artifact(name, sha256, size, "logs")


def put_object(paths: RepositoryPaths, source: Path, sha256: str) -> None:
    """Link a file with a verified digest into the object store; it replaces an existing file of that name, which may be
    damaged."""
    if find_object(paths, sha256).is_dir():
        discard(paths, "objects", sha256)
    link(source, find_object(paths, sha256))


def write_record(paths: RepositoryPaths, record: Record) -> str:
    """Write a record and return its id. It is the last file that an attempt writes: all files that it names are on disk
    by then."""
    data = encode(record)
    identity = make_record_id(record.address, record.key, data)
    replace(locate_record(paths, identity), data)
    return identity


def discard(paths: RepositoryPaths, place: str, sha256: str) -> None:
    """Move a damaged file out of the way. It is kept for inspection and never used."""
    path = find_artifact(paths, place, sha256)
    if path.exists():
        quarantine(paths, path, f"{place}-{sha256}")


def quarantine(paths: RepositoryPaths, path: Path, name: str) -> Path:
    """Move a damaged file, or a folder in its place, to ``name``, replacing an earlier one. Return the new path."""
    paths.quarantine.mkdir(parents=True, exist_ok=True)
    kept = paths.quarantine / name
    remove(kept)  # a file cannot replace a folder, nor a folder a file
    return path.replace(kept)


def find_readable(paths: RepositoryPaths, artifact: Artifact) -> Path:
    """Return the path at which an artifact can be read, since a log is in two places."""
    first = find_artifact(paths, artifact.place, artifact.sha256)
    return first if first.exists() else find_artifact(paths, "objects", artifact.sha256)


# Restores damaged or missing records and logs: from their other copy here, or else from git.

HeadFile = Callable[[str], bytes | None]
Copies = Callable[[str], Iterable[Path]]


def repair_record(paths: RepositoryPaths, path: str, head_file: HeadFile) -> str:
    """Repair a damaged record file (``path`` relative to the repository), and return a description of the repair."""
    committed = head_file(path)
    full = paths.root / path
    digest = full.stem.rpartition("-")[2]
    if committed is not None and hash_bytes(committed).startswith(digest):
        if full.is_dir():
            quarantine(paths, full, full.name)
        replace(full, committed)
        return "restored from git"
    return f"moved to {quarantine(paths, full, full.name)}; its result no longer counts"


def repair_artifact(paths: RepositoryPaths, place: str, sha256: str, head_file: HeadFile, copies: Copies) -> bool:
    """Return True if a log or object is good again, or may be forgotten; False for a log without any copy, which is
    lost.

    ``copies``: returns further files that should have these bytes, from the rendered tree.
    """
    discard(paths, place, sha256)
    path, other = find_artifact(paths, place, sha256), find_artifact(paths, "objects", sha256)
    other = other if place == "logs" else paths.logs / sha256

    def restore(sources: Iterable[Path]) -> bool:
        good = next((source for source in sources if source.is_file() and hash_file(source) == sha256), None)
        if good is not None:
            copy(good, path)
        return good is not None

    if restore([other]) or place != "logs":
        return True  # nothing needs an object until an action reads it, and then it is remade
    committed = head_file(f"{LOGS}/{sha256}")
    if committed is not None and hash_bytes(committed) == sha256:
        replace(path, committed)
        return True
    return restore(copies(sha256))
