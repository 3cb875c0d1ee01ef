"""Which tests reach which lines: a note at the start of every block of some modules, read after each test.

A block is what runs as a whole: the start of a function or of a branch, and what follows a branch or a loop.
"""

from __future__ import annotations

import ast
import bisect
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

NOTES = "reach_notes"  # the module in which instrumented code leaves its notes
# In the process that runs the tests a note is a number in a set; children have a file.
NOTES_TEXT = """
from os import getpid
OWNER, SEEN, PATH = None, set(), {path!r}
def note(place):
    owner = getpid()
    if (owner, place) not in SEEN:
        SEEN.add((owner, place))
        if owner != OWNER:
            with open(PATH, "a", buffering=1) as stream:
                stream.write(f"{{place}}\\n")
"""
_HEADER = f"""
try:
    from {NOTES} import note as _reach
except ImportError:
    def _reach(place): pass
"""
_CASES = 8  # of one test
_BRANCHING = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.Match, ast.AsyncFor, ast.AsyncWith)


class _Block(NamedTuple):
    """``statements[at:]`` run as a whole, from ``first`` to ``last``, lines of the file."""

    name: str
    statements: list[ast.stmt]
    at: int
    first: int
    last: int


def name_places(file: str, text: str) -> list[str]:
    return [f"{file}:{block.name}" for block in _blocks(ast.parse(text))]


def with_notes(file: str, text: str, numbers: Mapping[str, int]) -> str:
    """The module with a note of its number at the start of each place."""
    tree = ast.parse(text)
    for block in reversed(list(_blocks(tree))):
        note = ast.parse(f"_reach({numbers[f'{file}:{block.name}']})").body
        block.statements[block.at : block.at] = note
    at = next((n for n, node in enumerate(tree.body) if not _comes_first(node)), len(tree.body))
    tree.body[at:at] = ast.parse(_HEADER).body
    return ast.unparse(ast.fix_missing_locations(tree))


def find_place(file: str, text: str, start: int) -> str:
    """The innermost place that holds this byte; the file alone, and a colon, for what runs at its import."""
    lines = [0]
    for line in text.encode().split(b"\n"):
        lines.append(lines[-1] + len(line) + 1)
    number = bisect.bisect_right(lines, start)
    holding = [block for block in _blocks(ast.parse(text)) if block.first <= number <= block.last]
    return f"{file}:{max(holding, key=lambda block: block.first).name if holding else ''}"


class Reach:
    """A map that a run of the tests left: a line {places}, and one {test, seconds, reached} for each that passed."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        self._rows = sorted(map(json.loads, lines[1:]), key=lambda row: float(row["seconds"]))
        self._numbers = {place: number for number, place in enumerate(json.loads(lines[0])["places"])}
        self._reaching: dict[int, list[int]] = {}
        for index, row in enumerate(self._rows):
            for number in row["reached"]:
                self._reaching.setdefault(number, []).append(index)

    @property
    def tests(self) -> list[str]:
        return [row["test"] for row in self._rows]

    def find_tests(self, place: str, seconds: float) -> Iterator[str]:
        """Those that reach it, the cheapest first, a few cases of each, until their time is spent.

        At an import all is reached: those that reach anything of the file.
        """
        same = [place] if place in self._numbers else [name for name in self._numbers if _same_function(name, place)]
        found = sorted({index for name in same for index in self._reaching.get(self._numbers[name], ())})
        cases: Counter[str] = Counter()
        for index in found:
            row = self._rows[index]
            cases[row["test"].partition("[")[0]] += 1
            if cases[row["test"].partition("[")[0]] <= _CASES:
                seconds -= row["seconds"]
                if seconds < 0:
                    return
                yield row["test"]


def _same_function(name: str, place: str) -> bool:
    return name.startswith(place.rpartition("#")[0] or place)


def _blocks(tree: ast.Module) -> Iterator[_Block]:
    for name, function in _functions(tree, ""):
        at = 1 if ast.get_docstring(function, clean=False) is not None and len(function.body) > 1 else 0
        for number, (statements, begin) in enumerate(_starts(function.body, at)):
            last = statements[-1].end_lineno or 0
            yield _Block(f"{name}#{number}", statements, begin, statements[begin].lineno, last)


def _starts(statements: list[ast.stmt], at: int = 0) -> Iterator[tuple[list[ast.stmt], int]]:
    yield statements, at
    for number, statement in enumerate(statements):
        if isinstance(statement, _BRANCHING):
            holders: list[ast.AST] = [statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]
            for holder in holders:
                for field in ("body", "orelse", "finalbody"):
                    if inner := getattr(holder, field, None):
                        yield from _starts(inner)
            if number + 1 < len(statements):
                yield statements, number + 1


def _functions(node: ast.AST, inside: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        name = (
            f"{inside}.{child.name}"
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            else inside
        )
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield name, child
        yield from _functions(child, name)


def _comes_first(node: ast.stmt) -> bool:
    """The docstring, and imports from the future."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.ImportFrom(module="__future__"):
            return True
    return False
