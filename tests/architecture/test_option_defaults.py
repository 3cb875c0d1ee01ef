"""The default of a backend's option that schema and documents report is the one that the backend takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.catalog import BACKENDS, Option
from tests.architecture.source import ROOT

_FOLDER = ROOT / "harness/backends"
_GENERIC = "harness/cuda"  # of several backends, whose options of one name have one default


def _read_defaults(text: str) -> Iterator[tuple[str, object]]:
    """What is where an option is read: ``options.get(NAME, DEFAULT)`` or ``options.get(NAME) or DEFAULT``, a
    literal or a constant of the module."""
    tree = ast.parse(text)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Call) and len(node.args) == 2:
            pairs = [(node, node.args[1])]
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            pairs = [(node.values[0], node.values[-1])]
        for call, default in pairs:
            if (name := _name_option(call)) is None:
                continue
            value = constants.get(default.id, default) if isinstance(default, ast.Name) else default
            if isinstance(value, ast.Constant):
                yield name, value.value


def _name_option(call: ast.expr) -> str | None:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "get":
        return None
    first = call.args[0]
    known = ast.unparse(call.func.value).endswith("options") and isinstance(first, ast.Constant)
    return str(first.value) if known and isinstance(first, ast.Constant) else None


def _list_options(file: Path) -> list[tuple[str, dict[str, Option]]]:
    """Of the backends that the file is part of."""
    part = file.relative_to(_FOLDER).parts[0].removesuffix(".py") if file.is_relative_to(_FOLDER) else ""
    modules = {name: facts.module for name, facts in BACKENDS.items() if facts.module}
    names = [name for name, module in modules.items() if not part or module.split(".")[2] == part]
    return [(name, {**BACKENDS[name].engine, **BACKENDS[name].run}) for name in names]


_FILES = [path for folder in (_FOLDER, ROOT / _GENERIC) for path in sorted(folder.rglob("*.py"))]
_READ = {path: found for path in _FILES if (found := list(_read_defaults(path.read_text(encoding="utf-8"))))}


@pytest.mark.parametrize("file", _READ, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_an_option_has_the_documented_default(file: Path) -> None:
    for name, default in _READ[file]:
        reported = {backend: options[name].default for backend, options in _list_options(file) if name in options}
        assert all(value == default for value in reported.values()), (name, default, reported)


def test_options_are_found_where_they_are_read() -> None:
    read = {(path.relative_to(ROOT).as_posix(), *item) for path, found in _READ.items() for item in found}
    assert ("harness/backends/openai/serving.py", "idle_timeout_s", 120) in read
    assert ("harness/cuda/pipeline.py", "lanes", 2) in read
    assert len(read) > 40
