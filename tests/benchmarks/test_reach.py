"""Notes at the start of functions tell which of them ran, and change nothing else."""

from __future__ import annotations

import sys
import types

import pytest

from tests.benchmarks.reach import Places, with_notes

TEXT = '''"""A module."""
from __future__ import annotations

LIMIT = 3


def outer(number: int = 1 + 1) -> int:
    """Says."""

    def inner() -> int:
        return number - 1

    return inner() if number > LIMIT else number


class Thing:
    def method(self) -> str:
        return "thing"
'''


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    notes = types.ModuleType("reach_notes")
    notes.__dict__["SEEN"] = set()
    monkeypatch.setitem(sys.modules, "reach_notes", notes)
    found: set[str] = notes.__dict__["SEEN"]
    return found


def test_a_note_is_left_by_each_function_that_runs(seen: set[str]) -> None:
    made: dict[str, object] = {}
    exec(compile(with_notes("m.py", TEXT), "m.py", "exec"), made)
    outer = made["outer"]
    assert callable(outer)
    assert outer.__doc__ == "Says."
    assert seen == set()
    assert outer(2) == 2
    assert seen == {"m.py:7"}
    assert outer(5) == 4
    assert seen == {"m.py:7", "m.py:10"}


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("3\n", ""),
        ("1 + 1", ""),
        ("number > LIMIT", "m.py:7"),
        ("number - 1", "m.py:10"),
        ('"thing"', "m.py:17"),
    ],
)
def test_a_change_belongs_to_the_innermost_function_around_it(words: str, place: str) -> None:
    assert Places("m.py", TEXT).around(TEXT.index(words)) == place
