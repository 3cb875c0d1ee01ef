"""What a compliance test of a round consists of, as values: its audit settings, files, comparisons and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.resource.inputs import Value

_WHOLE_LINE = "= "


@dataclass(frozen=True, slots=True)
class Expected:
    """A verdict file must hold one of these texts: as a whole line (blanks at its ends aside), or anywhere."""

    file: str
    texts: tuple[str, ...]
    whole_line: bool

    def stands_in(self, lines: Sequence[str]) -> bool:
        if self.whole_line:
            return any(line.strip() in self.texts for line in lines)
        return any(text in line for text in self.texts for line in lines)


@dataclass(frozen=True, slots=True)
class TestRules:
    """A compliance test of one benchmark and scenario.

    ``compared_with``: the runs of the same cell that its verdict reads, of "performance" and "accuracy"; none where the
    test is judged by itself. ``files``: what must lie below its folder. ``expected``: what its verdict files must say.
    ``performance_checks``: whether its own run must pass the checks of a performance run (seeds, counts, durations).
    ``settings``: LoadGen's audit settings by their names in a conf file (durations in ms). ``limits``: the bounds of
    its verdict, by their names in the round file; changes are in percent, as decimal text.
    """

    __test__ = False  # pytest: no class of tests

    name: str
    compared_with: tuple[str, ...]
    files: tuple[str, ...]
    expected: tuple[Expected, ...]
    performance_checks: bool
    settings: Mapping[str, Value]
    limits: Mapping[str, Value]


def parse_expected(entry: Mapping[str, Any]) -> tuple[Expected, ...]:
    """From {file: texts}, where a list within the list holds alternatives; "= " before a text: a whole line."""
    found = []
    for file, items in entry.items():
        for item in items:
            texts = (item,) if isinstance(item, str) else tuple(item)
            whole = texts[0].startswith(_WHOLE_LINE)
            found.append(Expected(file, tuple(text.removeprefix(_WHOLE_LINE) for text in texts), whole))
    return tuple(found)
