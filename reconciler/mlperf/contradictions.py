"""Compares what a run was asked for with what LoadGen says it did. A contradiction fails the run, whatever its result.

A setting that LoadGen ignored, a conf file it never read, an audit.config left behind or a log of another run: all of
them show here, because LoadGen logs every setting it used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from reconciler.mlperf.log import DetailLog
from reconciler.mlperf.scenarios import LOADGEN_MODE, name_loadgen_scenario
from reconciler.resource.canonical import show_decimal


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run was started with. ``scenario`` may be Interactive; ``mode`` is "performance" or "accuracy".

    ``settings`` under the names of specs, as given to ``user_conf.settings_for`` (audit overrides already applied);
    ``seeds`` under LoadGen's names, empty when they do not matter; ``audit``: an audit.config was given on purpose.
    """

    scenario: str
    mode: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    audit: bool = False


@dataclass(frozen=True, slots=True)
class Contradiction:
    """``line`` is the 1-based line of the detail log, 0 when the log says nothing."""

    field: str
    asked: str
    logged: str
    line: int

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line else ""
        return f"{self.field}: asked {self.asked}, LoadGen logged {self.logged}{where}"


@dataclass(frozen=True, slots=True)
class _Logged:
    """Where a setting is logged. ``form``: "integer"; "rate" (a double, logged with six significant digits); "percent"
    (logged as a fraction, also a double); "flag"; "count" (0 means that LoadGen takes the QSL's own count)."""

    setting: str
    key: str
    form: str = "integer"
    scenarios: tuple[str, ...] = ("SingleStream", "MultiStream", "Server", "Offline")


# min_query_count is compared as requested: LoadGen sets the effective one to 1 in Offline and pads it for equal issue.
_LOGGED = (
    _Logged("target_qps", "effective_target_qps", "rate", ("Server", "Offline")),
    _Logged("target_latency", "requested_single_stream_expected_latency_ns", "rate", ("SingleStream",)),
    _Logged("target_latency", "requested_multi_stream_expected_latency_ns", "rate", ("MultiStream",)),
    _Logged("target_latency", "effective_target_latency_ns", "integer", ("Server",)),
    _Logged(
        "target_latency_percentile",
        "effective_target_latency_percentile",
        "percent",
        ("SingleStream", "MultiStream", "Server"),
    ),
    _Logged("samples_per_query", "effective_samples_per_query", "integer", ("MultiStream",)),
    _Logged("coalesce_queries", "requested_server_coalesce_queries", "flag", ("Server",)),
    _Logged("max_async_queries", "effective_max_async_queries", "integer", ("Server",)),
    _Logged("ttft_latency", "requested_server_ttft_latency", "integer", ("Server",)),
    _Logged("tpot_latency", "requested_server_tpot_latency", "integer", ("Server",)),
    _Logged("use_token_latencies", "requested_use_token_latencies", "flag"),
    _Logged("sample_concatenate_permutation", "effective_sample_concatenate_permutation", "flag"),
    _Logged("min_duration", "effective_min_duration_ms"),
    _Logged("max_duration", "effective_max_duration_ms"),
    _Logged("min_query_count", "requested_min_query_count"),
    _Logged("max_query_count", "effective_max_query_count"),
    _Logged("performance_sample_count", "effective_performance_sample_count", "count"),
    _Logged("accuracy_sample_count", "effective_accuracy_sample_count", "count"),
)
# LoadGen logs these settings only when they are on.
_ABSENT_MEANS_OFF = frozenset({"requested_use_token_latencies"})
# Releases before 6 do not log the accuracy count; then it is the whole dataset.
_SUBSTITUTE = {"effective_accuracy_sample_count": "qsl_reported_total_count"}
_NOTHING = "nothing"


def find_contradictions(log: DetailLog, asked: Asked) -> tuple[Contradiction, ...]:
    """Every difference between the request and the detail log, in a fixed order; empty when they agree."""
    return tuple(_contradictions(log, asked))


def _contradictions(log: DetailLog, asked: Asked) -> Iterator[Contradiction]:
    scenario = name_loadgen_scenario(asked.scenario)
    yield from _unequal(log, "scenario", "effective_scenario", scenario)
    yield from _unequal(log, "mode", "effective_test_mode", LOADGEN_MODE[asked.mode])
    for entry in _LOGGED:
        value = asked.settings.get(entry.setting)
        if scenario in entry.scenarios and value is not None:
            yield from _setting(log, entry, value)
    for name, seed in asked.seeds.items():
        yield from _unequal(log, name, f"effective_{name}", str(seed))
    if (log.audit is not None) != asked.audit:
        names = {True: "settings from an audit.config", False: "no audit.config"}
        line = log.audit.line if log.audit else 0
        yield Contradiction("audit", names[asked.audit], names[not asked.audit], line)
    if not log.complete:
        yield Contradiction("end", "a run that came to its end", "no result", log.length)


def _unequal(log: DetailLog, name: str, key: str, asked: str) -> Iterator[Contradiction]:
    logged = log.get(key, _NOTHING)
    if str(logged) != asked:
        yield Contradiction(name, asked, str(logged), log.number(key))


def _setting(log: DetailLog, entry: _Logged, value: Any) -> Iterator[Contradiction]:
    if entry.form == "count" and value == 0:
        return
    key = entry.key if log.number(entry.key) else _SUBSTITUTE.get(entry.key, entry.key)
    logged = log.get(key)
    if logged is None:
        if not (key in _ABSENT_MEANS_OFF and not value):
            yield Contradiction(entry.setting, str(value), _NOTHING, 0)
        return
    if not _same(entry.form, value, logged):
        yield Contradiction(entry.setting, str(value), _shown(entry.form, logged), log.number(key))


def _same(form: str, asked: Any, logged: Any) -> bool:
    try:
        if form == "flag":
            return bool(asked) == bool(logged)
        if form == "rate":
            return round_to_six_digits(Decimal(asked)) == round_to_six_digits(Decimal(logged))
        if form == "percent":
            return round_to_six_digits(Decimal(asked)) == round_to_six_digits(Decimal(logged) * 100)
        return int(asked) == int(logged)
    except (TypeError, ValueError, ArithmeticError):
        return False


def _shown(form: str, logged: Any) -> str:
    if isinstance(logged, bool) or not isinstance(logged, (int, Decimal)):
        return str(logged)
    return show_decimal(Decimal(logged) * (100 if form == "percent" else 1))


def round_to_six_digits(number: Decimal) -> str:
    """The number as LoadGen logs a double."""
    return format(float(number), ".6g")
