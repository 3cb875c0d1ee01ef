"""Read spec files into one ``Declared`` submission, or report all their problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import Problem, SpecError
from reconciler.resource.inputs import Origin
from reconciler.resource.programs import find_program_of_division
from reconciler.spec import models, settings_models
from reconciler.spec.adapters import HarnessAdapter, check_names, convert_adapter, correct_kind, is_adapter
from reconciler.spec.declaration import Declaring
from reconciler.spec.declared import Declared, Reading, SpecFile
from reconciler.spec.files import Source, is_spec_text, read_sources
from reconciler.spec.groups import Group
from reconciler.spec.locations import Variables, find_misplaced, find_users
from reconciler.spec.nodes import MapNode, parse
from reconciler.spec.quantities import show_quantity
from reconciler.spec.validation import refuses_variables, validate

# Merge several files into one tree: groups are merged by name; a value, list or empty group may be set only once.

API_VERSION = "mlperf-reconciler/v1"
KIND = "Submission"
_HEADER = {"apiVersion": API_VERSION, "kind": KIND}
_ONLY_WHEN_NAMED = "only_when_named"


def check_header(root: MapNode) -> list[Problem]:
    """Check that the file identifies itself as a spec, so that no stray YAML file is merged by accident."""
    problems = []
    for name, expected in _HEADER.items():
        node = root.items.get(name)
        where = root.origin if node is None else node.origin
        value = getattr(node, "value", None)
        if value != expected:
            message = f"{name} is {show_quantity(value)}, not {expected}" if node is not None else f"{name} is missing"
            problems.append(where.make_problem(name, message, f"write '{name}: {expected}'"))
    return problems


def merge(roots: Iterable[MapNode]) -> tuple[MapNode | None, list[Problem]]:
    """Merge all roots; return None if there are none."""
    problems: list[Problem] = []
    merged: MapNode | None = None
    for root in roots:
        if merged is None:
            merged = root
        else:
            own = {name: item for name, item in root.items.items() if name not in (*_HEADER, _ONLY_WHEN_NAMED)}
            merged = _merge_pair(merged, MapNode(root.origin, own, root.keys), "", problems)
    return merged, problems


def _merge_pair(first: MapNode, second: MapNode, path: str, problems: list[Problem]) -> MapNode:
    items, keys = dict(first.items), dict(first.keys)
    for name, item in second.items.items():
        inner = f"{path}.{name}" if path else name
        if name not in items:
            items[name], keys[name] = item, second.keys[name]
            continue
        known = items[name]
        if isinstance(known, MapNode) and isinstance(item, MapNode) and known.items and item.items:
            items[name] = _merge_pair(known, item, inner, problems)
        else:
            here, there = item.origin, known.origin
            message = f"set here and in {there.file}:{there.line}:{there.column}"
            fix = f"keep one of {there.file}:{there.line} and {here.file}:{here.line}"
            problems.append(here.make_problem(inner, message, fix))
    return MapNode(first.origin, items, keys)


# Indentation errors in valid YAML: a name that is one level too deep or too shallow is read as the name of a system, a
# benchmark or a block.

_OF_SPEC = frozenset(models.Spec.model_fields)
_OF_DOCUMENT = frozenset(models.Document.model_fields)
# Section of spec → noun for one of its entries, and the group of an entry.
_SECTIONS: dict[str, tuple[str, type[Group]]] = {
    "systems": ("system", models.System),
    "benchmarks": ("benchmark", models.BenchmarkGroup),
    "defaults": ("block", settings_models.SettingsGroup),
}


class IndentationMistake(Struct, frozen=True):
    """``silent``: paths of misplaced values, whose other problems are not reported."""

    problem: Problem
    silent: tuple[str, ...] = ()


def find_indentation_errors(root: MapNode) -> Iterator[IndentationMistake]:
    """Find settings at places that are meant for names chosen by the user."""
    spec = root.items.get("spec")
    for name in root.items:
        if name in _OF_SPEC and name not in _OF_DOCUMENT:
            where = "below spec" if isinstance(spec, MapNode) else "below 'spec:'"
            yield _make_mistake(root.keys[name], name, f"{name} is a section of spec", f"indent it, {where}")
    if not isinstance(spec, MapNode):
        return
    for section, (noun, group) in _SECTIONS.items():
        entries = spec.items.get(section)
        if isinstance(entries, MapNode):
            yield from _check_section(entries, section, noun, group.list_names(), spec)
    sections = dict(_list_groups(spec))
    if "divisions" in sections:
        declared = [frozenset(sections[name].items if name in sections else ()) for name in ("systems", "benchmarks")]
        yield from _check_divisions(sections["divisions"], *declared)


def _check_section(
    entries: MapNode, section: str, noun: str, settings: list[str], spec: MapNode
) -> Iterator[IndentationMistake]:
    before = ""
    for name, node in entries.items.items():
        path = f"spec.{section}.{name}"
        if name in _OF_SPEC and name != section and (name not in settings or name not in spec.items):
            message = f"{name} is a section of spec, not a {noun}"
            # If nothing is indented below it, the following lines belong to it.
            after = list(entries.items)[list(entries.items).index(name) + 1 :] if not isinstance(node, MapNode) else []
            silent = tuple(f"spec.{section}.{later}" for later in after)
            yield _make_mistake(entries.keys[name], path, message, f"indent it like {section}", silent)
            if silent:
                return
        elif name in settings and (not isinstance(node, MapNode) or node.items.keys().isdisjoint(settings)):
            holder = f", below {before}" if before else ""
            message = f"{name} is a setting of a {noun}, not a {noun}"
            yield _make_mistake(entries.keys[name], path, message, f"indent it more{holder}")
        else:
            before = name


def _check_divisions(
    divisions: MapNode, declared_systems: frozenset[str], declared_benchmarks: frozenset[str]
) -> Iterator[IndentationMistake]:
    scenarios = models.Scenarios.list_names()
    settings = models.CellGroup.list_names()
    for division, systems in _list_groups(divisions):
        if find_program_of_division(division):
            continue  # the program defines what may be below its benchmarks
        for system, benchmarks in _list_groups(systems):
            path = f"spec.divisions.{division}.{system}"
            inner = next((name for name in benchmarks.items if name in declared_systems), "")
            if inner and system in declared_benchmarks and system not in declared_systems:
                message = f"{system} is a benchmark, but {inner} below it is a system"
                yield _make_mistake(systems.keys[system], path, message, f"write {inner} first, and {system} below it")
                continue
            for name, node in benchmarks.items.items():
                if name in scenarios:
                    message = f"{name} is a scenario, but a benchmark belongs here"
                    fix = "indent it more, below its benchmark"
                    yield _make_mistake(benchmarks.keys[name], f"{path}.{name}", message, fix)
                elif isinstance(node, MapNode):
                    yield from _check_scenarios(node, f"{path}.{name}", settings)


def _check_scenarios(benchmark: MapNode, path: str, settings: list[str]) -> Iterator[IndentationMistake]:
    before = ""
    for name in benchmark.items:
        if name in settings:
            holder = f", below {before}" if before else ", below its scenario"
            message = f"{name} is a setting of a cell, but a scenario belongs here"
            yield _make_mistake(benchmark.keys[name], f"{path}.{name}", message, f"indent it more{holder}")
        else:
            before = name


def _list_groups(node: MapNode) -> Iterator[tuple[str, MapNode]]:
    for name, item in node.items.items():
        if isinstance(item, MapNode):
            yield name, item


def _make_mistake(
    origin: Origin, path: str, message: str, fix: str, silent: tuple[str, ...] = ()
) -> IndentationMistake:
    return IndentationMistake(origin.make_problem(path, message, fix), silent)


_WORD = re.compile(r"\w{3,}")


def load(paths: Sequence[Path], root: Path, environment: Mapping[str, str]) -> Declared:
    """Load the submission that the files and folders in ``paths`` declare together.

    ``root``: the repository, to which names in origins and relative locations refer; ``environment``: used by location
    fields only. Raises SpecError with all problems.
    """
    return require_right(read(paths, root, environment))


def read(paths: Sequence[Path], root: Path, environment: Mapping[str, str]) -> Reading:
    """Read like ``load``, but return the problems with the valid part, for further checks. Raises nothing."""
    sources, problems = read_sources(paths, root)
    return read_texts(sources, root, environment, problems)


def load_adapters(root: Path) -> list[HarnessAdapter]:
    """Load the adapters in a repository's ``specs/``. Raises SpecError if a file there is wrong."""
    sources, _ = read_sources([root / "specs"], root)
    found = [source for source in sources if not source.named]  # ignores a file called specs
    _, _, adapters, problems = _parse_all(found)
    if problems:
        raise SpecError(problems)
    return adapters


