"""The report file of a bug: versions, the command, the traceback. No environment variables: they may contain
secrets."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from reconciler.cli.shared.repository import find_paths, find_root

_PACKAGES = ("mlperf-reconciler", "click", "rich", "pydantic", "ruamel.yaml", "jsonschema", "GitPython")


def write_report(arguments: Sequence[str], error: BaseException) -> Path:
    """Write into .reconcile/ of the repository, else into the temporary folder, else nowhere."""
    text = "\n".join(_list_lines(arguments, error))
    for find_folder in (_find_work, lambda: Path(tempfile.gettempdir())):
        try:
            folder = find_folder()
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=f"bug-{os.getpid()}-", suffix=".txt", dir=folder)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
            return Path(name)
        except OSError:
            continue
    return Path(os.devnull)


def _find_work() -> Path:
    root = find_root(Path.cwd())
    if root is None:
        raise FileNotFoundError
    return find_paths(root).work


def _list_lines(arguments: Sequence[str], error: BaseException) -> list[str]:
    versions = [f"{name} {_find_version(name)}" for name in _PACKAGES]
    return [
        f"command: reconcile {shlex.join(arguments)}",
        f"python {platform.python_version()} on {platform.platform()}",
        *versions,
        "",
        *traceback.format_exception(error),
    ]


def _find_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
