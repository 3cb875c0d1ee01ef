"""Pack a tree as a reproducible ``tar.gz``: sorted names; the same time, mode and owner for every file; no user
name."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from msgspec import Struct

from reconciler.tree.content import Content, LogRef

# 1980-01-01 UTC, in seconds since 1970: the earliest time that every archive format can store.
EPOCH = 315532800
MANIFEST = ".MANIFEST.json"
FORMAT = 1
_LEVEL = 6


class Packed(Struct, frozen=True):
    """A packed archive. ``sha256`` and ``sha1``: of the compressed archive; ``tar_sha256``: of the uncompressed
    content, whatever the version of the compression library. ``files``: {path: {"sha256", "bytes"}}."""

    path: Path
    sha256: str
    sha1: str
    tar_sha256: str
    size: int
    files: Mapping[str, Mapping[str, Any]]


class _Hashing(io.RawIOBase):
    """Hashes bytes as it passes them on."""

    def __init__(self, target: BinaryIO, *names: str) -> None:
        self._target = target
        self.hashes = {name: hashlib.new(name, usedforsecurity=name != "sha1") for name in names}
        self.size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        block = bytes(data)
        self._target.write(block)
        for item in self.hashes.values():
            item.update(block)
        self.size += len(block)
        return len(block)


def pack(path: Path, files: Iterable[tuple[str, Content]], stored: Callable[[LogRef], Path]) -> Packed:
    """Write the archive. ``stored``: returns the file of a stored log."""
    listed: dict[str, dict[str, Any]] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw:
        outer = _Hashing(raw, "sha256", "sha1")
        with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=outer, mtime=0) as zipped:
            inner = _Hashing(zipped, "sha256")  # type: ignore[arg-type]
            with tarfile.open(fileobj=inner, mode="w", format=tarfile.PAX_FORMAT) as tar:
                folders: set[str] = set()
                for name, content in sorted(files):
                    for parent in reversed(PurePosixPath(name).parents[:-1]):
                        if (text := parent.as_posix()) not in folders:
                            folders.add(text)
                            tar.addfile(_make_member(text, folder=True))
                    listed[name] = _add_file(tar, name, content, stored)
    sha256, sha1 = (item.hexdigest() for item in outer.hashes.values())
    return Packed(path, sha256, sha1, inner.hashes["sha256"].hexdigest(), outer.size, listed)


def _make_member(name: str, *, folder: bool = False, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if folder else tarfile.REGTYPE
    info.mode = 0o755 if folder else 0o644
    info.size, info.mtime = size, EPOCH
    return info


def _add_file(tar: tarfile.TarFile, name: str, content: Content, stored: Callable[[LogRef], Path]) -> dict[str, Any]:
    """Add a file; stored bytes are read once more, so that the manifest lists the archive's actual content."""
    data = stored(content).read_bytes() if isinstance(content, LogRef) else content
    tar.addfile(_make_member(name, size=len(data)), io.BytesIO(data))
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def encode_manifest(packed: Packed, about: Mapping[str, Any]) -> bytes:
    """Return MANIFEST.json: the archive's content and its sources."""
    document = {
        "format": FORMAT,
        **about,
        "archive": {"name": packed.path.name, "sha256": packed.sha256, "sha1": packed.sha1, "bytes": packed.size},
        "tar": {"sha256": packed.tar_sha256},
        "files": packed.files,
    }
    return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


def compute_digests(path: Path) -> dict[str, str]:
    """Return the sha1 and sha256 of a file."""
    sha1, sha256 = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            sha1.update(piece)
            sha256.update(piece)
    return {"sha1": sha1.hexdigest(), "sha256": sha256.hexdigest()}
