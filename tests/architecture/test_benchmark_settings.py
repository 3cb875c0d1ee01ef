"""A benchmark's file names every setting that its code reads: a spec may write no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness.benchmarks
from harness.benchmark_catalog import BENCHMARKS
from reconciler.rules.benchmark_facts import load_benchmark_facts

_FOLDER = Path(harness.benchmarks.__file__).parent
_PACKAGE = "harness.benchmarks."


def _find_modules(path: Path, seen: set[Path]) -> set[Path]:
    """The file, and those of benchmarks that it imports, and so on."""
    if path in seen or not path.is_file():
        return seen
    seen.add(path)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
            base = _FOLDER.joinpath(*str(node.module).removeprefix(_PACKAGE).split("."))
            for found in (base.with_suffix(".py"), base / "__init__.py", *(base / f"{a.name}.py" for a in node.names)):
                _find_modules(found, seen)
    return seen


def _read_settings(path: Path) -> Iterator[str]:
    """The names in ``settings.get("…")`` and ``choose_setting(…)``, and what other functions of sources.py read."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="settings"), attr="get"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name
            case ast.Call(func=ast.Name(id="choose_setting"), args=[_, _, ast.Constant(value=str(name)), _]):
                yield name
            case ast.Call(func=ast.Name(id="count_threads"), args=[ast.Name(id="settings"), *_]):
                yield "threads"
            case ast.Call(func=ast.Name(id="choose_count")):
                yield "count"


@pytest.mark.parametrize("code", [code for code, facts in load_benchmark_facts().items() if facts.support.runs])
def test_the_file_of_a_benchmark_names_the_settings_that_its_code_reads(code: str) -> None:
    facts = load_benchmark_facts()[code]
    declared = {*(facts.dataset.settings or ()), *(facts.model.settings or ())}
    module = _FOLDER.joinpath(*BENCHMARKS[code].module.split("."))
    entry = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    modules = _find_modules(entry, set()) - {_FOLDER / "sources.py"}
    read = {name for path in modules for name in _read_settings(path)}
    assert read == declared - {"dtype"}  # which sources.py reads for all
