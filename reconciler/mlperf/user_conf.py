"""Writes ``user.conf`` from resolved settings, so that LoadGen reads back exactly what was meant.

LoadGen's reader has traps, and the text written here avoids all of them: tokens are separated by blanks (``key=value``
is silently ignored), comments stand on their own lines and begin with "# " (an inline comment rejects the file),
integer keys get plain decimal integers ("1e3" would be read as 1). ``user_conf_reading.py`` reads any user.conf.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.mlperf.scenarios import name_loadgen_scenario
from reconciler.resource.canonical import show_decimal

_NANOSECONDS = 1_000_000  # in a millisecond, the unit of latencies in user.conf


@dataclass(frozen=True, slots=True)
class ConfKey:
    """A key of LoadGen's configuration.

    ``setting``: our name. ``unit``: how our value becomes text: "integer", "decimal", "flag", "whole ms" or "ms" (from
    integer nanoseconds). ``integer``: LoadGen reads it with strtoull, so that anything but digits is cut off.
    """

    name: str
    setting: str
    unit: str
    scenarios: tuple[str, ...]

    @property
    def integer(self) -> bool:
        return self.unit not in ("decimal", "ms")


_ALL = ("SingleStream", "MultiStream", "Server", "Offline")
_STREAMS = ("SingleStream", "MultiStream")

# In the order in which they are written. Keys that only audit settings or LoadGen's built-in conf carry are not here.
CONF_KEYS = (
    ConfKey("target_qps", "target_qps", "decimal", ("Server", "Offline")),
    ConfKey("target_latency", "target_latency", "ms", _STREAMS),
    ConfKey("target_latency", "target_latency", "whole ms", ("Server",)),
    ConfKey("target_latency_percentile", "target_latency_percentile", "decimal", (*_STREAMS, "Server")),
    ConfKey("samples_per_query", "samples_per_query", "integer", ("MultiStream",)),
    ConfKey("coalesce_queries", "coalesce_queries", "flag", ("Server",)),
    ConfKey("max_async_queries", "max_async_queries", "integer", ("Server",)),
    ConfKey("ttft_latency", "ttft_latency", "whole ms", ("Server",)),
    ConfKey("tpot_latency", "tpot_latency", "whole ms", ("Server",)),
    ConfKey("use_token_latencies", "use_token_latencies", "flag", _ALL),
    ConfKey("sample_concatenate_permutation", "sample_concatenate_permutation", "flag", _ALL),
    ConfKey("min_duration", "min_duration", "integer", _ALL),
    ConfKey("max_duration", "max_duration", "integer", _ALL),
    ConfKey("min_query_count", "min_query_count", "integer", _ALL),
    ConfKey("max_query_count", "max_query_count", "integer", _ALL),
    ConfKey("performance_sample_count_override", "performance_sample_count", "integer", _ALL),
    ConfKey("accuracy_sample_count_override", "accuracy_sample_count", "integer", _ALL),
)
_MAX = 2**64 - 1


@functools.cache
def list_conf_keys(scenario: str) -> tuple[ConfKey, ...]:
    """The keys that a scenario reads; Interactive reads those of Server."""
    name = name_loadgen_scenario(scenario)
    return tuple(key for key in CONF_KEYS if name in key.scenarios)


def setting_names(scenario: str) -> tuple[str, ...]:
    """The settings of a cell that reach LoadGen in a scenario; others (SingleStream's ``target_qps``) do nothing."""
    return tuple(key.setting for key in list_conf_keys(scenario))


def select_settings(scenario: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """From a cell's settings those that LoadGen reads in this scenario, as {conf key: text}, in a fixed order.

    Takes integers (counts, ms, ns), decimal text (rates, percent) and booleans; other settings are left out, and so is
    None. ReconcilerError when a value cannot be said in user.conf, as a Server latency of 0.5 ms.
    """
    texts: dict[str, str] = {}
    for key in list_conf_keys(scenario):
        value = settings.get(key.setting)
        if value is not None:
            texts[key.name] = _text(key, value)
    return texts


def write_user_conf(model_key: str, scenario: str, texts: Mapping[str, str], notes: Iterable[str] = ()) -> bytes:
    """The bytes of a user.conf: every key under the most specific name, so that no other line can win over it.

    ``model_key`` is LoadGen's (resnet50); ``texts`` comes from ``settings_for``; ``notes`` become comment lines.
    """
    lines = [f"# {' '.join(note.split())}".rstrip() for note in notes]
    lines += [f"{model_key}.{name_loadgen_scenario(scenario)}.{key} = {text}" for key, text in texts.items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _text(key: ConfKey, value: Any) -> str:
    if key.unit == "decimal":
        return _positive(key, Decimal(value))
    if key.unit == "ms":
        return _positive(key, Decimal(value) / _NANOSECONDS)
    if key.unit == "flag":
        return "1" if value else "0"
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX:
        raise ReconcilerError(f"{key.setting}: {value!r} is no whole number from 0 to 2^64 - 1")
    if key.unit != "whole ms":
        return str(value)
    if value % _NANOSECONDS:
        raise ReconcilerError(
            f"{key.setting}: {value} ns is no whole number of milliseconds, and LoadGen cuts the rest off",
            fix=f"write {-(-value // _NANOSECONDS)} ms",
        )
    return str(value // _NANOSECONDS)


def _positive(key: ConfKey, number: Decimal) -> str:
    if not number.is_finite() or number < 0:
        raise ReconcilerError(f"{key.setting}: {number} is no rate, latency or percentage")
    return show_decimal(number)
