"""Tables of an official submission checker, parsed from its source without executing it: dictionaries of constants,
each value with its line."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.errors import ReconcilerError

_FOLDER = Path("tools/submission")  # the checkers' folder in a checkout
_NEWER = Path("submission_checker/constants.py")
_OLDER = tuple(map(Path, ("submission_checker_old.py", "submission_checker.py", "submission-checker.py")))
_MODELS = "MODEL_CONFIG"
_LISTS = ("models", "ignore_errors")  # beginnings of the names of a round's lists; its other entries are tables
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: Decimal(left) / Decimal(right),
}


class Constant(Struct, frozen=True):
    """Value in a table: a number (exact), a text, or a tuple of values. ``unread``: the source text of a value that is
    not a constant."""

    value: Any
    line: int
    unread: str = ""


Table = Mapping[str, Any]  # of nested tables and cells


class CheckerTables(Struct, frozen=True):
    """Tables of one checker. ``source``: its name among the sources of ruled values; ``file``: its name in messages."""

    source: str
    file: str
    tables: Table

    def list_rounds(self) -> tuple[str, ...]:
        return tuple(self.tables[_MODELS])

    def find(self, name: str, *path: str) -> Table:
        """Return a table by its name and the keys below it; empty if absent."""
        found: Any = self.tables.get(name, {})
        for part in path:
            found = found.get(part, {}) if isinstance(found, Mapping) else {}
        return found if isinstance(found, Mapping) else {}

    def find_cell(self, name: str) -> Constant | None:
        found = self.tables.get(name)
        return found if isinstance(found, Constant) and not found.unread else None

    def find_model_table(self, round_name: str, name: str) -> Table:
        return self.find(_MODELS, round_name, name)

    def find_models(self, round_name: str, name: str = "models") -> Constant | None:
        """Return a list of benchmarks."""
        found = self.find(_MODELS, round_name).get(name)
        return found if isinstance(found, Constant) and isinstance(found.value, tuple) else None

    def list_unread(self, round_name: str) -> Iterator[tuple[str, Constant]]:
        """List the values of the round's tables that are not constants, and its entries that have another form than in
        every round so far, each with its location. Raises ReconcilerError if the round itself is not a table."""
        own = self.tables[_MODELS].get(round_name, {})
        if not isinstance(own, Mapping):
            fix = "pass a checker with the round's table, or name another round: --round ROUND"
            raise ReconcilerError(f"{self.file}:{own.line}: {round_name} in {_MODELS} is not a table", fix=fix)
        for name in sorted(self.tables):
            yield from _list_unread(name, own if name == _MODELS else self.tables[name])
        for name, found in own.items():
            listed = name.startswith(_LISTS)
            constant = isinstance(found, Constant)
            if (constant and found.unread) or (constant and isinstance(found.value, tuple) if listed else not constant):
                continue
            what = "a list" if listed else "a table"
            yield f"{_MODELS}/{name}", Constant(None, _find_line(found), f"it is not {what}")


def _find_line(found: Any) -> int:
    """Return the first line of a value; 0 for an empty table."""
    return found.line if isinstance(found, Constant) else min(map(_find_line, found.values()), default=0)


def _list_unread(name: str, found: Any) -> Iterator[tuple[str, Constant]]:
    if isinstance(found, Constant):
        if found.unread:
            yield name, found
        return
    for key, below in found.items():
        yield from _list_unread(f"{name}/{key}", below)


def read_checkers(folder: Path) -> tuple[CheckerTables, ...]:
    """Read the checkers in their folder or in a checkout that contains it, the newer one first. Only the newer is named
    ``checker``, or the only one if there is just one. Raises ReconcilerError if there is none."""
    found: list[CheckerTables] = []
    for place in (folder, folder / _FOLDER):
        for file in (_NEWER, *_OLDER):
            path = place / file
            tables = _read_tables(path) if path.is_file() else {}
            if isinstance(tables.get(_MODELS), dict) and tables[_MODELS]:
                found.append(CheckerTables("old checker" if found else "checker", file.name, tables))
    if not found:
        names = ", ".join(map(str, (_NEWER, *_OLDER)))
        fix = f"pass the folder {_FOLDER} of mlcommons/inference, or a checkout of it"
        raise ReconcilerError(f"{folder} has no checker with a table {_MODELS}: looked for {names}", fix=fix)
    return tuple(found)


def _read_tables(path: Path) -> dict[str, Any]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise ReconcilerError(f"{path} cannot be read: {error}", fix="pass the folder of the checkers") from error
    tables: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            tables[node.targets[0].id] = _evaluate(node.value, tables)
    return {name: table for name, table in tables.items() if name.isupper()}


def _evaluate(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Evaluate an expression with exact numbers: 76.46 * 0.99 is 75.6954."""
    unread = Constant(None, node.lineno, ast.unparse(node)[:80])
    match node:
        case ast.Constant(value=float() as value):
            return Constant(Decimal(repr(value)), node.lineno)
        case ast.Constant(value=value):
            return Constant(value, node.lineno)
        case ast.Name(id=name):
            return known.get(name, unread)
        case ast.UnaryOp(op=ast.USub(), operand=below) if isinstance(cell := _evaluate(below, known), Constant):
            return Constant(-cell.value, node.lineno) if _is_number(cell.value) else unread
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _apply_operator(_OPERATORS[type(op)], _evaluate(left, known), _evaluate(right, known)) or unread
        case ast.List(elts=items) | ast.Tuple(elts=items):
            cells = [_evaluate(item, known) for item in items]
            if all(isinstance(cell, Constant) and not cell.unread for cell in cells):
                return Constant(tuple(cell.value for cell in cells), node.lineno)
        case ast.Dict(keys=names, values=values):
            return _evaluate_dictionary(names, values, known)
    return unread


def _evaluate_dictionary(
    names: list[ast.expr | None], values: list[ast.expr], known: Mapping[str, Any]
) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, item in zip(names, values, strict=True):
        found = _evaluate(item, known)
        if isinstance(name, ast.Constant):
            table[str(name.value)] = found
        elif name is None and isinstance(found, Mapping):
            table.update(found)
        else:
            table[f"line {item.lineno}"] = Constant(None, item.lineno, ast.unparse(item)[:80])
    return table


def _apply_operator(operate: Callable[[Any, Any], Any], left: Any, right: Any) -> Constant | None:
    if not (isinstance(left, Constant) and isinstance(right, Constant)):
        return None
    joined = operate is operator.add and isinstance(left.value, tuple) and isinstance(right.value, tuple)
    if joined or (_is_number(left.value) and _is_number(right.value)):
        with suppress(ArithmeticError):
            return Constant(operate(left.value, right.value), left.line)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
