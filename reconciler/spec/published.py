"""Settings with which others ran a published harness, read from its own configurations: user.conf files, and Python
files, which are not executed."""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from decimal import Decimal
from pathlib import Path

from msgspec import Struct

from reconciler.resource.canonical import show_decimal
from reconciler.spec.adapters import HarnessAdapter, Rates, fill_words
from reconciler.spec.families import find_family


class PublishedValue(Struct, frozen=True):
    """``where``: file below the harness's code, and line; ``also``: the batch size there, with its line;
    ``min_duration``: in ms, if stated; ``min_query_count``: if stated, with its line in ``counted``."""

    value: str
    name: str
    where: str
    also: str = ""
    min_duration: str = ""
    min_query_count: str = ""
    counted: str = ""


def find_published_rate(
    adapter: HarnessAdapter, code: Path, system: str, benchmark: str, scenario: str
) -> PublishedValue | None:
    """Find the rate that the harness's own configuration expects of exactly this system; None if it has none."""
    published, known = adapter.known.published, adapter.known.benchmarks.get(benchmark)
    if published is None or known is None or scenario not in published.target_qps:
        return None
    words = {**known.words, "scenario": scenario}
    systems = _list_systems(published, code, words)
    name = max((each for each in systems if names_system(published, each, system)), key=len, default=None)
    if name is None:
        return None
    heading = fill_words(published.sections.get(_find_ending(published, system), ""), words)
    sections = [
        each
        for each in read_sections(code, systems[name])
        if each.heading.startswith(heading) and _find_system(published, each) in ("", name)
    ]
    keys = (published.target_qps[scenario], published.batch_size, published.min_duration, published.min_query_count)
    names = [fill_words(key or "", words) for key in keys]
    settings = sections[-1].settings if sections else {}
    every = (name.replace(f".{scenario}.", ".*.") for name in names)  # a user.conf may write * for all scenarios
    rate, batch, duration, count = (
        settings.get(name) or settings.get(each) for name, each in zip(names, every, strict=True)
    )
    if rate is None or not isinstance(rate.value, Decimal) or not rate.value:
        return None
    file = rate.where.rpartition(":")[0]
    batch_size, queries = (
        f"{name} {each.numbers} in {each.where.replace(f'{file}:', 'line ')}" if each else ""
        for name, each in zip(names[1::2], (batch, count), strict=True)
    )
    least, fewest = (each.numbers if each and isinstance(each.value, Decimal) else "" for each in (duration, count))
    return PublishedValue(rate.numbers, names[0], rate.where, batch_size, least, fewest, queries)


def list_published_systems(adapter: HarnessAdapter, code: Path, benchmark: str) -> list[str]:
    """List the systems for which the harness's own configuration has settings of a benchmark, under the names used
    there."""
    published, words = adapter.known.published, adapter.known.benchmarks[benchmark].words
    return sorted(_list_systems(published, code, words)) if published is not None else []


def names_system(published: Rates, name: str, system: str) -> bool:
    """Return True if a name in the configuration is the name of a system, with or without suffix. "" means all
    systems."""
    if "{accelerator}" in published.files:
        family = find_family(system)
        if family is None or published.accelerators not in (None, family.count):
            return False
        return name.lower() == family.name.lower()
    spelled = system.removesuffix(_find_ending(published, system))
    either = (spelled, spelled.rpartition("_")[0])
    if published.system is None:
        return name in ("", *either)
    return any(f"_{_simplify(each, published.spelling)}".endswith(f"_{_simplify(name, {})}") for each in either)


def _find_ending(published: Rates, system: str) -> str:
    return max((ending for ending in ("", *published.sections) if system.endswith(ending)), key=len)


def _simplify(name: str, spelling: Mapping[str, str]) -> str:
    for part, written in spelling.items():
        name = name.replace(part, written)
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


def list_broken_files(adapter: HarnessAdapter, code: Path, benchmark: str, system: str) -> Iterator[str]:
    """Describe each configuration of a benchmark and system that cannot be parsed."""
    published = adapter.known.published
    if published is None:
        return
    for name, paths in _list_files(published, code, adapter.known.benchmarks[benchmark].words).items():
        for path in paths if not name or names_system(published, name, system) else ():
            if path.suffix == ".py" and isinstance(error := _parse_python(path), SyntaxError):
                yield f"{path.resolve()}:{error.lineno}:{error.offset}: {error.msg}; nothing is read from this file"


def _list_systems(published: Rates, code: Path, words: Mapping[str, str]) -> dict[str, list[Path]]:
    """Map the name of each system ("" if the files state none) to the files that have its settings."""
    found = _list_files(published, code, words)
    if published.system is None:
        return found
    paths = list(itertools.chain(*found.values()))
    return {name: paths for each in read_sections(code, paths) if (name := _find_system(published, each))}


def _list_files(published: Rates, code: Path, words: Mapping[str, str]) -> dict[str, list[Path]]:
    """Group the files by the system that their path names; "" if it names none."""
    found: dict[str, list[Path]] = {}
    for files in (fill_words(each, words) for each in (published.files, published.otherwise) if each and not found):
        pattern = re.escape(files).replace(r"\*", "[^/]*").replace(r"\{accelerator\}", "([^/_]+)")
        pattern = pattern.replace(r"\{system\}", "([^/]+)")
        named = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]*", pattern))
        for path in sorted(path for path in code.glob(show_pattern(files)) if path.is_file()):
            match = named.fullmatch(path.relative_to(code).as_posix())
            found.setdefault("".join(match.groups()) if match else "", []).append(path)
    return found


def show_pattern(files: str) -> str:
    """Return a path with * for each word that is not filled in."""
    return re.sub(r"\{\w+\}", "*", files)


