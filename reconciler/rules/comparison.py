"""Differences between the sources of a round (what each states, which one counts, and why) and between two rounds. Both
identify a value by its place in the round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import Ruleset

CATEGORIES, LAYOUT = "categories", "layout"


class RulePlace(Struct, frozen=True, order=True):
    """Place of a rule. ``benchmark`` and ``scenario`` are "" if a value applies to all. ``name``: a rule, a section, or
    "categories"."""

    benchmark: str
    scenario: str
    name: str

    def __str__(self) -> str:
        return " / ".join(part for part in (self.benchmark, self.scenario, self.name) if part)


def find_stated(ruleset: Ruleset) -> Iterator[tuple[RulePlace, RuledValue]]:
    """Return every ruled value at the level that states it: general ones once, not for each benchmark."""
    for name, ruled in {**ruleset.general, **ruleset.sections}.items():
        yield RulePlace("", "", name), ruled
    for scenario, fields in ruleset.scenarios.items():
        for name, ruled in fields.items():
            yield RulePlace("", scenario, name), ruled
    for rules in ruleset.benchmarks.values():
        yield RulePlace(rules.name, "", CATEGORIES), rules.tables_ruled
        for scenario, levels in rules.levels.items():
            for name, ruled in levels[0].items():
                yield RulePlace(rules.name, scenario, name), ruled


def read_value_at(ruleset: Ruleset, place: RulePlace) -> Any:
    """Return the value in effect at a place, at whatever level it is stated; None if the round does not state it."""
    name, rules = place.name, ruleset.find_benchmark(place.benchmark)
    if place.scenario and place.scenario not in ruleset.scenarios:
        return None
    if place.benchmark:
        if rules is None or name == CATEGORIES:
            return rules.tables_ruled.value if rules else None
        return rules.get_value(name, place.scenario)
    if name == LAYOUT:
        return ruleset.layout
    fields = (ruleset.scenarios.get(place.scenario, {}), ruleset.general, ruleset.sections)
    return next((field[name].value for field in fields if name in field), None)


class Statement(Struct, frozen=True):
    """Value stated by some sources. ``because``: why it counts or does not count."""

    sources: tuple[str, ...]
    value: Any
    counts: bool
    because: str


class Conflict(Struct, frozen=True):
    """Conflicting statements; the first one counts."""

    place: RulePlace
    statements: tuple[Statement, ...]


def find_conflicts(ruleset: Ruleset) -> tuple[Conflict, ...]:
    """Return every value on which sources differ, in the order of the round."""
    return tuple(Conflict(p, _list_statements(r)) for p, r in find_stated(ruleset) if r.overruled or r.ignored)


def _list_statements(ruled: RuledValue) -> tuple[Statement, ...]:
    why = "the strictest" if ruled.overruled else "the others are set aside"
    grouped: dict[str, tuple[list[str], Any, str]] = {}
    for source, value in ruled.overruled:
        grouped.setdefault(f"{value!r} overruled", ([], value, "less strict"))[0].append(source)
    for ignored in ruled.ignored:
        grouped.setdefault(f"{ignored.value!r} ignored", ([], ignored.value, ignored.because))[0].append(ignored.source)
    others = (Statement(tuple(sources), value, False, because) for sources, value, because in grouped.values())
    return (Statement(ruled.sources, ruled.value, True, why), *others)


class RuleChange(Struct, frozen=True):
    """Changed value; None on the side of a round that does not state it."""

    place: RulePlace
    before: Any
    after: Any


class RoundsDiff(Struct, frozen=True):
    """Differences between the rounds ``before`` and ``after``. ``changes`` covers general values and the benchmarks in
    both rounds."""

    before: str
    after: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[RuleChange, ...]

    def reverse(self) -> RoundsDiff:
        changes = tuple(RuleChange(change.place, change.after, change.before) for change in self.changes)
        return RoundsDiff(self.after, self.before, self.removed, self.added, changes)


def diff_rounds(before: Ruleset, after: Ruleset) -> RoundsDiff:
    """Compare the values in effect. Moving a value to another level is not a change."""
    common = {"", *before.benchmarks} & {"", *after.benchmarks}
    places = {RulePlace("", "", LAYOUT), *(place for ruleset in (before, after) for place, _ in find_stated(ruleset))}
    pairs = [(p, read_value_at(before, p), read_value_at(after, p)) for p in sorted(places) if p.benchmark in common]
    return RoundsDiff(
        before.round,
        after.round,
        added=tuple(sorted(set(after.benchmarks) - set(before.benchmarks))),
        removed=tuple(sorted(set(before.benchmarks) - set(after.benchmarks))),
        changes=tuple(RuleChange(*pair) for pair in pairs if pair[1] != pair[2]),
    )
