"""Where in a round a value is stated, as one name for people and for comparing rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reconciler.mlperf.ruled_value import RuledValue
from reconciler.mlperf.ruleset import BenchmarkRules, Ruleset

CATEGORIES, LAYOUT = "categories", "layout"


@dataclass(frozen=True, slots=True)
class RulePlace:
    """``benchmark`` and ``scenario`` are "" where a value holds for all. ``name``: a rule, a section, "categories"."""

    benchmark: str
    scenario: str
    name: str

    def __str__(self) -> str:
        return " / ".join(part for part in (self.benchmark, self.scenario, self.name) if part)


def find_stated(ruleset: Ruleset) -> Iterator[tuple[RulePlace, RuledValue]]:
    """Every ruled value of a round at the level where it is stated: general ones once, not for each benchmark."""
    for name, ruled in {**ruleset.general, **ruleset.sections}.items():
        yield RulePlace("", "", name), ruled
    for scenario, fields in ruleset.scenarios.items():
        for name, ruled in fields.items():
            yield RulePlace("", scenario, name), ruled
    for benchmark in ruleset.benchmarks.values():
        yield from _of_benchmark(benchmark)


def _of_benchmark(rules: BenchmarkRules) -> Iterator[tuple[RulePlace, RuledValue]]:
    yield RulePlace(rules.name, "", CATEGORIES), rules.tables_ruled
    for scenario, levels in rules.levels.items():
        for name, ruled in levels[0].items():
            yield RulePlace(rules.name, scenario, name), ruled


def read_value_at(ruleset: Ruleset, place: RulePlace) -> Any:
    """The value that holds at a place, wherever it is stated; None when the round says nothing."""
    name, rules = place.name, ruleset.benchmark(place.benchmark)
    if place.scenario and place.scenario not in ruleset.scenarios:
        return None
    if place.benchmark:
        if rules is None or name == CATEGORIES:
            return rules.tables_ruled.value if rules else None
        return rules.value(name, place.scenario)
    if name == LAYOUT:
        return ruleset.layout
    fields = (ruleset.scenarios.get(place.scenario, {}), ruleset.general, ruleset.sections)
    return next((field[name].value for field in fields if name in field), None)
