"""Code of commands that the specs name and that is not here.

Only `validate` asks, and it is no mistake that keeps anything from being compiled: a clone without the code renders the
same tree, and what lies outside of the repository may be on another machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from reconciler.errors import Problem
from reconciler.resource.inputs import Value
from reconciler.resource.settings import BUILD, HARNESS, SERVICE
from reconciler.spec.declared import Declared
from reconciler.spec.quantities import show_quantity

_NAMES = tuple(f"{part}.{name}" for part in (HARNESS, SERVICE, BUILD) for name in ("code", "configs"))


def find_absent_code(declared: Declared, root: Path) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Find the code that is missing in the repository at ``root``, and on this machine elsewhere; each once, at its
    line."""
    problems: list[Problem] = []
    notes: list[str] = []
    for benchmark, name, setting, path in _list_places(declared):
        if os.path.lexists(root / path):
            continue
        origin, message = setting.origin, f"there is no file or folder {show_quantity(path)}"
        if os.path.isabs(path):  # noqa: PTH117
            notes.append(f"{origin}: {message} on this machine; runs of {benchmark} need it")
            continue
        fix = "correct the path (it is relative to the repository), or add what it names"
        where = f"spec.benchmarks.{benchmark}.{name}"
        problems.append(Problem(origin.file, origin.line, origin.column, where, message, fix))
    return tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(notes))


def _list_places(declared: Declared) -> Iterator[tuple[str, str, Value, str]]:
    """(benchmark, name of the setting, setting, path), but for variables and placeholders that have no value here."""
    for cell in declared.cells:
        for name in _NAMES:
            if (setting := cell.settings.get(name)) is None:
                continue
            for path in (setting.value,) if isinstance(setting.value, str) else setting.value:
                if "$" not in str(path) and "{" not in str(path):
                    yield cell.cell.benchmark, name, setting, str(path)
