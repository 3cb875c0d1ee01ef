"""Code that decides an engine or an answer does not change while existing results count: its revision is raised, or
somebody says why nothing changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.benchmark_catalog import BENCHMARKS
from harness.catalog import BACKENDS, Option
from tests.architecture.revisions import Unit, digest_statements, digest_units, find_unit, read_record, update

CODE = '''
"""A module."""
from collections.abc import Iterator
from harness.cuda import driver
LEVEL: int = 3

def build(model: str, *, level: int = LEVEL) -> Iterator[int]:
    """Build it."""
    found = [item + level for item in model]  # comment
    if not found:
        raise ValueError(f"{model} is empty")
    def inner(x): return x + found[0]
    yield from map(inner, found)

def close(): return driver.close()
'''


def test_the_record_is_that_of_the_code() -> None:
    fix = "python -m tests.architecture.revisions, which says what it needs"
    known, now = read_record(), digest_units()
    assert set(known) == set(now), fix
    changed = [name for name, unit in now.items() if replace(known[name], because=unit.because) != unit]
    assert changed == [], fix
    assert all(unit.because.strip() for unit in known.values())


def test_every_backend_and_benchmark_that_runs_here_is_a_unit() -> None:
    found = {name for unit in digest_units().values() for name in unit.revisions}
    backends = {name for name, facts in BACKENDS.items() if not facts.elsewhere}
    benchmarks = {name for name, facts in BENCHMARKS.items() if not facts.elsewhere}
    assert found == backends | benchmarks


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("found", "numbers"),
        ("item", "each"),
        ("inner(x): return x", "inner(y): return y"),
        ("inner", "shift"),
        ('"""Build it."""', '"""Build an engine."""'),
        ('"""Build it."""\n', "\n"),
        ("model: str", "model: bytes"),
        (" -> Iterator[int]", ""),
        ("LEVEL: int = 3", "LEVEL: float = 3"),
        ("  # comment", ""),
        ('f"{model} is empty"', '"nothing to build"'),
        ("from collections.abc import Iterator\n", "from typing import Any\n"),
    ],
)
def test_a_refactoring_is_no_change(before: str, after: str) -> None:
    assert before in CODE
    assert sorted(digest_statements(CODE)) == sorted(digest_statements(CODE.replace(before, after)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("= 3", "= 5"),
        ("item + level", "item - level"),
        ("found[0]", "found[1]"),
        ("item + level", "level + item"),
        ("ValueError", "KeyError"),
        ("from harness.cuda import driver", "from harness.other import driver"),
        ("close()", "open()"),
        ("map(inner, found)", "map(found, inner)"),
        ("def close(): return driver.close()", ""),
    ],
)
def test_another_computation_is_a_change(before: str, after: str) -> None:
    assert before in CODE
    assert sorted(digest_statements(CODE)) != sorted(digest_statements(CODE.replace(before, after)))


def test_definitions_may_move_and_other_modules_of_the_unit_are_none_of_its_imports() -> None:
    first, second = CODE.split("def close")
    moved = f"from harness.a.b import c\ndef close{second}{first}"
    assert sorted(digest_statements(moved, {"harness.a.b"})) == sorted(digest_statements(CODE))


@pytest.mark.parametrize(("default", "changed"), [(3, set()), (5, {"backends/tensorrt"})])
def test_another_default_is_a_change(default: int, changed: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    before, facts = digest_units(), BACKENDS["tensorrt"]
    engine = {**facts.engine, "optimization_level": Option(default, "in other words")}
    monkeypatch.setitem(BACKENDS, "tensorrt", facts._replace(engine=engine))
    assert {name for name, unit in digest_units().items() if unit != before[name]} == changed


def test_a_change_needs_a_raised_revision_or_a_reason() -> None:
    before = {"backends/a": Unit("1", {"a": 1, "b": 1}, "first"), "backends/c": Unit("1", {"c": 1}, "first")}
    changed = {**before, "backends/a": Unit("2", {"a": 1, "b": 1}, "")}
    with pytest.raises(SystemExit, match="backends/a"):
        update(before, changed, " ")
    explained = update(before, changed, "only logs more")
    assert explained == {
        "backends/a": Unit("2", {"a": 1, "b": 1}, "only logs more"),
        "backends/c": before["backends/c"],
    }
    raised = update(explained, {**changed, "backends/a": Unit("3", {"a": 1, "b": 2}, "")}, "")
    assert raised["backends/a"].digest == "3"
    assert raised["backends/a"].because != "only logs more"
    assert update(raised, raised, "") == raised


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("backends/tensorrt/build.py", "backends/tensorrt"),
        ("backends/null.py", "backends/null"),
        ("cuda/gather.cu", "cuda"),
        ("run/tokens.py", "run/tokens"),
        ("run/loadgen.py", ""),
        ("catalog.py", ""),
    ],
)
def test_a_file_is_of_the_unit_that_is_used_whole(name: str, unit: str) -> None:
    assert find_unit(name) == unit
