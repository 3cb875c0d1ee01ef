"""Imports point down, heavy libraries and late imports stand only at their doors, and nothing imports in a circle."""

from __future__ import annotations

import graphlib

import pytest

from tests.architecture.rules import HEAVY, LATE, LAYERS, SLOW, broken, module, within
from tests.architecture.source import ROOT, all_imports, imports_of, modules


def test_no_import_breaks_a_rule() -> None:
    problems = list(broken(all_imports()))
    assert not problems, "\n" + "\n".join(problems)


def test_there_are_modules_to_judge() -> None:
    assert {"reconciler.errors", "harness.contract"} <= modules().keys()


def test_every_place_of_the_top_level_has_a_layer() -> None:
    found = {name.split(".")[1] for name in modules() if name.startswith("reconciler.")}
    assert found <= {place for row in LAYERS for place in row}


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
        pytest.param("reconciler.plan.make", "from reconciler.cli import main", "cli lies above plan", id="upwards"),
        pytest.param("reconciler.files", "import reconciler.git", "git lies above files", id="upwards-at-the-bottom"),
        pytest.param("reconciler.diff.x", "from reconciler.desired.compile import f", "side by side", id="sideways"),
        pytest.param("reconciler.desired.x", "from reconciler.diff.change import C", "comes after", id="later-types"),
        pytest.param("reconciler.controller.x", "import reconciler.history.blame", "side by side", id="independent"),
        pytest.param("reconciler.tree.x", "from reconciler import render", "render lies above", id="top-package"),
        pytest.param("reconciler.render.x", "from reconciler.plan.make import f", "only the types", id="views"),
        pytest.param("reconciler.odd", "from reconciler.errors import E", "has no layer", id="unknown-place"),
        pytest.param(
            "reconciler.spec.x", "from harness.loadgen import f", "only harness.contract", id="harness-inside"
        ),
        pytest.param("harness.qsl", "from reconciler.errors import E", "never imports reconciler", id="harness"),
        pytest.param("reconciler.plan.x", "from ..cli import main", "cli lies above plan", id="relative"),
        pytest.param("reconciler.plan.x", "if TYPE_CHECKING:\n    import reconciler.cli", "above", id="type-checking"),
        pytest.param("reconciler.diff.x", "from pathlib import Path", "pure code", id="disk-in-pure-code"),
        pytest.param("reconciler.plan.x", "from reconciler.files import replace", "pure code", id="write-in-pure-code"),
        pytest.param("reconciler.diff.x", "import time", "pure code", id="clock-in-pure-code"),
        pytest.param("reconciler.record.x", "import subprocess", "only in process", id="process-door"),
        pytest.param("reconciler.desired.x", "import pydantic.fields", "only in spec", id="pydantic-door"),
        pytest.param("reconciler.observed.x", "import numpy as np", "only in harness", id="numpy-in-reconciler"),
        pytest.param(
            "reconciler.cli.command_table", "def f():\n    import tensorrt", "only in harness", id="heavy-and-late"
        ),
        pytest.param("harness.sut", "import mlperf_loadgen", "only in harness.loadgen", id="second-door-to-loadgen"),
        pytest.param("harness.qsl", "from torch import nn", "only in no module", id="torch"),
        pytest.param("harness.sut", "def f():\n    import json", "neither is this slow", id="late"),
        pytest.param("harness.sut", "def f():\n    importlib.import_module(name)", "neither is", id="late-computed"),
        pytest.param("harness.sut", "import_module('onnxruntime')", "only in harness.backends", id="by-name"),
        pytest.param(
            "reconciler.cli.command_table", "import_module('numpy')", "only in harness", id="heavy-by-the-door"
        ),
    ],
)
def test_a_forbidden_import_is_caught(importer: str, text: str, rule: str) -> None:
    problems = list(broken(imports_of(module(importer, text), {"reconciler.render": module("reconciler.render", "")})))
    assert len(problems) == 1
    assert rule in problems[0]
    assert problems[0].startswith(importer.replace(".", "/") + ".py:")


@pytest.mark.parametrize(
    ("importer", "text"),
    [
        pytest.param("reconciler.cli.plan", "import reconciler.plan.make, reconciler.errors, click", id="down"),
        pytest.param("reconciler.diff.x", "from reconciler.observed.state import Observed", id="types-before"),
        pytest.param("reconciler.spec.x", "from harness.contract import BACKENDS", id="contract"),
        pytest.param("reconciler.plan.saved", "from reconciler.files import replace", id="saved-plan"),
        pytest.param("reconciler.render.x", "from reconciler.plan.plan import Plan", id="view-of-a-plan"),
        pytest.param("harness.backends.openvino", "import numpy, openvino.properties", id="heavy-at-its-door"),
        pytest.param("reconciler.cli.x", "def f():\n    from reconciler.spec.loading import load", id="slow-and-late"),
        pytest.param("harness.backends", "def f(n):\n    return importlib.import_module(n)", id="late-at-its-door"),
    ],
)
def test_an_allowed_import_passes(importer: str, text: str) -> None:
    assert not list(broken(imports_of(module(importer, text), {})))


def test_the_tables_name_modules_in_one_place_each() -> None:
    assert len(_PLACES) == len(set(_PLACES))
    assert all(place.startswith("harness") for places in HEAVY.values() for place in places)


_PLACES = [place for row in LAYERS for place in row]
