"""Digests that go into the facts of an attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

CODE_ROOT = Path(__file__).parent


def file_digest(path: Path) -> str:
    """sha256 of the bytes of one file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_digest(root: Path, paths: Iterable[Path]) -> str:
    """sha256 over names relative to ``root`` and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths):
        digest.update(f"{name}\0{file_digest(path)}\n".encode())
    return digest.hexdigest()


def folder_digest(folder: Path) -> str:
    """sha256 over every file below a folder."""
    return files_digest(folder, (path for path in folder.rglob("*") if path.is_file()))


def code_digest() -> str:
    """sha256 over the Python files of this package: the code that ran."""
    return files_digest(CODE_ROOT, CODE_ROOT.rglob("*.py"))
