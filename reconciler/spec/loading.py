"""From spec files to one ``Declared`` submission, or to every problem in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from reconciler.errors import Problem, SpecError
from reconciler.spec.adapters import HarnessAdapter, convert_adapter, is_adapter
from reconciler.spec.declaration import Declaring
from reconciler.spec.declared import Declared, Reading, SpecFile
from reconciler.spec.files import Source, is_spec_text, read_sources
from reconciler.spec.indentation_errors import find_indentation_errors
from reconciler.spec.locations import Variables, find_misplaced, find_users
from reconciler.spec.merging import applies_only_when_named, check_header, merge
from reconciler.spec.nodes import MapNode, parse
from reconciler.spec.validation import refuses_variables, validate

_WORD = re.compile(r"\w{3,}")


def load(paths: Sequence[Path], root: Path, environment: Mapping[str, str]) -> Declared:
    """The submission that the files and folders in ``paths`` declare together.

    ``root`` is the repository, to which names in origins and relative locations refer; ``environment`` is read by
    location fields only. Raises SpecError with all problems found.
    """
    return require_right(read(paths, root, environment))


def read(paths: Sequence[Path], root: Path, environment: Mapping[str, str]) -> Reading:
    """As ``load``, for those who look for further problems in what is right. Raises nothing."""
    sources, problems = read_sources(paths, root)
    return read_texts(sources, root, environment, problems)


def load_sources(
    sources: Sequence[Source], root: Path, environment: Mapping[str, str], problems: Sequence[Problem] = ()
) -> Declared:
    """As ``load``, from texts already read (a commit's, say) and the problems met in reading them. What applies only
    when it is named, and was not, is left out as if it were not there."""
    return require_right(read_texts(sources, root, environment, problems))


def require_right(reading: Reading) -> Declared:
    """Raises SpecError with all problems found."""
    if reading.problems or reading.declared is None:
        raise SpecError(list(reading.problems))
    return reading.declared


def read_texts(
    sources: Sequence[Source], root: Path, environment: Mapping[str, str], problems: Sequence[Problem] = ()
) -> Reading:
    """As ``read``, from texts."""
    found = list(problems)
    sources, trees, adapters, wrong = _parse(sources)
    found += wrong
    merged, twice = merge(trees)
    complete = len(trees) + len(adapters) == len(sources) and not problems
    declared = None
    if merged is not None:
        # A text that was refused is one problem, and so is a slip of indentation with its effects on its neighbours.
        named = {problem.path for problem in found if problem.path}
        slips = find_indentation_errors(merged)
        silent = [*(slip.problem.path for slip in slips), *(path for slip in slips for path in slip.silent)]
        misplaced = find_misplaced(merged, refuses_variables)
        found += [each for each in misplaced if not any(_is_below(each.path, path) for path in silent)]
        found += [slip.problem for slip in slips]
        declared, wrong = _declare(merged, sources, root, Variables(environment), adapters, complete=complete)
        # A value that was refused at its place (a secret, an alias to nothing) is one problem, whatever its field is.
        places = {(problem.file, problem.line, problem.column) for problem in found}
        found += twice
        found += [
            problem
            for problem in wrong
            if (problem.file, problem.line, problem.column) not in places
            and problem.path not in named
            and not any(_is_below(problem.path, path) for path in silent)
        ]
    return Reading(declared, tuple(dict.fromkeys(found)))


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}.")


def list_left_out(paths: Sequence[Path], root: Path) -> tuple[str, ...]:
    """The files in these folders that apply only when they are named."""
    sources, _ = read_sources(paths, root)
    return tuple(source.name for source in sources if _is_left_out(source, parse(source.text, source.name)[0]))


def _is_left_out(source: Source, tree: MapNode | None) -> bool:
    return tree is not None and not source.named and applies_only_when_named(tree)


def _parse(sources: Sequence[Source]) -> tuple[list[Source], list[MapNode], list[HarnessAdapter], list[Problem]]:
    """The files that declare the submission together, their trees and adapters, and what is wrong in them."""
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
        if tree is not None and is_adapter(tree):
            adapter, wrong = convert_adapter(tree)
            adapters += [adapter] if adapter else []
            problems += wrong
        elif tree is not None:
            trees.append(tree)
            problems += check_header(tree)
    if sources and not taken:
        fix = f"name one, such as {sources[0].name}"
        problems.append(Problem(sources[0].name, 1, 1, "", "every spec here applies only when it is named", fix))
    elif adapters and len(adapters) == len(taken):
        fix = "write a spec whose benchmarks use it: 'harness: {adapter: NAME}'"
        problems.append(Problem(taken[0].name, 1, 1, "", "there are adapters here, and no spec", fix))
    return taken, trees, adapters, problems


def _refuse_other_file(source: Source, wrong: Sequence[Problem]) -> list[Problem]:
    """Problems of a file that is no spec, none of which holds a word of it: it may be anything."""
    words = frozenset(_WORD.findall(source.text))
    said = (f"{problem.message} {problem.fix} {problem.path}" for problem in wrong)
    if wrong and not any(words.intersection(_WORD.findall(text)) for text in said):
        return list(wrong)
    fix = "a spec begins with 'apiVersion: mlperf-reconciler/v1'; keep other files elsewhere"
    return [Problem(source.name, 1, 1, "", "this is no spec: it has no apiVersion", fix)]


def _declare(
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
