"""From a log back to the settings that a spec would state for it; a ``user.conf`` held against the log beside it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from reconciler.mlperf.contradictions import Asked, find_contradictions, round_to_six_digits
from reconciler.mlperf.log import DetailLog
from reconciler.mlperf.scenarios import name_loadgen_scenario
from reconciler.mlperf.user_conf import CONF_KEYS, ConfKey, list_conf_keys
from reconciler.mlperf.user_conf_reading import ConfValue, UserConf, parse_user_conf
from reconciler.resource.canonical import show_decimal

_NANOSECONDS = 1_000_000  # in a millisecond
_LATENCIES = {
    "SingleStream": "requested_single_stream_expected_latency_ns",
    "MultiStream": "requested_multi_stream_expected_latency_ns",
    "Server": "effective_target_latency_ns",
}
_KEYS: Mapping[str, str] = {
    "min_duration": "effective_min_duration_ms",
    "max_duration": "effective_max_duration_ms",
    "min_query_count": "requested_min_query_count",
    "max_query_count": "effective_max_query_count",
    "performance_sample_count": "effective_performance_sample_count",
}


def read_logged_settings(log: DetailLog, conf: UserConf | None = None, model_key: str = "*") -> dict[str, Any]:
    """What a spec must say so that a run with this log is the one it asks for: times in ms, latencies in ns, rates as
    decimal text. LoadGen logs rates with six digits: ``conf`` supplies the others where it agrees."""
    scenario = log.scenario
    found: dict[str, Any] = {name: int(log.get(key)) for name, key in _KEYS.items() if log.get(key) is not None}
    if (key := _LATENCIES.get(scenario)) and log.get(key) is not None:
        found["target_latency"] = int(Decimal(log.get(key)))
    if scenario in ("Server", "Offline") and (rate := log.effective("target_qps")) is not None:
        found["target_qps"] = show_decimal(Decimal(rate))
        exact = read_conf_settings(conf, model_key, scenario).get("target_qps") if conf else None
        if exact is not None and round_to_six_digits(Decimal(exact)) == round_to_six_digits(Decimal(rate)):
            found["target_qps"] = exact
    # Zero is LoadGen's word for no bound.
    return {name: value for name, value in found.items() if value != 0 or name == "min_duration"}


def read_conf_settings(conf: UserConf, model_key: str, scenario: str) -> dict[str, Any]:
    """The settings that a user.conf gives a run, under the names and units of a spec."""
    found = {}
    for key in list_conf_keys(scenario):
        value = conf.effective(model_key, name_loadgen_scenario(scenario), key.name)
        if value is not None:
            found[key.setting] = _value(key, value)
    return found


def find_conf_contradictions(data: bytes, log: DetailLog, model_key: str, scenario: str) -> list[str]:
    """Where a user.conf and the log beside it differ; empty when the log may be of a run with this conf."""
    conf = parse_user_conf(data)
    if conf.rejected:
        return ["LoadGen rejects the file"]
    mode = {"AccuracyOnly": "accuracy"}.get(log.mode, "performance")
    names = {key.setting for key in CONF_KEYS}
    found = find_contradictions(log, Asked(scenario, mode, read_conf_settings(conf, model_key, scenario), {}))
    return [str(item) for item in found if item.field in names]


def _value(key: ConfKey, value: ConfValue) -> Any:
    if key.unit == "decimal":
        return show_decimal(value.decimal)
    if key.unit == "ms":
        return int(value.decimal * _NANOSECONDS)
    if key.unit == "whole ms":
        return value.integer * _NANOSECONDS
    return bool(value.integer) if key.unit == "flag" else value.integer
