"""Which test files may notice a change of a module, the likeliest first, as imports and names of commands tell."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from reconciler.cli.command_table import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("reconciler", "harness", "tests/unit", "tests/passes", "tests/launchers")
# Whole passes: what a module's own tests do not see, these may.
_PASSES = ("tests/passes/test_passes.py", "tests/passes/test_compliance.py", "tests/passes/test_audited.py")
_NEAR = 2  # imports between a test and the module it is taken to test
_UNKNOWN = 99


@dataclass(frozen=True, slots=True)
class _Source:
    """``imports``: dotted names. ``words``: the first argument of every call, where it is a text."""

    imports: frozenset[str]
    words: frozenset[str]


@cache
def related_tests(file: str) -> tuple[str, ...]:
    """Those named for the module, in its mirrored folder, near to it by imports, or of a command that reaches it."""
    path = PurePosixPath(file)
    mirrored = _mirrored_folder(path)
    distances = _distances(_module(file))
    commands = {name for name, (module, _) in COMMANDS.items() if distances.get(_file(module), _UNKNOWN) <= _NEAR}

    def rank(test: str) -> tuple[bool, int, bool, str]:
        named = PurePosixPath(test).stem in (f"test_{path.stem}", f"test_{path.parent.name}")
        return not named, distances.get(test, _UNKNOWN), not PurePosixPath(test).is_relative_to(mirrored), test

    def is_related(test: str) -> bool:
        if test.startswith("tests/passes/"):
            return distances.get(test, _UNKNOWN) == 1
        near = PurePosixPath(test).is_relative_to(mirrored) or distances.get(test, _UNKNOWN) <= _NEAR
        return near or not commands.isdisjoint(_sources()[test].words)

    tests = [test for test in _sources() if PurePosixPath(test).name.startswith("test_")]
    chosen = sorted(filter(is_related, tests), key=lambda test: (test.startswith("tests/passes/"), rank(test)))
    return tuple(dict.fromkeys([*chosen, *(test for test in _PASSES if test in tests)]))


def _mirrored_folder(path: PurePosixPath) -> PurePosixPath:
    return PurePosixPath("tests/unit", *path.parts[1:-1] if path.parts[0] == "reconciler" else path.parts[:-1])


def _module(file: str) -> str:
    return ".".join(PurePosixPath(file).with_suffix("").parts).removesuffix(".__init__")


def _file(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _distances(module: str) -> dict[str, int]:
    """File → how many imports lead from it to the module: 1 for one that imports it itself."""
    found: dict[str, int] = {}
    edge, distance = {module}, 0
    while edge:
        distance += 1
        reached = [
            file for file, source in _sources().items() if file not in found and not edge.isdisjoint(source.imports)
        ]
        found.update(dict.fromkeys(reached, distance))
        edge = set(map(_module, reached))
    return found


@cache
def _sources() -> Mapping[str, _Source]:
    files = sorted(path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): _read(path) for path in files}


def _read(path: Path) -> _Source:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return _Source(frozenset(name for node in nodes for name in _imported(node)), frozenset(_first_words(nodes)))


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(source), names=names, level=0):
            yield source
            yield from (f"{source}.{alias.name}" for alias in names)
        case ast.Call(args=[ast.Constant(value=str(text)), *_]) if text.startswith(("reconciler.", "harness.")):
            yield text  # imported late, by its name


def _first_words(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Call(args=[ast.Constant(value=str(text)), *_]):
                yield text
