"""Installed backends, read from the names of their metadata folders: no backend is imported, and no metadata parsed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from harness.benchmark_catalog import BuiltInBenchmark
from harness.catalog import BACKENDS

PROJECT = "mlperf-reconciler"


def list_installed() -> dict[str, str]:
    """Normalised distribution name → version, for all of this interpreter's packages."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = [entry.name for entry in os.scandir(folder)] if folder else []
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info") and "-" in name:
                distribution, _, version = name.removesuffix(".dist-info").rpartition("-")
                found.setdefault(re.sub(r"[-_.]+", "-", distribution).lower(), version)
    return found


def find_backend_version(backend: str, distributions: Mapping[str, str]) -> str | None:
    """The version of the package that provides a backend here; "" for one that needs none; None when not installed."""
    facts = BACKENDS.get(backend)
    if facts is None:
        return None
    if not facts.distributions:
        return ""
    return next((distributions[name] for name in facts.distributions if name in distributions), None)


def find_missing_libraries(benchmark: BuiltInBenchmark, distributions: Mapping[str, str]) -> list[str]:
    """The libraries of a benchmark's children that are not there, each by its usual name. Of another machine only
    backends are known: it has to find out itself."""
    if PROJECT not in distributions:
        return []
    return [names[0] for names in benchmark.libraries if not any(name in distributions for name in names)]
