"""Unpack an archive, and verify it against its manifest and digests. Nothing is written before every name in it has
been checked."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.publish.archive import compute_digests
from reconciler.resource.kinds import DIVISIONS
from reconciler.storage.archive_members import NO_ARCHIVE, BoundedMember, read_members
from reconciler.storage.files import hash_file
from reconciler.storage.json_files import parse_json
from reconciler.storage.leftovers import make_folder
from reconciler.storage.storage_errors import convert_storage_errors
from reconciler.storage.untrusted_files import SpecialFileError, is_sparse, open_regular
from reconciler.tree.layout import is_portable

_MOST = 1_000_000  # files of one archive; more are not a submission
_LARGEST = 64 << 30  # bytes of one archive, likewise
_SPARE = 64 << 20  # bytes to keep free on the disk
_DEEPEST, _LONGEST = 40, 1000  # levels of nested folders, and characters of a name


class Unpacked(Struct, frozen=True):
    """The result of unpacking. ``checked``: a description of each verification."""

    folder: Path
    files: int
    size: int
    checked: tuple[str, ...]


def require_file(archive: Path) -> None:
    """Raise ReconcilerError for a pipe or device, which would block forever, and for a sparse file, which takes as long
    to read as a full file of its claimed size."""
    try:
        with open_regular(archive) as stream:
            status = os.fstat(stream.fileno())
    except SpecialFileError as error:
        raise ReconcilerError(f"{archive} is not an archive: {error.strerror}", fix="name the archive") from error
    if is_sparse(status):
        problem = f"{archive} is not an archive: of {status.st_size:,} bytes, {status.st_blocks * 512:,} are stored"
        raise ReconcilerError(problem, fix="fetch it again")


def unpack(archive: Path, folder: Path, manifest: bytes | None) -> Unpacked:
    """Extract into ``folder``, which must be missing or empty. Raises ReconcilerError for a name that leads out of it,
    for a link or device, and, with a manifest, for every file that differs from it."""
    if folder.exists() and any(folder.iterdir()):
        raise ReconcilerError(f"{folder} is not empty", fix="use a new folder: -o DIR")
    try:
        with _open(archive) as tar:
            members = _check_members(tar)
            files = [m.name for m in members if m.isfile()]
            size = sum(m.size for m in members if m.isfile())
            _require_room(folder, size)
            with convert_storage_errors(folder), make_folder(folder) as aside:
                _extract(tar, members, aside)
                checked = _verify(aside, files, _parse_manifest(manifest)) if manifest is not None else ()
    except (*NO_ARCHIVE, OSError) as error:
        raise ReconcilerError(f"{archive.name} is not a readable archive: {error}", fix="fetch it again") from error
    return Unpacked(folder, len(files), size, checked)


def _open(archive: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(archive, "r:*", tarinfo=BoundedMember)
    except tarfile.ReadError as error:  # its text describes every format that was tried
        fix = "name the .tar.gz that `package` wrote; if this is it, fetch it again"
        raise ReconcilerError(f"{archive.name} is not an archive that `package` wrote", fix=fix) from error


def verify_digests(path: Path) -> tuple[str, ...]:
    """Compare a file with its .sha256 and .sha1. Raises ReconcilerError if both are missing, or if one differs."""
    own, checked = compute_digests(path), []
    for name, digest in own.items():
        digest_file = path.with_name(f"{path.name}.{name}")
        if not digest_file.is_file():
            continue
        stated = digest_file.read_text(errors="replace").split()
        if not stated or stated[0].lower() != digest:
            raise ReconcilerError(
                f"{path.name} does not match {digest_file.name}: its {name} is {digest}", fix="fetch both again"
            )
        checked.append(f"{name} {digest}")
    if not checked:
        problem = f"no {path.name}.sha256 or {path.name}.sha1 to verify it"
        raise ReconcilerError(problem, fix="fetch one, or unpack without --verify")
    return tuple(checked)


def _require_room(folder: Path, size: int) -> None:
    """Raise ReconcilerError before the first byte is written."""
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if size > free - _SPARE:
        raise ReconcilerError(f"{size:,} bytes to unpack, but only {free:,} are free at {there}", fix="free space")


def _explain_refusal(path: PurePosixPath) -> str:
    """Explain why a submission cannot contain a file of this name; "" if it can."""
    if len(path.parts) > _DEEPEST or len(str(path)) > _LONGEST:
        return "is nested too deeply"
    if path.parts[0] not in DIVISIONS and len(path.parts) > 1:
        return "is not in a division"
    if any(part.startswith(".") or not is_portable(part) for part in path.parts):
        return "has an invalid name"
    return ""


def _check_members(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    members: list[tarfile.TarInfo] = []
    names: set[PurePosixPath] = set()
    folders: set[PurePosixPath] = set()
    files: set[PurePosixPath] = set()
    size = 0
    for member in read_members(tar):
        path = PurePosixPath(member.name)
        size += member.size
        if path.is_absolute() or ".." in path.parts or "\\" in member.name or "\0" in member.name or not path.parts:
            raise ReconcilerError(f"{member.name!r} points outside the folder", fix=_HOSTILE)
        if not (member.isfile() or member.isdir()) or member.issparse():
            raise ReconcilerError(f"{member.name!r} is a link, a device or a file with holes", fix=_HOSTILE)
        if why := _explain_refusal(path):
            raise ReconcilerError(f"{member.name!r} {why}", fix=_HOSTILE)
        above = list(path.parents)[:-1]
        folders.update(above if member.isfile() else (path, *above))
        files.update((path,) if member.isfile() else ())
        if both := next((p for p in (path, *above) if p in files and p in folders), None):
            raise ReconcilerError(f"{str(both)!r} is both a file and a folder", fix=_HOSTILE)
        if path in names or len(names) >= _MOST or size > _LARGEST:
            raise ReconcilerError(f"{member.name!r} is a duplicate or too large", fix=_HOSTILE)
        names.add(path)
        members.append(member)
    return members


_HOSTILE = "nothing was unpacked; check the archive's source: no submission has such a file"


def _extract(tar: tarfile.TarFile, members: list[tarfile.TarInfo], folder: Path) -> None:
    for member in members:
        target = folder / member.name
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        source = tar.extractfile(member)
        assert source is not None
        with target.open("xb") as stream:
            shutil.copyfileobj(source, stream, 1 << 20)


def _parse_manifest(manifest: bytes) -> Mapping[str, str]:
    try:
        files = parse_json(manifest)["files"]
        return {str(name): str(entry["sha256"]) for name, entry in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReconcilerError(f"the manifest is not readable: {error}", fix="fetch it again") from error


def _verify(folder: Path, files: list[str], listed: Mapping[str, str]) -> tuple[str, ...]:
    wrong = [f"{name}: not in the manifest" for name in sorted(set(files) - set(listed))]
    wrong += [f"{name}: missing" for name in sorted(set(listed) - set(files))]
    shared = sorted(set(files) & set(listed))
    differing = [name for name in shared if hash_file(folder / name) != listed[name]]
    wrong += [f"{name}: its bytes differ from the manifest" for name in differing]
    if wrong:
        shown = "\n".join(f"  {line}" for line in wrong[:12])
        raise ReconcilerError(f"{len(wrong)} files differ from the manifest:\n{shown}", fix="fetch the archive again")
    return (f"{len(files)} files match the manifest",)