def _find_system(published: Rates, section: Section) -> str:
    """Return the system that a section's own setting names, without the name of its enumeration."""
    setting = section.settings.get(published.system or "")
    return str(setting.value).rpartition(".")[2] if setting is not None else ""


class PublishedSetting(Struct, frozen=True):
    """``value``: a number, a dictionary, or other code as its text; ``where``: its file and line."""

    value: Decimal | dict[str, PublishedSetting] | str
    where: str

    @property
    def numbers(self) -> str:
        """The number, or the numbers of a dictionary, with their names if they differ; "" if there are none."""
        if not isinstance(self.value, dict):
            return show_decimal(self.value) if isinstance(self.value, Decimal) else ""
        inner = {name: each.numbers for name, each in self.value.items() if each.numbers}
        alike = len(set(inner.values())) == 1
        return next(iter(inner.values())) if alike else ", ".join(f"{name} {each}" for name, each in inner.items())


class Section(Struct, frozen=True):
    """Settings of one system and variant. ``heading``: the code that names the two; "" in a user.conf."""

    heading: str
    settings: Mapping[str, PublishedSetting]


def read_sections(code: Path, paths: Sequence[Path]) -> list[Section]:
    """Read configurations of one kind; later ones may refer to earlier ones. Python that cannot be parsed is
    skipped."""
    reader = _PythonReader()
    found: list[Section] = []
    for path in paths:
        name = path.relative_to(code).as_posix()
        if path.suffix != ".py":
            found.append(Section("", dict(_read_conf(_read_text(path), name))))
        elif isinstance(tree := _parse_python(path), ast.Module):
            reader.read(tree, name)
    return [*found, *reader.list_sections()]


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _parse_python(path: Path) -> ast.Module | SyntaxError:
    try:
        return ast.parse(_read_text(path).translate({0: "?", 0xA0: " "}))
    except SyntaxError as error:
        return error


def _read_conf(text: str, name: str) -> Iterator[tuple[str, PublishedSetting]]:
    for number, line in enumerate(text.splitlines(), start=1):
        key, equals, value = line.partition("#")[0].partition("=")
        if equals and (written := value.strip()):
            number_or_text = Decimal(written) if written.replace(".", "", 1).isdecimal() else written
            yield key.strip(), PublishedSetting(number_or_text, f"{name}:{number}")


_OPERATIONS: Mapping[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class _PythonReader:
    """Follows assignments of numbers, dictionaries, copies of these, and classes, whose attributes are settings too."""

    def __init__(self) -> None:
        self._name = ""
        self._names: dict[str, PublishedSetting] = {}
        self._classes: list[Section] = []

    def read(self, tree: ast.Module, name: str) -> None:
        self._name = name
        for statement in tree.body:
            self._follow_statement(statement, self._names)

    def list_sections(self) -> list[Section]:
        """List the registered classes, and the dictionaries in others, whose keys name a variant."""
        inner = (
            Section(f"{name}[{key}]", each.value)
            for name, table in self._names.items()
            if isinstance(table.value, dict)
            for key, each in table.value.items()
            if isinstance(each.value, dict)
        )
        return [*self._classes, *inner]

    def _follow_statement(self, statement: ast.stmt, names: MutableMapping[str, PublishedSetting]) -> None:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                names[name] = self._evaluate(value, names)
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=key)], value=value):
                if isinstance(table := self._evaluate(owner, names).value, dict):
                    table[_name_key(key)] = self._evaluate(value, names)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="update"), args=[added])):
                table, more = (self._evaluate(each, names).value for each in (owner, added))
                if isinstance(table, dict) and isinstance(more, dict):
                    table.update(more)
            case ast.ClassDef(name=name, bases=bases, body=body, decorator_list=decorators):
                own: dict[str, PublishedSetting] = {}
                for base in reversed(bases):
                    inherited = self._evaluate(base, names).value
                    own.update(inherited if isinstance(inherited, dict) else {})
                scope = ChainMap(own, names)
                for each in body:
                    self._follow_statement(each, scope)
                names[name] = PublishedSetting(own, f"{self._name}:{statement.lineno}")
                self._classes += [Section(ast.unparse(each), own) for each in decorators]

    def _evaluate(self, node: ast.expr, names: Mapping[str, PublishedSetting]) -> PublishedSetting:
        where = f"{self._name}:{node.lineno}"
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return PublishedSetting(Decimal(str(number)), where)
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Attribute(value=owner, attr=name):
                table = self._evaluate(owner, names).value
                if isinstance(table, dict) and name in table:
                    return table[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                first, second = (self._evaluate(each, names).value for each in (left, right))
                is_defined = second or not isinstance(op, ast.Div)
                if isinstance(first, Decimal) and isinstance(second, Decimal) and is_defined:
                    return PublishedSetting(_OPERATIONS[type(op)](first, second), where)
            case ast.Dict(keys=keys, values=values):
                items: dict[str, PublishedSetting] = {}
                for key, value in zip(keys, values, strict=True):
                    found = self._evaluate(value, names)
                    if key is not None:
                        items[_name_key(key)] = found
                    elif isinstance(found.value, dict):
                        items.update(found.value)
                return PublishedSetting(items, next((each.where for each in items.values()), where))
            case ast.Call(args=[copied, *_]):
                found = self._evaluate(copied, names)
                if isinstance(found.value, dict):
                    return PublishedSetting(dict(found.value), where)
        return PublishedSetting(ast.unparse(node), where)


def _name_key(key: ast.expr) -> str:
    if isinstance(key, ast.Constant):
        return str(key.value)
    return key.attr if isinstance(key, ast.Attribute) else ast.unparse(key)
