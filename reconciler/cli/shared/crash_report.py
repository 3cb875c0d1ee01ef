"""The report file of a bug: versions, the command, the traceback. No environment variables: they may hold secrets."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from reconciler.cli.shared.repository import find_root

_PACKAGES = ("mlperf-reconciler", "click", "rich", "pydantic", "ruamel.yaml", "jsonschema", "GitPython")


def write_report(start: Path, arguments: Sequence[str], error: BaseException) -> Path:
    """Into .reconcile/ of the repository; into the temporary folder where that cannot be written."""
    root = find_root(start)
    text = "\n".join(_lines(arguments, error))
    for folder in ([root / ".reconcile"] if root else []) + [Path(tempfile.gettempdir())]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=f"bug-{os.getpid()}-", suffix=".txt", dir=folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            return Path(name)
        except OSError:
            continue
    return Path(os.devnull)


def _lines(arguments: Sequence[str], error: BaseException) -> list[str]:
    versions = [f"{name} {_version(name)}" for name in _PACKAGES]
    return [
        f"command: reconcile {shlex.join(arguments)}",
        f"python {platform.python_version()} on {platform.platform()}",
        *versions,
        "",
        *traceback.format_exception(error),
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
