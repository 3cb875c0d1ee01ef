"""Digests that go into the facts of an attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

CODE_ROOT = Path(__file__).parent


def hash_file(path: Path) -> str:
    """sha256 of the bytes of one file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def hash_files(root: Path, paths: Iterable[Path]) -> str:
    """sha256 over names relative to ``root`` and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths):
        digest.update(f"{name}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def hash_folder(folder: Path) -> str:
    """sha256 over every file below a folder."""
    return hash_files(folder, (path for path in folder.rglob("*") if path.is_file()))


def hash_code() -> str:
    """sha256 over the Python files of this package: the code that ran."""
    return hash_files(CODE_ROOT, CODE_ROOT.rglob("*.py"))
