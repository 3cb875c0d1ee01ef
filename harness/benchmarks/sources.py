"""The files that a benchmark is made from, as people have them on disk; generated ones say so forever."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.errors import HarnessError

# In the folder of every generated dataset: what is made from it is marked synthetic.
REHEARSAL = "rehearsal.json"


def is_rehearsal(source: Path | None) -> bool:
    return source is not None and (source / REHEARSAL).is_file()


def require_source(source: Path | None, what: str) -> Path:
    """``what``: the folder that a spec should name, for people."""
    if source is None:
        raise HarnessError("no dataset is declared", "input", f"name the folder with {what} as dataset.path")
    return source


def choose_dtype(settings: Mapping[str, Any], known: Sequence[str]) -> str:
    """Choose the dtype of the samples, as the dataset's settings have it; by default the first of those known."""
    dtype = str(settings.get("dtype", known[0]))
    if dtype not in known:
        raise HarnessError(f"dataset.settings.dtype is {dtype!r}", "input", f"use one of {', '.join(known)}")
    return dtype


def choose_count(settings: Mapping[str, Any], there: int) -> int:
    """How many samples are prepared: the first ``count``, all where the spec has none. Raises HarnessError where that
    is more than there are."""
    count = int(settings.get("count", 0)) or there
    if count > there:
        fix = "complete the dataset, or lower dataset.settings.count"
        raise HarnessError(f"count asks for {count:,} samples, and there are {there:,}", "input", fix)
    return count


def read_list(benchmark: str, name: str) -> list[str]:
    """The words of a list that comes with the code of a benchmark."""
    return files(f"harness.benchmarks.{benchmark}").joinpath(name).read_text(encoding="ascii").split()


def read_case_names(benchmark: str, count: int) -> list[str]:
    """The first of a benchmark's cases. Raises HarnessError where it has fewer."""
    names = read_list(benchmark, "cases.txt")[:count]
    if count > len(names):
        raise HarnessError(f"the benchmark has {len(names)} cases, not {count}", "input", "ask for fewer samples")
    return names


def read_json(path: Path, fix: str) -> Any:
    """Raises HarnessError naming the file and where it is broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path} is cut off or not JSON: {error}", "input", fix) from error
