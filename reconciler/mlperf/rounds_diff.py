"""What changed from one round to another: values, and benchmarks added or removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reconciler.mlperf.rounds_places import LAYOUT, RulePlace, find_stated, read_value_at
from reconciler.mlperf.ruleset import Ruleset


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A value that differs; None on the side of a round that says nothing."""

    place: RulePlace
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class RoundsDiff:
    """``before`` and ``after`` are rounds. ``changes`` covers the benchmarks that both have, and what holds for all."""

    before: str
    after: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changes: tuple[RuleChange, ...]

    def reversed(self) -> RoundsDiff:
        changes = tuple(RuleChange(change.place, change.after, change.before) for change in self.changes)
        return RoundsDiff(self.after, self.before, self.removed, self.added, changes)


def diff_rounds(before: Ruleset, after: Ruleset) -> RoundsDiff:
    """Values compare as they hold, not as they are stated: moving one to another level changes nothing."""
    common = {"", *before.benchmarks} & {"", *after.benchmarks}
    places = {RulePlace("", "", LAYOUT), *(place for ruleset in (before, after) for place, _ in find_stated(ruleset))}
    changes = [
        RuleChange(place, *values)
        for place in sorted(places, key=_order)
        if place.benchmark in common
        and (values := (read_value_at(before, place), read_value_at(after, place)))[0] != values[1]
    ]
    return RoundsDiff(
        before.round,
        after.round,
        added=tuple(sorted(set(after.benchmarks) - set(before.benchmarks))),
        removed=tuple(sorted(set(before.benchmarks) - set(after.benchmarks))),
        changes=tuple(changes),
    )


def _order(place: RulePlace) -> tuple[str, str, str]:
    return place.benchmark, place.scenario, place.name
