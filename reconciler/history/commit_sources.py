"""Code and documents that a commit's tree shows, read from the commit alone: what a spec names elsewhere is a file of
the reader, who may not be its author."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.storage import git
from reconciler.tree.source import is_left_out, refuse_unpublishable


class CommitSources(Struct, frozen=True):
    """``Sources`` of a commit."""

    root: Path
    commit: str

    def list_files(self, paths: Sequence[str]) -> dict[str, bytes]:
        places: dict[str, tuple[str, str]] = {}  # name below src/<benchmark> → path, blob
        for path in map(_normalise, paths):
            found = self._list(path)
            if not found:
                raise _missing(path)
            alone = path in found
            prefix = f"{os.path.basename(path)}/" if not alone and len(paths) > 1 else ""  # noqa: PTH119
            for file, (blob, size) in sorted(found.items()):
                name = os.path.basename(file) if alone else file.removeprefix(f"{path}/")  # noqa: PTH119
                if not alone and any(map(is_left_out, name.split("/"))):
                    continue
                if prefix + name in places:
                    raise ReconcilerError(f"two published files would be {prefix}{name}", fix="rename one of them")
                refuse_unpublishable(file, prefix + name, size)
                places[prefix + name] = file, blob
        contents = git.read_blobs(self.root, [blob for _, blob in places.values()])
        return {name: self._content(path, contents.get(blob)) for name, (path, blob) in places.items()}

    def choose(self, path: str, what: str) -> bytes:
        place = _normalise(path)
        blob, size = self._list(place).get(place, ("", 0))
        if not blob:
            raise _missing(f"{what}: {path}")
        refuse_unpublishable(path, os.path.basename(place), size)  # noqa: PTH119
        return self._content(path, git.read_blobs(self.root, [blob]).get(blob))

    def _list(self, path: str) -> dict[str, tuple[str, int]]:
        """Path → blob and size of a file, or of all below a folder."""
        return git.list_files_at(self.root, self.commit, [] if path == "." else [path])

    def _content(self, path: str, found: bytes | None) -> bytes:
        if found is None:
            raise _missing(path)
        return found


def _normalise(path: str) -> str:
    """ReconcilerError for what leads out of the repository."""
    place = os.path.normpath(path)
    if place.startswith(("/", "..")):
        raise _missing(path)
    return place


def _missing(path: str) -> ReconcilerError:
    return ReconcilerError(f"{path} is not in this commit", fix="keep what is published in the repository")
