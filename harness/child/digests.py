"""Digests for the facts of an attempt."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from pathlib import Path

CODE_ROOT = Path(__file__).parents[1]
_PIECE = 1 << 16  # larger than almost any file of code


def hash_file(path: Path | str) -> str:
    """Return the sha256 of one file, in hex."""
    digest = hashlib.sha256()
    with io.FileIO(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def hash_files(root: Path, paths: Iterable[Path]) -> str:
    """Return the sha256 over the contents and the names relative to ``root``, in the order of the names."""
    return _hash_named((path.relative_to(root).as_posix(), path) for path in paths)


def _hash_named(files: Iterable[tuple[str, Path | str]]) -> str:
    digest = hashlib.sha256()
    for name, path in sorted(files):
        digest.update(f"{name}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def hash_folder(folder: Path) -> str:
    return hash_files(folder, (path for path in folder.rglob("*") if path.is_file()))


def hash_code() -> str:
    """Return the sha256 over this package's Python files, the code that ran. It does not create a ``Path`` per file,
    since every child calls it."""
    top = f"{CODE_ROOT}/"
    files = (f"{folder}/{name}" for folder, _, names in os.walk(CODE_ROOT) for name in names if name.endswith(".py"))
    return _hash_named((path.removeprefix(top), path) for path in files)
