"""Takes an archive apart again, and proves that it is what its manifest and digests say. Nothing is written before
every name in it is known to be harmless."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.publishing.archive import parse_digests

_MOST = 1_000_000  # files, and
_LARGEST = 64 << 30  # bytes of one archive: more is no submission


@dataclass(frozen=True, slots=True)
class Unpacked:
    """``checked``: what was proved, in words."""

    folder: Path
    files: int
    size: int
    checked: tuple[str, ...]


def unpack(archive: Path, folder: Path, manifest: bytes | None) -> Unpacked:
    """Extract into ``folder``, which must not exist or be empty. ReconcilerError for a name that leads out of it, for a
    link or device, and, with a manifest, for every file that differs from it."""
    if folder.exists() and any(folder.iterdir()):
        raise ReconcilerError(f"{folder} is not empty", fix="name a new folder: -o DIR")
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = _checked(tar)
            size = _extract(tar, members, folder)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ReconcilerError(f"{archive.name} is not a readable archive: {error}", fix="fetch it again") from error
    files = [m.name for m in members if m.isfile()]
    checked: tuple[str, ...] = ()
    if manifest is not None:
        checked = _verify(folder, files, _parsed(manifest))
    return Unpacked(folder, len(files), size, checked)


def verify_digests(path: Path) -> tuple[str, ...]:
    """Compares a file with the .sha256 and .sha1 beside it. ReconcilerError when neither is there, or one differs."""
    own, checked = parse_digests(path), []
    for name, digest in own.items():
        beside = path.with_name(f"{path.name}.{name}")
        if not beside.is_file():
            continue
        stated = beside.read_text(errors="replace").split()
        if not stated or stated[0].lower() != digest:
            raise ReconcilerError(
                f"{path.name} is not the file of {beside.name}: its {name} is {digest}", fix="fetch both again"
            )
        checked.append(f"{name} {digest}")
    if not checked:
        raise ReconcilerError(
            f"there is no {path.name}.sha256 and no {path.name}.sha1 to verify it by",
            fix="fetch them too, or unpack without --verify",
        )
    return tuple(checked)


def _checked(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    members: list[tarfile.TarInfo] = []
    names: set[PurePosixPath] = set()
    size = 0
    for member in tar:
        path = PurePosixPath(member.name)
        size += member.size
        if path.is_absolute() or ".." in path.parts or "\\" in member.name or "\0" in member.name or not path.parts:
            raise ReconcilerError(f"{member.name!r} leads out of the folder", fix=_HOSTILE)
        if not (member.isfile() or member.isdir()):
            raise ReconcilerError(f"{member.name!r} is a link or a device", fix=_HOSTILE)
        if path in names or len(names) >= _MOST or size > _LARGEST:
            raise ReconcilerError(f"{member.name!r} is there twice, or there is too much of it", fix=_HOSTILE)
        names.add(path)
        members.append(member)
    return members


_HOSTILE = "nothing was unpacked; no submission has such a file: ask where the archive comes from"


def _extract(tar: tarfile.TarFile, members: list[tarfile.TarInfo], folder: Path) -> int:
    size = 0
    folder.mkdir(parents=True, exist_ok=True)
    for member in members:
        target = folder / member.name
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        source = tar.extractfile(member)
        assert source is not None
        with target.open("xb") as stream:
            while block := source.read(1 << 20):
                size += stream.write(block)
    return size


def _parsed(manifest: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(manifest)
        files = document["files"]
        return {str(name): str(entry["sha256"]) for name, entry in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReconcilerError(f"the manifest is not readable: {error}", fix="fetch it again") from error


def _verify(folder: Path, files: list[str], listed: Mapping[str, Any]) -> tuple[str, ...]:
    wrong = [f"{name}: not in the manifest" for name in sorted(set(files) - set(listed))]
    wrong += [f"{name}: missing" for name in sorted(set(listed) - set(files))]
    for name in sorted(set(files) & set(listed)):
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != listed[name]:
            wrong.append(f"{name}: its bytes differ from the manifest")
    if wrong:
        shown = "\n".join(f"  {line}" for line in wrong[:12])
        raise ReconcilerError(f"{len(wrong)} files differ from the manifest:\n{shown}", fix="fetch the archive again")
    return (f"{len(files)} files as the manifest lists them",)
