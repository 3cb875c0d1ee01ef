"""What decides an engine or an answer, digested: code of backends, benchmarks, calibration and kernels, unit by unit.

``python -m tests.architecture.revisions [--because REASON]`` writes the digests anew. A unit may change without a
raised ``revision`` in harness/catalog.py or harness/benchmark_catalog.py only for a reason, which is kept next to its
digest.

A digest is of the syntax trees without what no computation sees: comments, docstrings, annotations, names of locals,
texts of errors, the order of definitions, and which file of the unit has them.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS

ROOT = Path(__file__).parents[2] / "harness"
RECORD = Path(__file__).with_name("revisions.json")
FIRST = "first recorded"
# Folders whose entries are units, folders and files that are units, and texts that decide answers too.
_SPLIT, _WHOLE = ("backends", "benchmarks"), ("cuda", "quantization")
_LOOPS = tuple(f"run/{name}" for name in ("loops", "one_call", "packing", "row_batches", "tokens"))
_TEXTS = (".cu", ".txt")
_SILENT = ("__future__", "typing", "collections.abc")


@dataclass(frozen=True, slots=True)
class Unit:
    """``revisions``: of the backends and benchmarks that compute with it, by name. ``because``: why its last change
    needed none of them raised."""

    digest: str
    revisions: Mapping[str, int]
    because: str


def digest_units() -> dict[str, Unit]:
    files: dict[str, list[Path]] = {}
    for path in sorted(path for path in ROOT.rglob("*") if path.suffix in (".py", *_TEXTS)):
        if unit := find_unit(path.relative_to(ROOT).as_posix()):
            files.setdefault(unit, []).append(path)
    revisions = _find_revisions(files)
    return {
        unit: Unit(_hash([*_digest_files(paths), *_list_options(unit)]), revisions[unit], FIRST)
        for unit, paths in files.items()
    }


def find_unit(name: str) -> str:
    """The unit of a file of the harness; "" for one that decides no engine and no answer."""
    folder, *rest = name.split("/")
    if folder in _SPLIT and rest:
        return f"{folder}/{rest[0].removesuffix('.py')}"
    whole = PurePosixPath(name).with_suffix("").as_posix()
    return folder if folder in _WHOLE else whole if whole in _LOOPS else ""


def _digest_files(paths: Iterable[Path]) -> Iterator[str]:
    own = {f"harness.{path.relative_to(ROOT).with_suffix('').as_posix().replace('/', '.')}" for path in paths}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        yield from _digest_module(text, frozenset(own)) if path.suffix == ".py" else [text]


@cache
def _digest_module(text: str, own: frozenset[str]) -> tuple[str, ...]:
    return tuple(digest_statements(text, own))


def digest_statements(text: str, own: Iterable[str] = ()) -> Iterator[str]:
    """A digest of each statement of a module. ``own``: modules whose imports do not count, being of its unit."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            if module not in (*_SILENT, *own):
                yield from (_hash([module, name.name, name.asname or ""]) for name in node.names)
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING") and not _is_text(node):
            yield _hash([ast.dump(_Plain().visit(node))])


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class _Plain(ast.NodeTransformer):
    """Leaves what a computation sees. Locals of a function are numbered as they come."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(item) for item in node.decorator_list]
        self._visit_defaults(node.args)
        node.returns, node.type_comment = None, None
        if self.scopes:
            node.name = self._rename(node.name)
        self.scopes.append(_number_locals(node, sum(map(len, self.scopes))))
        self._strip_arguments(node.args)
        node.body = [self.visit(item) for item in node.body if not _is_text(item)] or [ast.Pass()]
        self.scopes.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._visit_defaults(node.args)
        self.scopes.append(_number_locals(node, sum(map(len, self.scopes))))
        self._strip_arguments(node.args)
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [item for item in node.body if not _is_text(item)] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        if node.value is None and self.scopes:
            return ast.Pass()
        if self.scopes and node.value is not None:
            return self.generic_visit(ast.Assign([node.target], node.value))
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._rename(node.id)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = self._rename(node.name) if node.name else None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Which error it is counts; its words do not."""
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def _visit_defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(item) for item in arguments.defaults]
        arguments.kw_defaults = [self.visit(item) if item else None for item in arguments.kw_defaults]

    def _strip_arguments(self, arguments: ast.arguments) -> None:
        for item in _list_arguments(arguments):
            item.annotation, item.arg = None, self._rename(item.arg)

    def _rename(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), name)


def _list_arguments(arguments: ast.arguments) -> list[ast.arg]:
    single = [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *single]


