"""Where the sources of a round differ: what each says, which counts, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reconciler.mlperf.rounds_places import RulePlace, find_stated
from reconciler.mlperf.ruled_value import RuledValue
from reconciler.mlperf.ruleset import Ruleset


@dataclass(frozen=True, slots=True)
class Statement:
    """What some sources say. ``because``: why it counts, or why it does not."""

    sources: tuple[str, ...]
    value: Any
    counts: bool
    because: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first statement is the one that counts."""

    place: RulePlace
    statements: tuple[Statement, ...]


def find_conflicts(ruleset: Ruleset) -> tuple[Conflict, ...]:
    """Every value about which sources differ, in the order of the round."""
    return tuple(Conflict(p, _statements(r)) for p, r in find_stated(ruleset) if r.overruled or r.ignored)


def _statements(ruled: RuledValue) -> tuple[Statement, ...]:
    why = "the strictest" if ruled.overruled else "the others are set aside"
    grouped: dict[str, tuple[list[str], Any, str]] = {}
    for source, value in ruled.overruled:
        grouped.setdefault(f"{value!r} overruled", ([], value, "less strict"))[0].append(source)
    for ignored in ruled.ignored:
        grouped.setdefault(f"{ignored.value!r} ignored", ([], ignored.value, ignored.because))[0].append(ignored.source)
    others = (Statement(tuple(sources), value, False, because) for sources, value, because in grouped.values())
    return (Statement(ruled.sources, ruled.value, True, why), *others)
