"""The project's modules and what each imports, read from the source text: nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("reconciler", "harness")


@dataclass(frozen=True, slots=True)
class Module:
    """``name`` is dotted; ``file`` is relative to the checkout."""

    name: str
    file: str
    text: str

    @property
    def is_package(self) -> bool:
        return self.file.endswith("__init__.py")

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.file)


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module. ``late``: inside a function. ``target`` is "" when a call computes it."""

    importer: Module
    line: int
    target: str
    late: bool
    by_name: bool = False

    @property
    def where(self) -> str:
        return f"{self.importer.file}:{self.line}"


@cache
def modules() -> Mapping[str, Module]:
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        file = path.relative_to(ROOT)
        parts = file.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, str(file), path.read_text(encoding="utf-8"))
    return MappingProxyType(found)


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(item for module in modules().values() for item in imports_of(module, modules()))


def imports_of(module: Module, known: Mapping[str, Module]) -> Iterator[Import]:
    """Every import statement and every call of import_module or __import__, wherever it is."""
    yield from _walk(module, module.tree, known, late=False)


def _walk(module: Module, node: ast.AST, known: Mapping[str, Module], *, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        for target in _targets(module, child, known):
            yield Import(module, getattr(child, "lineno", 0), target, late, isinstance(child, ast.Call))
        inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from _walk(module, child, known, late=late or inside)


def _targets(module: Module, node: ast.AST, known: Mapping[str, Module]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=source, names=names, level=level):
            base = _absolute(module, source or "", level)
            inner = [f"{base}.{alias.name}" for alias in names]
            yield from (name for name in inner if name in known)
            if not all(name in known for name in inner):
                yield base
        case ast.Call(args=[ast.Constant(value=str(name)), *_]) if _called(node) in _IMPORTERS:
            yield name
        case ast.Call() if _called(node) in _IMPORTERS:
            yield ""


_IMPORTERS = frozenset({"import_module", "__import__"})


def _called(node: ast.AST) -> str:
    """The last name of what a call calls: "import_module" of ``importlib.import_module(name)``."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _absolute(module: Module, source: str, level: int) -> str:
    if not level:
        return source
    parts = module.name.split(".")
    base = parts[: len(parts) - level + module.is_package]
    return ".".join([*base, *filter(None, [source])])
