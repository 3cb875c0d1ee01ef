"""Table of the settings of a LoadGen run, with their names in a spec, in a user.conf and in LoadGen's own log.

LoadGen prints every setting twice: as requested, with an audit.config applied, and as effective, after its own
adjustments. ``key`` names the line that a request is compared with.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.loadgen import keys

PERFORMANCE, ACCURACY = "performance", "accuracy"
LOADGEN_MODE = {PERFORMANCE: "PerformanceOnly", ACCURACY: "AccuracyOnly"}
_LOADGEN_NAME = {"Interactive": "Server"}  # Server with stricter token latencies

_ALL = (*keys.STREAMS, "Server", "Offline")


class Unit(StrEnum):
    """Notation of a value in a spec, in a user.conf and in the log."""

    RATE = "rate"  # decimal text; logged as a double, with six significant digits
    PERCENT = "percent"  # decimal text; logged as a fraction
    MS = "ms"  # integer nanoseconds; a user.conf has milliseconds with a fraction
    WHOLE_MS = "whole ms"  # the same, but LoadGen truncates a fraction
    COUNT = "count"  # an integer: queries, or milliseconds of a duration
    OVERRIDE = "override"  # a count; 0 means the number that the sample library reports
    FLAG = "flag"

    @property
    def integer(self) -> bool:
        """True if LoadGen reads it with strtoull, which drops everything from the first non-digit on."""
        return self not in (Unit.RATE, Unit.PERCENT, Unit.MS)


class Setting(Struct, frozen=True):
    """``name`` in a spec and among a run's inputs; ``key`` in the detail log; ``conf_name`` in a user.conf, if it
    differs.

    ``modes``: modes whose runs take it from a spec; none if only the round or the harness sets it. ``ruled``: the round
    fixes it for both modes. ``default``: LoadGen's value if no file sets it. ``since``: the first release that reads it
    from a user.conf or, if the round fixes it, from mlperf.conf; older ones ignore the line.
    """

    name: str
    unit: Unit
    key: str
    scenarios: tuple[str, ...] = _ALL
    conf_name: str = ""
    modes: tuple[str, ...] = ()
    ruled: bool = False
    default: Any = None
    since: str = ""

    @property
    def conf_key(self) -> str:
        return self.conf_name or self.name


_DECLARED, _COUNTS = (PERFORMANCE,), (PERFORMANCE, ACCURACY)

# In user.conf order. min_query_count is compared as requested: LoadGen sets the effective one to 1 in Offline and pads
# it for equal issue.
SETTINGS = (
    Setting(keys.TARGET_QPS, Unit.RATE, keys.EFFECTIVE_TARGET_QPS, ("Server", "Offline"), modes=_DECLARED),
    Setting(
        keys.TARGET_LATENCY,
        Unit.MS,
        keys.REQUESTED_SINGLE_STREAM_EXPECTED_LATENCY_NS,
        ("SingleStream",),
        modes=_DECLARED,
    ),
    Setting(
        keys.TARGET_LATENCY, Unit.MS, keys.REQUESTED_MULTI_STREAM_EXPECTED_LATENCY_NS, ("MultiStream",), modes=_DECLARED
    ),
    Setting(keys.TARGET_LATENCY, Unit.WHOLE_MS, keys.EFFECTIVE_TARGET_LATENCY_NS, ("Server",), modes=_DECLARED),
    Setting(
        keys.TARGET_LATENCY_PERCENTILE,
        Unit.PERCENT,
        keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE,
        (*keys.STREAMS, "Server"),
        ruled=True,
    ),
    Setting(keys.SAMPLES_PER_QUERY, Unit.COUNT, keys.EFFECTIVE_SAMPLES_PER_QUERY, ("MultiStream",), ruled=True),
    Setting("coalesce_queries", Unit.FLAG, keys.REQUESTED_SERVER_COALESCE_QUERIES, ("Server",)),
    Setting("max_async_queries", Unit.COUNT, keys.EFFECTIVE_MAX_ASYNC_QUERIES, ("Server",)),
    Setting("ttft_latency", Unit.WHOLE_MS, keys.REQUESTED_SERVER_TTFT_LATENCY, ("Server",), ruled=True, since="4.0"),
    Setting("tpot_latency", Unit.WHOLE_MS, keys.REQUESTED_SERVER_TPOT_LATENCY, ("Server",), ruled=True, since="4.0"),
    Setting(
        "use_token_latencies", Unit.FLAG, keys.REQUESTED_USE_TOKEN_LATENCIES, ruled=True, default=False, since="4.0"
    ),
    Setting(
        "sample_concatenate_permutation",
        Unit.FLAG,
        keys.EFFECTIVE_SAMPLE_CONCATENATE_PERMUTATION,
        ruled=True,
        default=False,
    ),
    Setting(keys.MIN_DURATION, Unit.COUNT, keys.EFFECTIVE_MIN_DURATION_MS, modes=_DECLARED),
    Setting(keys.MAX_DURATION, Unit.COUNT, keys.EFFECTIVE_MAX_DURATION_MS, modes=_DECLARED),
    Setting(keys.MIN_QUERY_COUNT, Unit.COUNT, keys.REQUESTED_MIN_QUERY_COUNT, modes=_DECLARED, default=100),
    Setting(keys.MAX_QUERY_COUNT, Unit.COUNT, keys.EFFECTIVE_MAX_QUERY_COUNT, modes=_DECLARED),
    Setting(
        keys.PERFORMANCE_SAMPLE_COUNT,
        Unit.OVERRIDE,
        keys.EFFECTIVE_PERFORMANCE_SAMPLE_COUNT,
        conf_name="performance_sample_count_override",
        modes=_COUNTS,
        default=0,
    ),
    Setting(
        keys.ACCURACY_SAMPLE_COUNT,
        Unit.OVERRIDE,
        keys.EFFECTIVE_ACCURACY_SAMPLE_COUNT,
        conf_name="accuracy_sample_count_override",
        modes=(ACCURACY,),
        default=0,
        since="6.0.6",
    ),
)
# Round → a release of mlcommons-loadgen whose built-in mlperf.conf has the round's seeds and everything that the round
# takes from it: before 6.0.10, v6.0's has no wan-2.2-t2v-a14b, and no equal issue for gpt-oss-120b-interactive. Up to
# 5.0.5 an audit.config is read as if it were a second user.conf, which logs an ERROR and samples no answers.
RELEASES: Mapping[str, str] = {"v4.1": "5.0.7", "v5.0": "5.0.18", "v5.1": "5.1.2", "v6.0": "6.0.10", "v6.1": "6.0.17"}
# The first and the last release whose built-in configuration makes LoadGen treat an audit.config as a second user.conf,
# which is an ERROR in the log and prevents sampling of answers.
AUDIT_UNREAD = ("4.1.8", "5.0.5")
# Values that a round fixes and no user.conf states: the model's name in LoadGen's built-in configuration, and the seeds
# in that configuration.
BUILT_IN = ("model_key", *keys.SEEDS)
# Names under which a spec states settings of a run, and names of those that the round fixes, in user.conf order.
DECLARED = tuple(dict.fromkeys(setting.name for setting in SETTINGS if setting.modes))
RULED = tuple(dict.fromkeys(setting.name for setting in SETTINGS if setting.ruled))
# Settings by which a submitter states the system's speed, and settings that limit a run's length, in ms.
TARGETS = (keys.TARGET_QPS, keys.TARGET_LATENCY)
DURATIONS = (keys.MIN_DURATION, keys.MAX_DURATION)


def name_loadgen_scenario(scenario: str) -> str:
    """Return the name in LoadGen's enum, in ``user.conf`` and in the logs (``effective_scenario``)."""
    return _LOADGEN_NAME.get(scenario, scenario)


