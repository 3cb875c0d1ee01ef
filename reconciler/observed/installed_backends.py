"""Find installed backends by the names of their metadata folders: it imports no backend and parses no metadata."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from harness.benchmark_catalog import BuiltInBenchmark
from harness.catalog import BACKENDS, LOADGEN
from reconciler.storage.process import list_import_folders

PROJECT = "mlperf-reconciler"


def list_installed() -> dict[str, str]:
    """Return normalised distribution name → version for the packages that this interpreter's children can import.
    LoadGen has its newer name."""
    found: dict[str, str] = {}
    for folder in list_import_folders():
        try:
            there = _list_folder(folder, Path(folder).stat().st_mtime_ns)
        except OSError:
            continue
        found = {**there, **found}  # the first of two is the one that is imported
    return found


@functools.lru_cache(maxsize=32)
def _list_folder(folder: str, _changed: int) -> Mapping[str, str]:
    """List a folder as of its last change. The list is cached, because a pass asks several times."""
    found: dict[str, str] = {}
    for name in [entry.name for entry in os.scandir(folder)]:
        if name.endswith(".dist-info") and "-" in name:
            distribution, _, version = name.removesuffix(".dist-info").rpartition("-")
            normal = re.sub(r"[-_.]+", "-", distribution).lower()
            found.setdefault(LOADGEN[0] if normal in LOADGEN else normal, version)
    return MappingProxyType(found)


def find_backend_version(backend: str, distributions: Mapping[str, str]) -> str | None:
    """Return the version of the package that provides a backend here; "" if it needs no package; None if not
    installed."""
    facts = BACKENDS.get(backend)
    if facts is None:
        return None
    if not facts.distributions:
        return ""
    return next((distributions[name] for name in facts.distributions if name in distributions), None)


def find_missing_libraries(benchmark: BuiltInBenchmark, distributions: Mapping[str, str]) -> list[str]:
    """Return the missing libraries of a benchmark's children by their usual names. On another machine only backends are
    known: it must find out itself."""
    if PROJECT not in distributions:
        return []
    return [names[0] for names in benchmark.libraries if not any(name in distributions for name in names)]
