"""A round's rules as frozen values: the ruled value for a benchmark, scenario, division and category. No round or
benchmark is referred to by name; both are data.

``rounds.py`` reads them from YAML. It is a separate module, so that using a ruleset does not load a YAML library.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, TypeVar

from msgspec import Struct, field

from reconciler.loadgen import keys
from reconciler.resource.inputs import Origin, Value
from reconciler.resource.ruled_values import (
    AccuracyLogRule,
    Bar,
    EndpointsRules,
    ExtraFiles,
    Inference,
    Metric,
    NetworkRules,
    Presence,
    ScenarioTable,
    SystemField,
    TestRules,
    parse_expected,
)
from reconciler.rules.ruled_value import SETTING_FIELDS, RuledValue, is_field

Fields = Mapping[str, RuledValue]

# Type of a ruleset's attribute that is a section of the round's file with the same name: a struct, several structs, or
# the stated value. Attributes with a default are optional.
SECTION = "section"
_T = TypeVar("_T")
_LOADGEN = frozenset({"mlperf.conf", "loadgen"})  # sources that are part of LoadGen
Section = Annotated[_T, SECTION]


class BenchmarkRules(Struct, frozen=True, dict=True):
    """One benchmark of a round. ``levels`` maps a scenario ("" for none) to the ruled values, most specific first."""

    name: str
    round: str
    tables: Mapping[str, ScenarioTable]
    tables_ruled: RuledValue
    levels: Mapping[str, tuple[Fields, ...]]

    @cached_property
    def _made(self) -> dict[tuple[str, str], Any]:
        return {}

    def find_ruled_value(self, name: str, scenario: str = "") -> RuledValue | None:
        """Find the value for the benchmark and scenario, then the benchmark, the scenario, and all; None if the round
        states none."""
        if not is_field(name):
            raise KeyError(f"unknown rule: {name}")
        levels = self.levels.get(scenario, self.levels[""])
        return next((level[name] for level in levels if name in level), None)

    def list_names(self, scenario: str = "") -> tuple[str, ...]:
        """List every name with a ruled value for this benchmark and scenario, in the order of the round file."""
        known: tuple[str, ...] | None = self._made.get(("names", scenario))
        if known is None:
            levels = reversed(self.levels.get(scenario, self.levels[""]))
            known = self._made["names", scenario] = tuple(dict.fromkeys(name for level in levels for name in level))
        return known

    def get_value(self, name: str, scenario: str = "") -> Any:
        """Return the ruled value without its sources; None if the round states none."""
        ruled = self.find_ruled_value(name, scenario)
        return None if ruled is None else ruled.value

    def get_built_in(self, name: str, scenario: str = "") -> Any:
        """Return LoadGen's default; None if the round states none. LoadGen has no values that only a checker
        requires."""
        levels = self.levels.get(scenario, self.levels[""])
        stated = (level[name] for level in levels if name in level)
        return next((ruled.value for ruled in stated if _LOADGEN.intersection(ruled.sources)), None)

    def list_settings(self, scenario: str) -> dict[str, Value]:
        """List the initial settings for a run of this scenario, before the spec overrides them, each with its origin.

        ``min_duration`` in ms, latencies in ns, percentiles and rates as decimal text; ``model_key`` is LoadGen's.
        """
        return self._read_values(SETTING_FIELDS, scenario)

    def list_generation_rules(self, scenario: str) -> dict[str, Value]:
        """List the rules for an answer's tokens as ``generation.<mode>.<name>``; ``both`` means either mode."""
        names = tuple(name for name in self.list_names(scenario) if name.startswith("generation."))
        return self._read_values(names, scenario)

    def list_required_files(self, scenario: str) -> dict[str, Value]:
        """List the answers of an accuracy run that must exist as files (see ``extra_files``), for a score's key."""
        return self._read_values(("accuracy_files",), scenario)

    def seeds(self) -> dict[str, int]:
        """The three seeds that every log of the round must contain, under LoadGen's names."""
        return {name: self.get_value(name) for name in keys.SEEDS}

    def list_bars(self, scenario: str = "") -> tuple[Bar, ...]:
        """List the accuracy bars, in the order of the round file."""
        bounds: dict[str, dict[str, Decimal]] = {}
        for name in self._list_below("accuracy", scenario):
            metric, _, side = name.rpartition(".")
            bounds.setdefault(metric, {})[side] = Decimal(str(self.get_value(f"accuracy.{name}", scenario)))
        return tuple(Bar(metric, sides.get("least"), sides.get("most")) for metric, sides in bounds.items())

    def find_metric(self, scenario: str) -> Metric:
        """Find the metric of a scenario and its key in the log."""
        return Metric(
            key=self.get_value("metric_key", scenario),
            unit=self.get_value("metric_unit", scenario),
            divisor=self.get_value("metric_divisor", scenario) or 1,
            lower_is_better=self.get_value("metric_better", scenario) == "lower",
        )

    def find_extra_files(self, scenario: str = "") -> ExtraFiles | None:
        """Find the files that the accuracy folder must contain in addition to the logs; None if there are none."""
        files = self.get_value("accuracy_files", scenario)
        return None if files is None else ExtraFiles(files["folder"], tuple(map(str, files["stems"])))

    @property
    def compliance_tests(self) -> tuple[str, ...]:
        return tuple(self.get_value("compliance_tests") or ())

    def list_stated_tests(self) -> frozenset[str]:
        """List the tests that any source requires for this benchmark, even if another source overrules it."""
        ruled = self.find_ruled_value("compliance_tests")
        if ruled is None:
            return frozenset()
        others = (*(value for _, value in ruled.overruled), *(each.value for each in ruled.ignored))
        return frozenset(test for stated in (ruled.value, *others) for test in stated or ())

    def find_test(self, name: str, scenario: str = "") -> TestRules:
        """Find the rules of a compliance test for this benchmark. Raises KeyError if the round does not have the
        test."""
        known: TestRules | None = self._made.get((name, scenario))
        if known is None:
            known = self._made[name, scenario] = self._make_test(name, scenario)
        return known

    def _make_test(self, name: str, scenario: str) -> TestRules:
        prefix = f"tests.{name}"
        if f"{prefix}.files" not in self.list_names(scenario):
            raise KeyError(f"round {self.round} has no test {name}")
        settings, limits = (
            self._read_values(self._list_below(part, scenario), scenario, f"{part}.")
            for part in (f"{prefix}.settings", f"{prefix}.limits")
        )
        return TestRules(
            name=name,
            compared_with=self.get_value(f"{prefix}.compared_with", scenario),
            files=self.get_value(f"{prefix}.files", scenario),
            expected=parse_expected(self.get_value(f"{prefix}.expects", scenario)),
            performance_checks=self.get_value(f"{prefix}.performance_checks", scenario),
            settings=settings,
            limits=limits,
        )

    def find_presence(self, category: str, scenario: str) -> Presence:
        """Return whether a scenario is required, optional or forbidden. ``category``: the system's category:
        datacenter, edge, or both joined by a comma, which have a separate table."""
        table = self.tables.get(normalise_category(category), ScenarioTable())
        if scenario in table.required:
            return Presence.REQUIRED
        return Presence.OPTIONAL if scenario in table.optional else Presence.FORBIDDEN

    def list_missing(self, category: str, entered: frozenset[str]) -> tuple[str, ...]:
        """List the required scenarios that are not entered; "A or B" if one of several is required."""
        table = self.tables.get(normalise_category(category), ScenarioTable())
        groups = (" or ".join(group) for group in table.one_of if not entered & set(group))
        return tuple(name for name in table.required if name not in entered) + tuple(groups)

    def _read_values(self, names: tuple[str, ...], scenario: str, prefix: str = "") -> dict[str, Value]:
        found = ((name, self.find_ruled_value(f"{prefix}{name}", scenario)) for name in names)
        return {
            name: Value(item.value, Origin(f"round {self.round} ({', '.join(item.sources)})"))
            for name, item in found
            if item is not None
        }

    def _list_below(self, prefix: str, scenario: str) -> tuple[str, ...]:
        start = f"{prefix}."
        return tuple(name.removeprefix(start) for name in self.list_names(scenario) if name.startswith(start))


