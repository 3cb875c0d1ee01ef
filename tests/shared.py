"""Values made once in a session, by the first process that asks, and the libraries that a test needs."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from reconciler.storage.files import hash_file, hash_files

Made = TypeVar("Made")


def need(*libraries: str) -> None:
    """Skip the test or module if one is not installed. An import here would cost every process that collects."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed", allow_module_level=True)


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Made]) -> Made:
    """Call ``make`` once, in an empty folder of this name, which must not be changed later; return its value.

    Other processes wait, and try themselves if it failed.
    """
    base = factory.getbasetemp()
    top = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    top.mkdir(exist_ok=True)
    folder, kept = top / name, top / f"{name}.pickle"
    with (top / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            value = make(folder)
            partial = kept.with_suffix(".partial")
            partial.write_bytes(pickle.dumps(value))
            partial.rename(kept)
            return value
    found: Made = pickle.loads(kept.read_bytes())
    return found


def copy_folder(source: Path, target: Path) -> Path:
    """Copy a folder with its links and times, in half of the time that shutil takes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    return target


def hash_tree(path: Path) -> str:
    """Return the digest of a file, or of a folder's file names and contents."""
    if path.is_file():
        return hash_file(path)
    return hash_files(path, ((item, hash_file(item)) for item in sorted(p for p in path.rglob("*") if p.is_file())))
