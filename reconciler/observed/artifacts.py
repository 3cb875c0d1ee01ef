"""Which recorded artifacts are missing or damaged on this disk."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path

from reconciler.observed.digest_cache import DigestCache, Stated, seal
from reconciler.observed.state import ArtifactPresence
from reconciler.resource.records import Artifact
from reconciler.storage.files import RepositoryPaths, hash_bytes
from reconciler.storage.storage_errors import refuse_storage_error

# Where an artifact is looked for, by where its record has it.
_PLACES = {"logs": ("logs", "objects"), "objects": ("objects",)}


def list_artifacts(folder: str, *, nested: bool) -> list[Stated]:
    """(path, size, mtime in ns) of each in a folder of files named by digest; one directory read, no stat per miss."""
    found: list[Stated] = []
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        refuse_storage_error(error, Path(folder))
        return found
    for entry in entries:
        if nested and entry.is_dir(follow_symlinks=False):
            found += list_artifacts(entry.path, nested=False)
        elif entry.is_file():
            status = entry.stat()
            found.append((entry.path, status.st_size, status.st_mtime_ns))
    return found


def observe_artifacts(
    artifacts: Iterable[Artifact], of: str, paths: RepositoryPaths, stamps: DigestCache
) -> dict[tuple[str, str], ArtifactPresence]:
    """(place, sha256) → what is wrong; what is fine is left out. A log in git is looked for in both of its places.

    ``of`` identifies the whole of ``artifacts``, which are not asked for when all is as it was when all was well.
    """
    stated = {
        "logs": list_artifacts(str(paths.logs), nested=False),
        "objects": list_artifacts(str(paths.objects), nested=True),
    }
    disk = seal("", itertools.chain(*stated.values()))
    sealed = hash_bytes(f"{of} {disk}".encode())
    if stamps.was_intact("artifacts", sealed):
        return {}
    folders = {place: {file[0].rpartition("/")[2]: file for file in files} for place, files in stated.items()}
    found: dict[tuple[str, str], ArtifactPresence] = {}
    sound = stamps.load_intact(disk)
    for artifact in artifacts:
        for place in _PLACES[artifact.place]:
            if (place, artifact.sha256) in sound or (place, artifact.sha256) in found:
                continue
            presence = _presence(artifact, folders[place].get(artifact.sha256), stamps)
            if presence is None:
                sound.add((place, artifact.sha256))
            else:
                found[place, artifact.sha256] = presence
    stamps.note_check("artifacts", sealed, well=not found)
    return found


def _presence(artifact: Artifact, entry: Stated | None, stamps: DigestCache) -> ArtifactPresence | None:
    if entry is None:
        return ArtifactPresence.MISSING
    path, size, mtime_ns = entry
    if size != artifact.size or stamps.get_digest(path, size, mtime_ns) != artifact.sha256:
        return ArtifactPresence.CORRUPT
    return None
