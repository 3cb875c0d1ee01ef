"""Published files other than results: code, documents and power folders, read from the locations in the spec.

Hidden files and ``__pycache__`` are left out. Files that are not allowed in a submission tree are refused with the rule
that they violate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.tree.layout import is_portable

LARGEST = 50 * 1024 * 1024  # bytes of one file in a submission tree (submission rules)
_LICENCE = re.compile(r"(?i)(licen[cs]e|copying)([._-].*)?")
_HEADER = b"SPDX-License-Identifier:"
_HEAD = 4096  # bytes of a file that are searched for a licence header
_CODE = frozenset({".py", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".sh", ".rs", ".go", ".java", ".js", ".ts"})


class Sources(Protocol):
    """Files named in a spec by paths relative to its repository. All methods raise ReconcilerError for a file that does
    not exist, or that is not allowed in a submission tree."""

    def list_files(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return {name below src/<benchmark>: bytes} of files and folders. The content of a single folder is at the
        top; several folders keep their names."""

    def read_document(self, path: str, what: str) -> bytes:
        """Read a single document. ``what`` is its name in the error message."""


class DiskSources(Struct, frozen=True):
    """Files on disk. ``root``: the repository."""

    root: Path

    def list_files(self, paths: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for path in map(self.root.joinpath, paths):
            prefix = f"{path.name}/" if path.is_dir() and len(paths) > 1 else ""
            for name, file in sorted(_walk(path)):
                target = f"{prefix}{name}"
                if target in found:
                    raise ReconcilerError(f"two published files would be {target}", fix="rename one of them")
                found[target] = _read(file, target)
        return found

    def read_document(self, path: str, what: str) -> bytes:
        file = self.root / path
        if not file.is_file():
            fix = "copy the file here, or correct the path in the spec"
            raise ReconcilerError(f"{what}: {file} is not there", fix=fix)
        return _read(file, file.name)


def find_unlicensed(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Find code files without a licence: no SPDX header, and no licence file in their folder or one above it."""
    paths = {name: PurePosixPath(name) for name in sorted(files)}
    licensed = {path.parent for path in paths.values() if _LICENCE.fullmatch(path.name)}
    code = (name for name, path in paths.items() if path.suffix in _CODE and licensed.isdisjoint(path.parents))
    return tuple(name for name in code if files[name] and _HEADER not in files[name][:_HEAD])


def _walk(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_symlink():
        raise ReconcilerError(
            f"{path} is a symbolic link", fix="a submission tree must not contain links: publish the file itself"
        )
    if path.is_file():
        yield path.name, path
        return
    if not path.is_dir():
        raise ReconcilerError(f"{path}: no such folder", fix="copy it here, or correct `source` in the spec")
    for entry in sorted(path.iterdir()):
        if is_left_out(entry.name):
            continue
        for name, file in _walk(entry):
            yield (name if entry.is_file() else f"{entry.name}/{name}"), file


def is_left_out(name: str) -> bool:
    """Return True for files of a published folder that are left out."""
    return name.startswith(".") or name == "__pycache__" or name.endswith(".pyc")


def _read(path: Path, name: str) -> bytes:
    refuse_unpublishable(str(path), name, path.stat().st_size)
    return path.read_bytes()


def refuse_unpublishable(path: str, name: str, size: int) -> None:
    """Raise ReconcilerError for a file that is not allowed in a submission tree as ``name``."""
    if size > LARGEST:
        problem = f"{path} has {size / 1e6:.0f} MB; a submission tree allows 50 MB"
        raise ReconcilerError(problem, fix="publish its address instead of the file")
    if not all(is_portable(part) for part in name.split("/")):
        problem = f"{path} is not a valid name in a submission tree"
        raise ReconcilerError(problem, fix="rename it: no blanks, no dot ahead")
