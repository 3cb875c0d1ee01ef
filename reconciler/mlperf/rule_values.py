"""The values that a round's rules are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class Inference:
    """A result of ``scenario`` that stands on the logs of a run of ``measured``, on systems of ``category``.

    Its metric is ``multiplier`` times the value of ``key``, divided by ``divisor``; with ``inverse``: ``multiplier``
    divided by the value (``divisor`` is 1 then).
    ``least_queries``: how many queries the run must have processed for LoadGen to log the key.
    """

    scenario: str
    measured: str
    category: str
    key: str
    multiplier: int = 1
    divisor: int = 1
    inverse: bool = False
    least_queries: int = 0


@dataclass(frozen=True, slots=True)
class ExtraFiles:
    """Files that must lie in a folder beside the accuracy log, by their names without extension."""

    folder: str
    stems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """Of the network division: the further fields of the system description, and what the SUT's name must contain."""

    fields: tuple[str, ...] = ()
    sut_name: str = ""


@dataclass(frozen=True, slots=True)
class EndpointsRules:
    """Which benchmarks may be entered with the output of the endpoints harness, and what it calls each test.

    ``required``: the tests without whose file a result is refused. ``single``: the benchmarks of which the checker
    compares a score that is but one number. ``metrics``: scenario → {key, unit} of what is published, where it is not
    what LoadGen's logs give; ``benchmark_metrics``: benchmark → scenario → the key that is published instead.
    """

    benchmarks: tuple[str, ...] = ()
    tests: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    benchmark_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    single: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    def metric(self, benchmark: str, scenario: str, own: Metric) -> Metric:
        """``own``: the benchmark's metric by LoadGen, whose unit and divisor hold where nothing else is said."""
        table = self.metrics.get(scenario, {})
        key = self.benchmark_metrics.get(benchmark, {}).get(scenario) or table.get("key") or own.key
        unit = own.unit if key == own.key else table.get("unit") or own.unit
        return replace(own, key=key, unit=unit)
