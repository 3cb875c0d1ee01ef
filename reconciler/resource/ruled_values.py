"""The values that a round's rules consist of, including those of compliance tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.resource.inputs import Value

_WHOLE_LINE = "= "  # precedes a text that must be a complete line of a verify file


class Bar(Struct, frozen=True):
    """An accuracy metric and its inclusive bounds; None: no bound on that side."""

    metric: str
    least: Decimal | None = None
    most: Decimal | None = None

    def admits(self, value: Decimal) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def describe(self, measured: str, *, met: bool) -> dict[str, Any]:
        """Describe the comparison with a measured value, for a record."""
        bounds = {"least": self.least, "most": self.most}
        shown = {side: None if bound is None else str(bound) for side, bound in bounds.items()}
        return {"metric": self.metric, "measured": measured, **shown, "met": met}


class LatencyLimits(Struct, frozen=True):
    """Latency limits of a scenario: the highest 99th percentiles, in ns; None if the round has no limit."""

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
    """Sizes in bytes: the maximum, the size up to which a log is kept complete, and how much of each end is kept of a
    larger log."""

    limit: int
    whole_below: int
    keep: int


class Presence(StrEnum):
    """The status of a benchmark's scenario for a category of systems: required, optional or forbidden."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    FORBIDDEN = "forbidden"


class ScenarioTable(Struct, frozen=True):
    """``one_of``: groups of optional scenarios, at least one of which must be entered."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    one_of: tuple[tuple[str, ...], ...] = ()


class Inference(Struct, frozen=True):
    """A result for ``scenario``, derived from the logs of a ``measured`` run on systems of ``category``.

    Its metric is ``multiplier`` times the value of ``key``, divided by ``divisor``; with ``inverse``, it is
    ``multiplier`` divided by the value (``divisor`` is then 1). ``least_queries``: the number of queries that a run
    must process before LoadGen logs the key.
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
        """Derive the metric of ``scenario`` from a nonzero value of ``key``."""
        return self.multiplier / measured if self.inverse else self.multiplier * measured / self.divisor


class ExtraFiles(Struct, frozen=True):
    """Files that a folder with the accuracy log must contain, by name without extension."""

    folder: str
    stems: tuple[str, ...]


class NetworkRules(Struct, frozen=True):
    """Rules of the network division: additional fields of the system description, and the required part of the SUT's
    name."""

    fields: tuple[str, ...] = ()
    sut_name: str = ""


class EndpointsRules(Struct, frozen=True):
    """The benchmarks that may be entered with the endpoints harness's output, and its name for each test.

    ``required``: the tests whose file must exist, or the result is refused. ``single``: the benchmarks for which a
    single plain score counts as the accuracy. ``metrics``: scenario → {key, unit} of the published metric, if it
    differs from LoadGen's; ``benchmark_metrics``: benchmark → scenario → the key that is published instead.
    """

    benchmarks: tuple[str, ...] = ()
    tests: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    benchmark_metrics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    single: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    def make_metric(self, benchmark: str, scenario: str, own: Metric) -> Metric:
        """``own``: the benchmark's LoadGen metric, which provides the unit and divisor unless they are overridden."""
        table, special = self.metrics.get(scenario, {}), self.benchmark_metrics.get(benchmark, {}).get(scenario)
        key = special or table.get("key") or own.key
        unit = own.unit if special or key == own.key else table.get("unit") or own.unit
        return replace(own, key=key, unit=unit)


class Expected(Struct, frozen=True):
    """A verdict file must contain one of these texts, either as a complete line (ignoring outer blanks) or anywhere."""

    file: str
    texts: tuple[str, ...]
    whole_line: bool

    def is_in(self, lines: Sequence[str]) -> bool:
        if self.whole_line:
            return any(line.strip() in self.texts for line in lines)
        return any(text in line for text in self.texts for line in lines)


class TestRules(Struct, frozen=True):
    """A compliance test of one benchmark and scenario.

    ``compared_with``: the cell's runs that its verdict reads, of "performance" and "accuracy"; none if the test is
    judged by itself. ``files``: files that its folder must contain. ``expected``: texts that its verdict files must
    contain. ``performance_checks``: whether its own run must pass the checks of a performance run (seeds, counts,
    durations). ``settings``: LoadGen's audit settings by their names in a conf file (durations in ms). ``limits``: the
    bounds of its verdict, by their names in the round file; changes are in percent, as decimal text.
    """

    __test__ = False  # for pytest: not a test class

    name: str
    compared_with: tuple[str, ...]
    files: tuple[str, ...]
    expected: tuple[Expected, ...]
    performance_checks: bool
    settings: Mapping[str, Value]
    limits: Mapping[str, Value]


def parse_expected(entry: Mapping[str, Any]) -> tuple[Expected, ...]:
    """Parse {file: texts}. A nested list contains alternatives; "= " before a text requires a complete line."""
    found = []
    for file, items in entry.items():
        for item in items:
            texts = (item,) if isinstance(item, str) else tuple(item)
            whole = texts[0].startswith(_WHOLE_LINE)
            found.append(Expected(file, tuple(text.removeprefix(_WHOLE_LINE) for text in texts), whole))
    return tuple(found)
