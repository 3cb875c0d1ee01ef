"""The scratch space on this disk, and the benchmark files in it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.rules.benchmark_files import (
    GIT,
    SCRATCH_DEFAULTS,
    SCRATCH_VARIABLE,
    FileDigest,
    SourceFile,
    choose_scratch,
)
from reconciler.storage.files import hash_file, replace
from reconciler.storage.json_files import read_json

_OWN = ".mlperf-reconciler"


class FileState(StrEnum):
    """The state of a file. ``UNPROVED``: the file exists, but its expected bytes are unknown."""

    HERE = "here"
    UNPROVED = "here, unproved"
    MISSING = "missing"
    INCOMPLETE = "incomplete"
    WRONG = "wrong"


class Found(Struct, frozen=True):
    """The result of a search for a file. ``path``: where it was found, or else where it belongs; ``count``: number of
    its files that exist; ``why``: the problem."""

    file: SourceFile
    presence: FileState
    path: Path
    count: int = 0
    sha256: str = ""
    why: str = ""

    @property
    def is_due(self) -> bool:
        return self.presence in (FileState.MISSING, FileState.INCOMPLETE, FileState.WRONG)


class Scratch(Struct, frozen=True):
    """The scratch space on this disk. ``origin``: the source of its location."""

    root: Path
    origin: str

    @property
    def incoming(self) -> Path:
        """Partial downloads, and archives that are not unpacked yet."""
        return self.root / _OWN / "incoming"

    @property
    def notes(self) -> Path:
        """Notes of fetched files, with their digests at that time."""
        return self.root / _OWN / "fetched"

    def find_note(self, path: Path) -> Path:
        name = hashlib.sha256(path.relative_to(self.root).as_posix().encode()).hexdigest()[:16]
        return self.notes / f"{name}-{path.name}.json"


def find_scratch(environment: Mapping[str, str], named: str = "") -> Scratch:
    """Return the scratch space ``named`` on the command line, or else by the variable, or else the guides' default.
    Raises ReconcilerError."""
    if named:
        return Scratch(Path(named).absolute(), "--scratch")
    value = environment.get(SCRATCH_VARIABLE)
    if chosen := choose_scratch(value, os.path.isdir):
        return Scratch(Path(chosen), SCRATCH_VARIABLE if value else "the guides' default")
    fix = f"export {SCRATCH_VARIABLE}=DIR, or pass --scratch DIR; datasets go to data/, models to models/"
    problem = f"no scratch space: {SCRATCH_VARIABLE} is not set, and {SCRATCH_DEFAULTS[0]} does not exist"
    raise ReconcilerError(problem, fix=fix)


def look_for(scratch: Scratch, file: SourceFile, *, deep: bool) -> Found:
    """Search each place where the file may be. ``deep`` reads it, unless it is unchanged since it was last verified."""
    belongs = scratch.root / file.path
    for place in file.places:
        if file.is_pattern:
            count = sum(1 for path in find_files(scratch.root, place) if path.stat().st_size)
            if count:
                short = f"{count:,} of {file.count:,} files exist"
                folder = scratch.root / Path(place).parent
                enough = count >= file.count
                presence = FileState.HERE if enough else FileState.INCOMPLETE
                return Found(file, presence, folder, count, why="" if enough else short)
        elif (scratch.root / place).is_file():
            return _judge(scratch, file, scratch.root / place, deep=deep)
    return Found(file, FileState.MISSING, belongs.parent if file.is_pattern else belongs)


def find_files(root: Path, pattern: str) -> Iterator[Path]:
    """Yield regular files that match a pattern, following links; nothing for missing folders."""
    return (path for path in root.glob(pattern) if path.is_file())


def _judge(scratch: Scratch, file: SourceFile, path: Path, *, deep: bool) -> Found:
    size = path.stat().st_size
    if not size:
        return Found(file, FileState.WRONG, path, 0, why="it is empty")
    noted = read_note(scratch, path)
    if noted and (noted.size, noted.mtime_ns) == (size, path.stat().st_mtime_ns):
        return Found(file, FileState.HERE, path, 1, noted.sha256)
    asked = find_expected_digest(file, noted)
    if asked is None or not deep:
        return Found(file, FileState.UNPROVED, path, 1)
    found = hash_with(path, asked.algorithm)
    if not asked.accepts(found):
        why = f"it has the {asked.algorithm} {found}, {asked.origin} has {asked.value}"
        return Found(file, FileState.WRONG, path, 1, why=why)
    sha256 = found if asked.algorithm == "sha256" else hash_file(path)
    write_note(scratch, path, sha256, "")
    return Found(file, FileState.HERE, path, 1, sha256)


def hash_with(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        return hashlib.file_digest(stream, lambda: _open_digest(algorithm, size)).hexdigest()


def _open_digest(algorithm: str, size: int) -> hashlib._Hash:
    """Open a digest; git hashes a file's size before its content."""
    if algorithm == GIT:
        return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    return hashlib.new(algorithm, usedforsecurity=False)


class Noted(Struct, frozen=True):
    """The digest of a file when it was last verified. ``address``: its source, "" if it was already here."""

    size: int
    mtime_ns: int
    sha256: str
    address: str


def find_expected_digest(file: SourceFile, noted: Noted | None) -> FileDigest | None:
    """Return the digest that the file itself must have: the published digest, or else the digest of its first fetch. An
    archive's digest says nothing about the files in it."""
    published = None if file.is_archive else file.digest
    return published or (FileDigest("sha256", noted.sha256, "the first fetch") if noted else None)


def read_note(scratch: Scratch, path: Path) -> Noted | None:
    try:
        values = read_json(scratch.find_note(path))
        return Noted(int(values["size"]), int(values["mtime_ns"]), str(values["sha256"]), str(values["address"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def write_note(scratch: Scratch, path: Path, sha256: str, address: str) -> None:
    """Write a note that identifies a file without a published digest, and saves reading a large file twice."""
    status = path.stat()
    values = {
        "path": path.relative_to(scratch.root).as_posix(),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "sha256": sha256,
        "address": address,
    }
    try:
        replace(scratch.find_note(path), (json.dumps(values, indent=1) + "\n").encode())
    except (OSError, ReconcilerError):
        return  # a read-only scratch space: the file is read again next time
