"""Byte code of the project and its tests, and the constants of the project that Hypothesis tries, made once.

In a new checkout, each process of a session would otherwise make them for itself."""

from __future__ import annotations

import compileall
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
# Byte for byte: nothing is written there.
_KEPT = (ROOT / "tests/passes/made_by_0_1", ROOT / "tests/passes/refused/repository")
_CONSTANTS = ROOT / ".hypothesis/constants"


def compile_project() -> None:
    """Compile for children of passes: they write no byte code, and each would compile its imports."""
    _run_in_parallel([partial(compileall.compile_file, path, quiet=2) for path in _list_modules()])


def compile_tests(config: pytest.Config) -> None:
    """Compile for processes that run tests: they begin at the same time, and load the same.

    They write byte code whatever the shell says: compiling all tests in each takes longer than many tests.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    modules = [path for path in sorted((ROOT / "tests").rglob("*.py")) if not any(map(path.is_relative_to, _KEPT))]
    work = [partial(_compile_test, path, config) for path in modules]
    if not _CONSTANTS.exists():  # else each soon reads the few modules that have changed since
        work += [partial(_find_constants, path) for path in _list_modules()]
    _run_in_parallel(work)


def _list_modules() -> list[Path]:
    return [path for package in ("harness", "reconciler") for path in sorted((ROOT / package).rglob("*.py"))]


def _run_in_parallel(work: Sequence[Callable[[], object]]) -> None:
    """Run on all cores. A failure is ignored: the process that needs its result reports it."""
    cores = len(os.sched_getaffinity(0))
    children = []
    for number in range(cores):
        pid = os.fork()
        if pid == 0:
            for item in work[number::cores]:
                with contextlib.suppress(Exception):
                    item()
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


def _compile_test(path: Path, config: pytest.Config) -> None:
    """Compile like pytest, which rewrites the assertions of test modules; only its own code knows how."""
    if path.name != "conftest.py" and not any(fnmatch(path.name, name) for name in config.getini("python_files")):
        compileall.compile_file(path, quiet=2)
        return
    from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir

    folder = get_cache_dir(path)
    folder.mkdir(exist_ok=True)
    kept = folder / f"{path.stem}{PYC_TAIL}"
    if _read_pyc(path, kept) is None:
        status, code = _rewrite_test(path, config)
        _write_pyc(config.stash[assertstate_key], code, status, kept)


def _find_constants(path: Path) -> None:
    """Have Hypothesis find them, which keeps them in its own files."""
    from hypothesis.internal.constants_ast import constants_from_module

    module = ModuleType(path.stem)
    module.__file__ = str(path)
    constants_from_module(module)