def load_sources(
    sources: Sequence[Source], root: Path, environment: Mapping[str, str], problems: Sequence[Problem] = ()
) -> Declared:
    """Load texts that were already read (from a commit, for example), with the problems found while reading. Files that
    apply only when named, and were not, are skipped."""
    return require_right(read_texts(sources, root, environment, problems))


def require_right(reading: Reading) -> Declared:
    """Return the declaration. Raises SpecError if there are problems."""
    if reading.problems or reading.declared is None:
        raise SpecError(list(reading.problems))
    return reading.declared


def read_texts(
    sources: Sequence[Source], root: Path, environment: Mapping[str, str], problems: Sequence[Problem] = ()
) -> Reading:
    """Read texts like ``read``."""
    found = list(problems)
    taken, trees, adapters, wrong = _parse_all(sources)
    found += [*wrong, *_find_no_spec(sources, taken, adapters)]
    sources = taken
    merged, twice = merge(trees)
    complete = len(trees) + len(adapters) == len(sources) and not problems
    declared = None
    if merged is not None:
        # Report a refused text once, and an indentation error without its effects on its neighbours.
        named = {problem.path for problem in found if problem.path}
        mistakes = list(find_indentation_errors(merged))
        silent = [path for mistake in mistakes for path in (mistake.problem.path, *mistake.silent)]
        misplaced = find_misplaced(merged, refuses_variables)
        found += [each for each in misplaced if not any(_is_below(each.path, path) for path in silent)]
        found += [mistake.problem for mistake in mistakes]
        declared, wrong = _declare_tree(merged, sources, root, Variables(environment), adapters, complete=complete)
        # Report a value that was refused at its place (a secret, an unknown alias) once, whatever its field.
        places = {(problem.file, problem.line, problem.column) for problem in found}
        fresh = [each for each in wrong if (each.file, each.line, each.column) not in places and each.path not in named]
        found += [*twice, *(each for each in fresh if not any(_is_below(each.path, path) for path in silent))]
    return Reading(declared, tuple(dict.fromkeys(found)))


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}.")


