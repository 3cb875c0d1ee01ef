"""Which functions a test reaches: a note at the start of every function of some modules, read after each test."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterator

_HEADER = """
import sys as _reach_sys
def _reach(place):
    found = _reach_sys.modules.get("reach_notes")
    if found is not None:
        found.SEEN.add(place)
"""


def with_notes(file: str, text: str) -> str:
    """The module with a note of its place at the start of each function."""
    tree = ast.parse(text)
    for function in _functions(tree):
        note = ast.parse(f"_reach({_place(file, function.lineno)!r})").body
        at = 1 if ast.get_docstring(function, clean=False) is not None else 0
        function.body[at:at] = note
    at = next((n for n, node in enumerate(tree.body) if not _comes_first(node)), len(tree.body))
    tree.body[at:at] = ast.parse(_HEADER).body
    return ast.unparse(ast.fix_missing_locations(tree))


class Places:
    """The functions of a module as it is."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._lines = [0]
        for line in text.encode().split(b"\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._bodies = [
            (function.body[0].lineno, function.end_lineno or 0, function.lineno)
            for function in _functions(ast.parse(text))
        ]

    def around(self, start: int) -> str:
        """The innermost function whose body holds the byte; "" for what runs when the module is imported."""
        line = bisect.bisect_right(self._lines, start)
        holding = [body for body in self._bodies if body[0] <= line <= body[1]]
        return _place(self._file, max(holding)[2]) if holding else ""


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def _place(file: str, line: int) -> str:
    return f"{file}:{line}"


def _comes_first(node: ast.stmt) -> bool:
    """The docstring, and imports from the future."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.ImportFrom(module="__future__"):
            return True
    return False
