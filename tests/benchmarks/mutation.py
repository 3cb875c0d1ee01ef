"""Make mutants of a module: its text with one small change each, like a typing mistake.

A change replaces the text of one node of the syntax tree and no other byte. Annotations, docstrings, decorators and
prose are not changed, since a type checker or a reader would notice.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
}
_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min", "sorted": "list"}
# What these say is how a file is read or a mistake of the programmer is found, not what is true.
_QUIET_KEYWORDS = frozenset({"encoding", "errors", "strict", "newline", "exist_ok", "parents"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """``before`` and ``after``: the text of one node; ``start``, ``end``: its bytes in the file."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_one_line(self.before)}  →  {_one_line(self.after)}"

    def applied_to(self, data: bytes) -> bytes:
        return data[: self.start] + self.after.encode() + data[self.end :]


def mutants_of(file: str, text: str) -> list[Mutant]:
    tree = ast.parse(text, file)
    offsets = _line_offsets(text)
    data = text.encode()
    found = []
    for node in _visited(tree):
        for changed, after in _changes(node):
            start = offsets[changed.lineno - 1] + changed.col_offset
            end = offsets[(changed.end_lineno or changed.lineno) - 1] + (changed.end_col_offset or 0)
            found.append(Mutant(file, changed.lineno, start, end, data[start:end].decode(), after))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    for line in text.encode().split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    return offsets


def _visited(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield every expression and statement whose change tests should detect."""
    if isinstance(node, (ast.expr, ast.stmt)):
        yield node
    for name, value in ast.iter_fields(node):
        if not _left_alone(node, name):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _visited(child)


def _left_alone(node: ast.AST, field: str) -> bool:
    match node:
        case ast.arg() | ast.AnnAssign() if field == "annotation":
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef() if field in ("decorator_list", "returns"):
            return True
        case ast.ClassDef() if field in ("decorator_list", "bases", "keywords"):
            return True
        case ast.keyword(arg=name) if name in _QUIET_KEYWORDS:
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.JoinedStr() | ast.MatchMapping() | ast.MatchValue():
            return True
    return False


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield the replaced nodes and their replacements."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            own = isinstance(test, (ast.Compare, ast.BoolOp, ast.UnaryOp))  # those are changed in their own right
            if not own and not _left_alone(node, "test"):
                yield test, _text(ast.UnaryOp(ast.Not(), test))
        case ast.stmt():
            yield from ((node, after) for after in _changed_statement(node))
        case _:
            yield from ((node, after) for after in _changed_expression(node))


def _changed_expression(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for other in _COMPARISONS.get(type(op), ()):
                yield _text(ast.Compare(left, [other()], [right]))
        case ast.BoolOp(op=op, values=values):
            yield _text(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield _text(rest[0] if len(rest) == 1 else ast.BoolOp(op, rest))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _text(operand)
        case ast.IfExp(body=body, orelse=otherwise):
            yield _text(body)
            yield _text(otherwise)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC and not _is_text(left, right):
            yield _text(ast.BinOp(left, _ARITHMETIC[type(op)](), right))
        case ast.Constant():
            yield from _changed_constant(node)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            call = copy.deepcopy(node)
            call.func = ast.Name(_CALLS[name], ast.Load())
            if name == "sorted":
                call.keywords = []
            yield _text(call)
        case ast.List(elts=elements, ctx=ast.Load()) | ast.Set(elts=elements) if len(elements) > 1:
            for index in range(len(elements)):
                fewer = copy.deepcopy(node)
                del fewer.elts[index]
                yield _text(fewer)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _without_filters(node)


def _without_filters(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[str]:
    for number, clause in enumerate(node.generators):
        for index in range(len(clause.ifs)):
            wider = copy.deepcopy(node)
            del wider.generators[number].ifs[index]
            yield ast.unparse(wider)


def _changed_statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield "pass"
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            yield "yield from ()"
        case ast.Continue() | ast.Break():
            yield "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"


def _changed_constant(node: ast.Constant) -> Iterator[str]:
    match node.value:
        case bool(value):
            yield str(not value)
        case int(value) | float(value):
            yield str(value + 1)
        case str(value) if value and not any(blank in value for blank in " \n\t"):
            yield repr(f"{value}X")


def _is_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
        for node in nodes
    )


def _text(node: ast.expr) -> str:
    """Return the text in parentheses, so that surrounding operators bind as before."""
    text = ast.unparse(node)
    return text if isinstance(node, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.List)) else f"({text})"


def _one_line(text: str) -> str:
    return " ".join(text.split())
