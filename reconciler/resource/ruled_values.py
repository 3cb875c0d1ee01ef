"""The values that a round's rules are made of, what a compliance test consists of among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.resource.inputs import Value

_WHOLE_LINE = "= "  # before a text that a verify file must hold as a whole line


class Bar(Struct, frozen=True):
    """An accuracy metric and its bounds, both inclusive; None: not bounded on that side."""

    metric: str
    least: Decimal | None = None
    most: Decimal | None = None


class LatencyLimits(Struct, frozen=True):
    """Latency limits of a scenario: the greatest 99th percentiles, in ns; None where the round rules none."""

    ttft: Decimal | None = None
    tpot: Decimal | None = None
    latency: Decimal | None = None


class Metric(Struct, frozen=True):
    """Published metric: the value of ``key`` in the detail log, divided by ``divisor``, in ``unit``."""

    key: str
    unit: str
    divisor: int = 1
    lower_is_better: bool = False


class SystemField(Struct, frozen=True):
    """A field of the system description. Its key must exist; ``filled``: its value must not be empty."""

    name: str
    filled: bool = False
    integer: bool = False
    one_of: tuple[str, ...] = ()


class AccuracyLogRule(Struct, frozen=True):
    """Bytes: the greatest size allowed, the size below which a log stays whole, and how much of each end is kept."""

    limit: int
    whole_below: int
    keep: int


class Presence(StrEnum):
    """Presence of a benchmark's scenario that is allowed or required for a system of some category."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORBIDDEN = "forbidden"


class ScenarioTable(Struct, frozen=True):
    """``one_of``: groups of optional scenarios of which at least one must be entered."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()


class Inference(Struct, frozen=True):
    """A result of ``scenario`` by the logs of a run of ``measured``, on systems of ``category``.

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

    def derive(self, measured: Decimal) -> Decimal:
        """The metric of ``scenario``, from a value of ``key`` that is not 0."""
        return self.multiplier / measured if self.inverse else self.multiplier * measured / self.divisor


class ExtraFiles(Struct, frozen=True):
    """Files that must be in a folder with the accuracy log, by their names without extension."""

    folder: str
    stems: tuple[str, ...]


class NetworkRules(Struct, frozen=True):
    """Rules of the network division: the further fields of the system description, and what the SUT's name must
    contain."""

    fields: tuple[str, ...] = ()
    sut_name: str = ""


class EndpointsRules(Struct, frozen=True):
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

    def make_metric(self, benchmark: str, scenario: str, own: Metric) -> Metric:
        """``own``: the benchmark's metric by LoadGen, whose unit and divisor hold where nothing else is said."""
        table, special = self.metrics.get(scenario, {}), self.benchmark_metrics.get(benchmark, {}).get(scenario)
        key = special or table.get("key") or own.key
        unit = own.unit if special or key == own.key else table.get("unit") or own.unit
        return replace(own, key=key, unit=unit)


class Expected(Struct, frozen=True):
    """A verdict file must hold one of these texts: as a whole line (blanks at its ends aside), or anywhere."""

    file: str
    texts: tuple[str, ...]
    whole_line: bool

    def stands_in(self, lines: Sequence[str]) -> bool:
        if self.whole_line:
            return any(line.strip() in self.texts for line in lines)
        return any(text in line for text in self.texts for line in lines)


class TestRules(Struct, frozen=True):
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