def list_left_out(paths: Sequence[Path], root: Path) -> tuple[str, ...]:
    """List the files in these folders that apply only when named."""
    sources, _ = read_sources(paths, root)
    return tuple(source.name for source in sources if _is_left_out(source, parse(source.text, source.name)[0]))


def _is_left_out(source: Source, tree: MapNode | None) -> bool:
    """Return True for a file that applies only if the command line names it, which it does not."""
    marked = tree is not None and getattr(tree.items.get(_ONLY_WHEN_NAMED), "value", None) is True
    return marked and not source.named


def _parse_all(sources: Sequence[Source]) -> tuple[list[Source], list[MapNode], list[HarnessAdapter], list[Problem]]:
    """Return the files that declare the submission together, their trees and adapters, and their problems."""
    taken: list[Source] = []
    trees: list[MapNode] = []
    adapters: list[HarnessAdapter] = []
    problems: list[Problem] = []
    for source in sources:
        tree, wrong = parse(source.text, source.name)
        if not is_spec_text(source.text):
            taken.append(source)
            problems += _refuse_other_file(source, wrong)
            continue
        if _is_left_out(source, tree):
            continue
        taken.append(source)
        problems += wrong
        if tree is not None:
            tree, wrong = correct_kind(tree)
            problems += wrong
        if tree is not None and is_adapter(tree):
            adapter, wrong = convert_adapter(tree)
            adapters += [adapter] if adapter else []
            problems += wrong
        elif tree is not None:
            trees.append(tree)
            problems += check_header(tree)
    return taken, trees, adapters, [*problems, *check_names(adapters)]


def _find_no_spec(
    sources: Sequence[Source], taken: Sequence[Source], adapters: Sequence[HarnessAdapter]
) -> Iterator[Problem]:
    if sources and not taken:
        fix = f"pass one, such as {sources[0].name}"
        yield Problem(sources[0].name, 1, 1, "", "every spec here applies only if passed on the command line", fix)
    elif adapters and len(adapters) == len(taken):
        fix = f"write one with `reconcile init . --harness {adapters[0].name}`"
        yield Problem(taken[0].name, 1, 1, "", "found adapters, but no spec", fix)


def _refuse_other_file(source: Source, wrong: Sequence[Problem]) -> list[Problem]:
    """Return the problems of a file that is not a spec, without quoting it, since it may contain anything."""
    words = frozenset(_WORD.findall(source.text))
    said = (f"{problem.message} {problem.fix} {problem.path}" for problem in wrong)
    if wrong and not any(words.intersection(_WORD.findall(text)) for text in said):
        return list(wrong)
    fix = "start it with 'apiVersion: mlperf-reconciler/v1', or move the file elsewhere"
    return [Problem(source.name, 1, 1, "", "not a spec: apiVersion is missing", fix)]


def _declare_tree(
    tree: MapNode,
    sources: Sequence[Source],
    root: Path,
    variables: Variables,
    adapters: Sequence[HarnessAdapter],
    *,
    complete: bool,
) -> tuple[Declared | None, list[Problem]]:
    document, wrong = validate(tree, variables, complete=complete)
    if document is None:
        return None, wrong
    refused = frozenset(problem.path for problem in wrong)
    declaring = Declaring(document, tree, root, variables, complete=complete, refused=refused, adapters=adapters)
    files = tuple(sorted((SpecFile(source.name, source.blob) for source in sources), key=lambda file: file.path))
    declared = replace(declaring.declare(files), unset=find_users(tree, variables.unset))
    return declared, wrong + declaring.problems
