"""LoadGens of one commit whose sources differ: which results are asked about, and in which words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.tree.findings import Place
from reconciler.tree.rule_engine import compare_cells
from reconciler.verify.engine import LoadGenBuild, list_builds, verify_sources
from tests.unit.tree.small_cells import parse_log

COMPILED = {"/loadgen.cc": "1", "/query_sample.h": "2"}


def find(sources: object, version: str = "6.0 @ abc") -> LoadGenBuild | None:
    """Of a log that lists these sources in its second line."""
    lines = {"loadgen_version": version, **({} if sources is None else {"loadgen_file_sha1": sources})}
    run = SimpleNamespace(log=parse_log(lines, "detail.txt"))
    files = SimpleNamespace(submitter=SimpleNamespace(submitter="Acme"))
    view: Any = SimpleNamespace(performance=run, files=files, cell="a cell")
    return next(list_builds(view), None)


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"/README.md": "3"},
        {"/CMakeLists.txt": "3"},
        {"/tools/loadgen.py": "3"},
        {"/build/lib.cc": "3"},
        {"/version.cc": "3"},
        {"/version_generated.cc": "3"},
    ],
    ids=str,
)
def test_sources_are_those_that_are_compiled_and_not_written_by_the_build(others: dict[str, str]) -> None:
    wanted = LoadGenBuild("Acme", "a cell", "6.0 @ abc", frozenset(COMPILED.items()), Place("detail.txt", 2))
    assert find({**COMPILED, **others}) == wanted


@pytest.mark.parametrize(
    ("sources", "version"),
    [
        (None, "6.0 @ abc"),
        ("many", "6.0 @ abc"),
        ({}, "6.0 @ abc"),
        ({"/a.md": "1"}, "6.0 @ abc"),
        (COMPILED, ""),
        (COMPILED, "6.0 @ NA"),
    ],
    ids=str,
)
def test_a_log_without_its_sources_or_its_version_says_nothing(sources: object, version: str) -> None:
    assert find(sources, version) is None
    view: Any = SimpleNamespace(performance=None)
    assert not list(list_builds(view))


def build(submitter: str, version: str = "6.0", **sources: str) -> LoadGenBuild:
    named = frozenset((f"/{name}.cc", digest) for name, digest in sources.items())
    return LoadGenBuild(submitter, f"cell of {submitter}", version, named, Place(f"{submitter}.txt", 7))


def ask(*builds: LoadGenBuild) -> list[tuple[str, str, str, str]]:
    found = [(item.submitter, item.cell, item.complaint) for item in compare_cells(verify_sources, builds)]
    assert all(complaint.place.line == 7 for _, _, complaint in found)
    assert all(complaint.place.file == f"{submitter}.txt" for submitter, _, complaint in found)
    assert {cell for _, cell, _ in found} == {f"cell of {submitter}" for submitter, _, _ in found}
    return [
        (who, reported.found, reported.wanted, reported.other.file if reported.other else "")
        for who, _, reported in found
    ]


def test_the_few_are_asked_about_and_compared_with_the_many() -> None:
    usual, later = [build("a", one="1", two="2"), build("b", one="1", two="2")], build("e", "6.1", one="9", two="9")
    assert ask(*usual) == ask(*usual, later) == []
    wanted = "the same sources as 2 other results of this commit"
    other = build("c", one="1", two="3")
    assert ask(other, *usual, later) == [("c", "LoadGen 6.0 with another two.cc", wanted, "a.txt")]
    assert ask(build("c", one="1"), *usual) == [("c", "LoadGen 6.0 with another two.cc", wanted, "a.txt")]
    assert ask(other, build("d", one="1", two="3"), *usual) == []  # no one knows which are usual
