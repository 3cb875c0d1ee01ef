"""Imports point down, libraries and late imports have their doors, and nothing imports in a circle."""

from __future__ import annotations

import ast
import graphlib
from collections import defaultdict

import pytest

from tests.architecture.rules import BY_NAME, LATE, SLOW, broken, module, within
from tests.architecture.source import ROOT, all_imports, imports_of, modules


def test_no_import_breaks_a_rule() -> None:
    problems = list(broken(all_imports()))
    assert not problems, "\n" + "\n".join(problems)


def test_there_are_modules_to_judge() -> None:
    assert {"reconciler.errors", "harness.contract"} <= modules().keys()


def test_nothing_imports_in_a_circle() -> None:
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for item in all_imports():
        if item.target in graph and item.target != item.importer.name:
            graph[item.importer.name].add(item.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_every_door_is_used() -> None:
    """A door that nothing goes through any more is removed from the table."""
    used = {item.importer.name for item in all_imports() if item.late}
    assert LATE.keys() <= used


def test_every_import_by_name_is_in_the_table() -> None:
    assert {item.importer.name for item in all_imports() if item.by_name} == BY_NAME


def test_everything_slow_is_imported_late() -> None:
    late = [item.target for item in all_imports() if item.late]
    assert not [slow for slow in SLOW if not any(within(target, slow) for target in late)]


def test_modules_are_named_for_what_they_hold() -> None:
    vague = {"utils", "util", "helpers", "common", "manager", "misc", "base"}
    assert not [m.file for m in modules().values() if m.name.rpartition(".")[2] in vague]


def test_every_package_says_what_it_takes_and_gives() -> None:
    folders = {path.parent for path in ROOT.glob("reconciler/**/*.py")} | {
        path.parent for path in ROOT.glob("harness/**/*.py")
    }
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").is_file()]
    assert not [m.file for m in modules().values() if m.is_package and not m.text.lstrip().startswith('"""')]


@pytest.mark.parametrize(
    ("importer", "text", "rule"),
    [
        pytest.param("reconciler.diff.x", "from reconciler.desired.compile import f", "side by side", id="sideways"),
        pytest.param("reconciler.desired.x", "from reconciler.diff.change import C", "comes after", id="later-types"),
        pytest.param("reconciler.render.x", "from reconciler.plan.builder import f", "only the types", id="views"),
        pytest.param("reconciler.plan.x", "from ..record import store", "side by side", id="relative"),
        pytest.param("reconciler.plan.x", "if TYPE_CHECKING:\n    import reconciler.record", "side", id="typing"),
        pytest.param("harness.run.sut", "def f():\n    import json", "neither is this slow", id="late"),
        pytest.param("harness.run.sut", "import_module('onnxruntime')", "by name", id="by-name"),
        pytest.param("reconciler.cli.x", "importlib.import_module(name)", "by name", id="computed"),
    ],
)
def test_a_forbidden_import_is_caught(importer: str, text: str, rule: str) -> None:
    problems = list(broken(imports_of(module(importer, text), {})))
    assert len(problems) == 1
    assert rule in problems[0]
    assert problems[0].startswith(importer.replace(".", "/") + ".py:")


@pytest.mark.parametrize(
    ("importer", "text"),
    [
        pytest.param("reconciler.cli.plan", "import reconciler.plan.builder, reconciler.errors, click", id="down"),
        pytest.param("reconciler.diff.x", "from reconciler.observed.state import Observed", id="types-before"),
        pytest.param("reconciler.render.x", "from reconciler.plan.plan import Plan", id="view-of-a-plan"),
        pytest.param("reconciler.cli.x", "def f():\n    from reconciler.spec.loading import load", id="slow-and-late"),
        pytest.param("harness.backends", "def f(n):\n    return importlib.import_module(n)", id="late-at-its-door"),
    ],
)
def test_an_allowed_import_passes(importer: str, text: str) -> None:
    assert not list(broken(imports_of(module(importer, text), {})))


def test_no_public_class_name_is_defined_twice() -> None:
    """Who reads a name where it is imported need not ask which of two is meant."""
    defined = defaultdict[str, list[str]](list)
    for found in modules().values():
        if "class " not in found.text:  # reading them all takes long
            continue
        for node in ast.walk(found.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(f"{found.file}:{node.lineno}")
    assert defined["Address"], "the classes are not found"
    assert not {name: places for name, places in defined.items() if len(places) > 1}