@functools.cache
def find_settings(scenario: str) -> tuple[Setting, ...]:
    """Find the settings that apply to a scenario; Interactive has those of Server."""
    name = name_loadgen_scenario(scenario)
    return tuple(setting for setting in SETTINGS if name in setting.scenarios)


@functools.cache
def find_setting(name: str, scenario: str) -> Setting | None:
    """Find a setting by its spec name; None if it does not apply to the scenario."""
    return next((setting for setting in find_settings(scenario) if setting.name == name), None)


def find_target(scenario: str) -> Setting | None:
    """Find the setting by which a submitter states the system's speed: a rate, or an expected latency."""
    return next((found for name in TARGETS if (found := find_setting(name, scenario))), None)


def list_settings(mode: str, scenario: str) -> tuple[str, ...]:
    """List the names of the settings that a run of this mode and scenario reads from a spec."""
    return tuple(setting.name for setting in find_settings(scenario) if mode in setting.modes)


def list_ruled(scenario: str) -> tuple[str, ...]:
    """List the names of the settings that the round fixes for this scenario, in either mode."""
    return (*BUILT_IN, *(setting.name for setting in find_settings(scenario) if setting.ruled))


def read_min_duration(inputs: Mapping[str, object]) -> int:
    """Return the minimum duration of a performance run in ms; 0 if it has none."""
    return int(str(inputs.get(keys.MIN_DURATION) or 0))


def select_conf_settings(settings: Mapping[str, Any], mode: str, scenario: str) -> dict[str, Any]:
    """Select the settings that a run's user.conf states; the round's own are in LoadGen's built-in configuration."""
    return {name: settings[name] for name in list_settings(mode, scenario) if settings.get(name) is not None}
