"""Notes at the start of blocks tell which of them ran, and change nothing else."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path

import pytest

from tests.benchmarks.reach import NOTES, NOTES_TEXT, Reach, find_place, name_places, with_notes

TEXT = '''"""A module."""
from __future__ import annotations

LIMIT = 3


def outer(number: int = 1 + 1) -> int:
    """Says."""

    def inner() -> int:
        return number - 1

    if number > LIMIT:
        return inner()
    number *= 7
    return number


class Thing:
    def method(self) -> str:
        return "thing"
'''
PLACES = ["m.py:.outer#0", "m.py:.outer#1", "m.py:.outer#2", "m.py:.outer.inner#0", "m.py:.Thing.method#0"]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> types.ModuleType:
    made = types.ModuleType(NOTES)
    exec(NOTES_TEXT.format(path=str(tmp_path / "notes")), made.__dict__)
    made.__dict__["OWNER"] = os.getpid()
    monkeypatch.setitem(sys.modules, NOTES, made)
    return made


def test_a_note_is_left_by_each_block_that_runs_and_by_children_in_a_file(
    notes: types.ModuleType, tmp_path: Path
) -> None:
    numbers = {place: number for number, place in enumerate(name_places("m.py", TEXT))}
    made: dict[str, object] = {}
    exec(compile(with_notes("m.py", TEXT, numbers), "m.py", "exec"), made)
    outer = made["outer"]
    assert callable(outer)
    assert outer.__doc__ == "Says."

    def seen() -> set[str]:
        return {PLACES[number] for _, number in notes.__dict__["SEEN"]}

    assert seen() == set()
    assert outer(2) == 14
    assert seen() == {PLACES[0], PLACES[2]}
    assert not (tmp_path / "notes").exists()
    notes.__dict__["OWNER"] = 0  # as in a child of the process that runs the tests
    notes.__dict__["SEEN"].clear()
    assert outer(5) == 4
    assert seen() == {PLACES[0], PLACES[1], PLACES[3]}
    assert (tmp_path / "notes").read_text().split() == [str(numbers[PLACES[place]]) for place in (0, 1, 3)]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("3\n", "m.py:"),
        ("number > LIMIT", PLACES[0]),
        ("inner()\n", PLACES[1]),
        ("7", PLACES[2]),
        ("number - 1", PLACES[3]),
        ('"thing"', PLACES[4]),
    ],
)
def test_a_change_belongs_to_the_innermost_block_around_it(words: str, place: str) -> None:
    assert sorted(name_places("m.py", TEXT)) == sorted(PLACES)
    assert find_place("m.py", TEXT, TEXT.index(words)) == place


def test_a_map_names_the_cheapest_tests_first_and_a_few_cases_of_each(tmp_path: Path) -> None:
    def row(test: str, seconds: float, *reached: int) -> dict[str, object]:
        return {"test": test, "seconds": seconds, "reached": list(reached)}

    cases = [row(f"t.py::many[{number}]", 0.1, 0) for number in range(20)]
    rows = [{"places": PLACES}, row("t.py::slow", 9.0, 0, 2), row("t.py::quick", 0.01, 0, 1), *cases]
    path = tmp_path / "map"
    path.write_text("\n".join(map(json.dumps, rows)))
    reach = Reach(path)
    assert len(reach.tests) == 22
    eight = [f"t.py::many[{number}]" for number in range(8)]
    assert list(reach.find_tests(PLACES[0], 10)) == ["t.py::quick", *eight, "t.py::slow"]
    assert list(reach.find_tests(PLACES[0], 9)) == ["t.py::quick", *eight]
    assert list(reach.find_tests(PLACES[1], 60)) == ["t.py::quick"]
    assert list(reach.find_tests("m.py:.outer#7", 60)) == ["t.py::quick", *eight, "t.py::slow"]  # made since
    assert list(reach.find_tests("m.py:", 60)) == ["t.py::quick", *eight, "t.py::slow"]
    assert list(reach.find_tests("n.py:", 60)) == []