class Ruleset(Struct, frozen=True):
    """One round. ``layout`` names the tree's layout; ``divisions``: which demands bind which division.

    ``scenarios`` and ``general``: values for all benchmarks. ``sections``: the other parts of the round's file as
    stated. ``aliases``: other names for benchmarks that a tree may use, by official name. ``earlier``: benchmarks of
    previous rounds. ``power_fields``: fields of power submissions; no checker enforces them. ``is_known``: whether the
    round's rules are available; otherwise no value is ruled and no demand binds.
    """

    round: str
    layout: str
    benchmarks: Mapping[str, BenchmarkRules]
    general: Fields
    divisions: Section[Mapping[str, Mapping[str, bool]]]
    system_fields: Section[tuple[SystemField, ...]]
    measurements_fields: Section[tuple[str, ...]]
    accuracy_log: Section[AccuracyLogRule]
    sections: Mapping[str, RuledValue] = field(default_factory=dict)
    scenarios: Mapping[str, Fields] = field(default_factory=dict)
    aliases: Section[Mapping[str, str]] = field(default_factory=dict)
    earlier: Mapping[str, BenchmarkRules] = field(default_factory=dict)
    inferences: Section[tuple[Inference, ...]] = ()
    network: Section[NetworkRules] = field(default_factory=NetworkRules)
    power_fields: Section[tuple[str, ...]] = ()
    endpoints: Section[EndpointsRules] = field(default_factory=EndpointsRules)
    is_known: bool = True

    @property
    def cell_documents(self) -> tuple[str, ...]:
        """Files that accompany a cell's measurements."""
        return tuple(self.get_value("cell_documents") or ())

    def find_benchmark(self, official_name: str) -> BenchmarkRules | None:
        """Find a benchmark's rules by its official name; None if the round does not have it."""
        return self.benchmarks.get(official_name)

    def find_rules(self, division: str, official_name: str) -> BenchmarkRules | None:
        """Find the rules for a benchmark entered in a division. A division that allows any scenario, as open does, also
        accepts benchmarks of earlier rounds: with their own sample counts and limits, and this round's seeds."""
        own = self.benchmarks.get(official_name)
        if own is not None or self.binds(division, "scenarios"):
            return own
        return self.earlier.get(official_name)

    def find_official_name(self, name: str) -> str | None:
        """Return the official name for a name or an alias; None if the round does not have it."""
        official = self.aliases.get(name, name)
        return official if official in self.benchmarks else None

    def find_inference(self, scenario: str, measured: str, category: str) -> Inference | None:
        """Find how a ``scenario`` result follows from logs of ``measured``; None if the round does not allow it."""
        parts = normalise_category(category).split(",")
        fitting = (i for i in self.inferences if (i.scenario, i.measured) == (scenario, measured))
        return next((i for i in fitting if i.category in parts), None)

    def get_value(self, name: str) -> Any:
        """Return a value ruled for all benchmarks and scenarios; None if the round states none."""
        if not is_field(name):
            raise KeyError(f"unknown rule: {name}")
        return self.general[name].value if name in self.general else None

    def seeds(self) -> dict[str, int]:
        """The three seeds that every log of the round must contain; empty for an unknown round."""
        return {name: self.general[name].value for name in keys.SEEDS} if self.is_known else {}

    def binds(self, division: str, demand: str) -> bool:
        """Return True if a demand binds a division. Demands bind all divisions that the round does not exempt."""
        return self.is_known and self.divisions.get(division, {}).get(demand, True)


def make_unknown_ruleset(name: str, layout: str, inferences: tuple[Inference, ...]) -> Ruleset:
    """Create a ruleset for a round whose rules are not available. ``inferences``: those of any round. Truncation is the
    same in every known round."""
    return Ruleset(
        round=name,
        layout=layout,
        benchmarks={},
        general={},
        divisions={},
        system_fields=(),
        measurements_fields=(),
        accuracy_log=AccuracyLogRule(limit=sys.maxsize, whole_below=4096, keep=4096),
        inferences=inferences,
        is_known=False,
    )


def normalise_category(category: str) -> str:
    """Sort a category's parts, so that ``edge,datacenter`` and ``datacenter,edge`` are equal."""
    return ",".join(sorted(part.strip() for part in category.split(",")))
