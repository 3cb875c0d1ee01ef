"""A round's rules as frozen values. Nothing here knows a round or a benchmark by name: both are data.

``rounds.py`` reads them from YAML; it is apart so that using a ruleset costs no YAML library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from reconciler.resource.inputs import Origin, Value

SOURCES = ("policy", "checker", "mlperf.conf", "loadgen")

# The settings a run starts from, under the names that specs use (see ``reconciler.spec.declared``).
SETTING_FIELDS = (
    "model_key",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "min_duration",
    "min_query_count",
    "performance_sample_count",
    "target_qps",
    "target_latency",
    "target_latency_percentile",
    "samples_per_query",
    "sample_concatenate_permutation",
    "use_token_latencies",
    "ttft_latency",
    "tpot_latency",
)
SEED_FIELDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")

# What a result must fulfil. The prefix also says which of two differing sources is the stricter.
DEMAND_FIELDS = (
    "least_min_duration",
    "least_query_count",
    "least_early_stopping_queries",
    "least_performance_sample_count",
    "least_samples_per_query",
    "exact_accuracy_sample_count",
    "most_target_latency",
    "most_ttft_latency",
    "most_tpot_latency",
)
OTHER_FIELDS = (
    "accuracy_log_rng_seed",
    "dataset_size",
    "metric_key",
    "metric_divisor",
    "metric_unit",
    "metric_better",
    "accuracy",
    "compliance_tests",
)
FIELDS = frozenset(SETTING_FIELDS + DEMAND_FIELDS + OTHER_FIELDS)


@dataclass(frozen=True, slots=True)
class Ruled:
    """A value and which sources say so. ``overruled`` are the values of other sources that are less strict."""

    value: Any
    sources: tuple[str, ...]
    overruled: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """An accuracy metric and its bounds, both inclusive; None: not bounded on that side."""

    metric: str
    least: Decimal | None = None
    most: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """What is published: the value of ``key`` in the detail log, divided by ``divisor``, in ``unit``."""

    key: str
    unit: str
    divisor: int = 1
    lower_is_better: bool = False


@dataclass(frozen=True, slots=True)
class SystemField:
    """A field of the system description. Its key must exist; ``filled``: its value must not be empty."""

    name: str
    filled: bool = False
    integer: bool = False
    one_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AccuracyLogRule:
    """Bytes: the greatest size allowed, the size below which a log stays whole, and how much of each end is kept."""

    limit: int
    whole_below: int
    keep: int


class Presence(StrEnum):
    """Whether a benchmark's scenario may or must be entered for a system of some category."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class ScenarioTable:
    """``one_of``: groups of optional scenarios of which at least one must be entered."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()


Fields = Mapping[str, Ruled]


@dataclass(frozen=True, slots=True)
class BenchmarkRules:
    """One benchmark of a round. ``levels`` maps a scenario ("" for none) to the ruled values, most specific first."""

    name: str
    round: str
    tables: Mapping[str, ScenarioTable]
    table_sources: tuple[str, ...]
    levels: Mapping[str, tuple[Fields, ...]]

    def ruled(self, name: str, scenario: str = "") -> Ruled | None:
        """Looked up at benchmark and scenario, benchmark, scenario, general; None when the round says nothing."""
        if name not in FIELDS:
            raise KeyError(f"no such rule: {name}")
        levels = self.levels.get(scenario, self.levels[""])
        return next((level[name] for level in levels if name in level), None)

    def value(self, name: str, scenario: str = "") -> Any:
        """The bare ruled value, None when the round says nothing."""
        ruled = self.ruled(name, scenario)
        return None if ruled is None else ruled.value

    def origin(self, ruled: Ruled) -> Origin:
        return Origin(f"round {self.round} ({', '.join(ruled.sources)})")

    def settings(self, scenario: str) -> dict[str, Value]:
        """What a run of this scenario starts from before a spec says otherwise, each with its origin.

        ``min_duration`` in ms, latencies in ns, percentiles and rates as decimal text; ``model_key`` is LoadGen's.
        """
        found = {name: self.ruled(name, scenario) for name in SETTING_FIELDS}
        return {name: Value(item.value, self.origin(item)) for name, item in found.items() if item is not None}

    def seeds(self) -> dict[str, int]:
        """The three seeds that every log of the round must show, under LoadGen's names."""
        return {name: self.value(name) for name in SEED_FIELDS}

    def demands(self, scenario: str) -> dict[str, Value]:
        """What a result of this scenario must fulfil: the least_, most_ and exact_ values."""
        found = {name: self.ruled(name, scenario) for name in DEMAND_FIELDS}
        return {name: Value(item.value, self.origin(item)) for name, item in found.items() if item is not None}

    def bars(self, scenario: str = "") -> tuple[Bar, ...]:
        """The accuracy bars, in the order of the round file."""
        bars: Mapping[str, Mapping[str, str]] = self.value("accuracy", scenario) or {}
        return tuple(Bar(metric, _decimal(b.get("least")), _decimal(b.get("most"))) for metric, b in bars.items())

    def metric(self, scenario: str) -> Metric:
        """The metric of a scenario and where the log holds it."""
        return Metric(
            key=self.value("metric_key", scenario),
            unit=self.value("metric_unit", scenario),
            divisor=self.value("metric_divisor", scenario) or 1,
            lower_is_better=self.value("metric_better", scenario) == "lower",
        )

    @property
    def compliance_tests(self) -> tuple[str, ...]:
        return tuple(self.value("compliance_tests") or ())

    def presence(self, category: str, scenario: str) -> Presence:
        """``category`` is the system's: datacenter, edge, or both joined by a comma (a table of its own)."""
        table = self.tables.get(normal_category(category), ScenarioTable())
        if scenario in table.required:
            return Presence.REQUIRED
        return Presence.OPTIONAL if scenario in table.optional else Presence.FORBIDDEN

    def missing(self, category: str, entered: frozenset[str]) -> tuple[str, ...]:
        """What is required and not entered: a scenario, or "A or B" where one of several must be there."""
        table = self.tables.get(normal_category(category), ScenarioTable())
        groups = (" or ".join(group) for group in table.one_of if not entered & set(group))
        return tuple(name for name in table.required if name not in entered) + tuple(groups)


@dataclass(frozen=True, slots=True)
class Ruleset:
    """One round. ``layout`` names the tree's layout; ``divisions`` which demands bind which division."""

    round: str
    layout: str
    benchmarks: Mapping[str, BenchmarkRules]
    general: Fields
    divisions: Mapping[str, Mapping[str, bool]]
    system_fields: tuple[SystemField, ...]
    measurements_fields: tuple[str, ...]
    accuracy_log: AccuracyLogRule
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def benchmark(self, official_name: str) -> BenchmarkRules | None:
        """The rules of a benchmark by its official name; None when the round does not know it."""
        return self.benchmarks.get(official_name)

    def seeds(self) -> dict[str, int]:
        return {name: self.general[name].value for name in SEED_FIELDS}

    def binds(self, division: str, demand: str) -> bool:
        """Whether a demand binds a division; demands that the round does not exempt bind all."""
        return self.divisions.get(division, {}).get(demand, True)


def normal_category(category: str) -> str:
    """``edge,datacenter`` and ``datacenter,edge`` are one category."""
    return ",".join(sorted(part.strip() for part in category.split(",")))


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