def _number_locals(function: ast.FunctionDef | ast.Lambda, first: int) -> dict[str, str]:
    """Name → number, of what a function binds, comprehensions included; functions within number their own."""
    names = dict.fromkeys(item.arg for item in _list_arguments(function.args))
    outer: set[str] = set()
    ahead: list[ast.AST] = list(function.body if isinstance(function.body, list) else [function.body])
    while ahead:
        node = ahead.pop(0)
        match node:
            case ast.Global(names=others) | ast.Nonlocal(names=others):
                outer.update(others)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] = None
                continue
            case ast.Lambda():
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                names[name] = None
            case ast.ExceptHandler(name=str(name)):
                names[name] = None
        ahead += ast.iter_child_nodes(node)
    return {name: f"local {first + number}" for number, name in enumerate(n for n in names if n not in outer)}


def _list_options(unit: str) -> Iterator[str]:
    """The settings of a backend: a default decides where a spec says nothing."""
    for name in _list_backends(unit):
        for part, options in (("engine", BACKENDS[name].engine), ("run", BACKENDS[name].run)):
            for option, facts in sorted(options.items()):
                yield json.dumps([name, part, option, facts.default, facts.choices, facts.positive, facts.identity])


def _list_backends(unit: str) -> list[str]:
    return [name for name in BACKENDS if unit == _find_backend_unit(name)]


def _find_backend_unit(name: str) -> str:
    """As harness/backends has it: "onnxruntime-cuda" is a module, "tensorrt-rtx" one of several in a folder."""
    for part in (name.replace("-", "_"), name.partition("-")[0]):
        if any((ROOT / "backends" / file).exists() for file in (part, f"{part}.py")):
            return f"backends/{part}"
    return ""


def _find_revisions(files: Mapping[str, list[Path]]) -> dict[str, dict[str, int]]:
    """Unit → revisions of the backends and benchmarks that are it, or import it."""
    imports = {unit: {other for path in paths for other in _list_imported(path)} for unit, paths in files.items()}
    revisions: dict[str, dict[str, int]] = {unit: {} for unit in files}
    owners = [(_find_backend_unit(name), name, facts.revision) for name, facts in BACKENDS.items()]
    owners += [
        (f"benchmarks/{facts.module.partition('.')[0]}", name, facts.revision) for name, facts in BENCHMARKS.items()
    ]
    for unit, name, revision in owners:
        ahead, seen = [unit], set[str]()
        while ahead:
            at = ahead.pop()
            if at in files and at not in seen:
                seen.add(at)
                revisions[at][name] = revision
                ahead += imports[at]
    return revisions


def _list_imported(path: Path) -> Iterator[str]:
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("harness."):
            place = node.module.removeprefix("harness.").replace(".", "/")
            yield from (find_unit(f"{place}{below}.py") for below in ("", *(f"/{item.name}" for item in node.names)))


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:16]


def read_record(path: Path = RECORD) -> dict[str, Unit]:
    return {name: Unit(**unit) for name, unit in json.loads(path.read_text(encoding="utf-8")).items()}


def find_unexplained(before: Mapping[str, Unit], now: Mapping[str, Unit]) -> list[str]:
    """Units that changed though no revision of what computes with them was raised."""
    return [
        name
        for name, unit in now.items()
        if name in before
        and before[name].digest != unit.digest
        and not any(number > before[name].revisions.get(owner, number) for owner, number in unit.revisions.items())
    ]


def update(before: Mapping[str, Unit], now: Mapping[str, Unit], because: str) -> dict[str, Unit]:
    """SystemExit names units that changed without a raised revision and without a reason."""
    unexplained = find_unexplained(before, now)
    if unexplained and not because.strip():
        sys.exit(
            f"changed: {', '.join(unexplained)}\nRaise `revision` of the backend or benchmark, so that engines and runs"
            " are made again, or say why none needs to be: --because REASON"
        )
    found = {}
    for name, unit in sorted(now.items()):
        known = before.get(name)
        same = known is not None and known.digest == unit.digest
        reason = known.because if known is not None and same else because if name in unexplained else "revision raised"
        found[name] = Unit(unit.digest, unit.revisions, reason if known is not None else FIRST)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.revisions", description=__doc__)
    parser.add_argument("--because", default="", metavar="REASON", help="why no engine or answer changes")
    before = read_record() if RECORD.exists() else {}
    found = update(before, digest_units(), parser.parse_args().because)
    rows = (f" {json.dumps(name)}: {json.dumps(asdict(unit))}" for name, unit in found.items())
    RECORD.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
