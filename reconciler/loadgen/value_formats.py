"""Type and form of each value, as LoadGen writes them for its key. A comparison would accept a count with a fraction, a
setting in quotes or an invalid time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.loadgen.inconsistency import CLOCK_KEPT, LOADGEN, Inconsistency, show_value
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.log_line import STRING, compile_line
from reconciler.resource.quantities import is_whole
from reconciler.resource.rules import rule


class _Kind(Struct, frozen=True):
    """``form``: how LoadGen writes a value of this kind."""

    words: str
    form: re.Pattern[bytes]


_INTEGER = rb"(?:0|[1-9][0-9]{0,99}+)"
_FLAG, _TEXT = _Kind("true or false", compile_line(rb"(?:true|false)")), _Kind("a text", compile_line(STRING))
_NUMBER = _Kind("a number of at least 0", compile_line(_INTEGER + rb"(?:\.[0-9]{1,99}+)?+(?:[eE][+-]?+[0-9]{1,2}+)?+"))
_WHOLE = _Kind("a whole number of at least 0", compile_line(_INTEGER))
_EITHER = r"(?:effective|requested)_"
# The first pattern that matches a key applies; other keys may have any value.
_KINDS = (
    (_FLAG, r"(?:result_\w+|early_stopping)_met"),
    (_FLAG, _EITHER + r"(?:performance_issue_(?:same|unique)|print_timestamps|sample_concatenate_permutation)"),
    (_FLAG, _EITHER + r"(?:use_token_latencies|server_coalesce_queries)"),
    (_TEXT, r"result_validity|power_(?:begin|end)|test_datetime"),
    (_NUMBER, r"result_\w*(?:_per_sec(?:ond)?|_overhead|token_throughput)"),
    (_NUMBER, _EITHER + r"\w*(?:_qps|_expected_latency_ns|target_latency_percentile|accuracy_log_probability)"),
    (_WHOLE, r"result_\S*(?:_ns|_count|time_to_output_token_(?:min|max|mean))"),
    (_WHOLE, _EITHER + r"\w*(?:_seed|_ms|_ns|_count|_override|_index|_queries|_per_query|_sampling_target)"),
    (_WHOLE, _EITHER + r"server_t[tp][fo]t_latency"),
    (_WHOLE, r"generated_(?:query_count|samples_per_query|query_duration)|qsl_reported_\w+_count|num_errors"),
    (_WHOLE, r"early_stopping_latency_[sm]s"),
)
_SHAPES = tuple((kind, re.compile(shape, re.ASCII)) for kind, shape in _KINDS)
# Before release 3, some builds write counts among the results in quotes, because they use another type than other
# builds.
_RESULT, _COUNT, _FIRST_PLAIN = "result_", "_count", 3
_CLOCKS = (keys.POWER_BEGIN, keys.POWER_END)
# LoadGen takes latencies from a clock that the machine may set (``std::chrono::high_resolution_clock``). If it was set
# back during the run, the lowest latencies are below 0. Seven published logs of v2.1 show this, by 0.3 to 1.3 s.
_LEAST = frozenset({keys.RESULT_MIN_QUERY_LATENCY_NS, keys.RESULT_MIN_LATENCY_NS})


@functools.lru_cache(maxsize=4096)
def _find_kind(key: str) -> _Kind | None:
    return next((kind for kind, shape in _SHAPES if shape.fullmatch(key)), None)


@rule("log.notation", "values in LoadGen's notation", sources=LOADGEN)
def find_wrong_notation(log: DetailLog) -> Iterator[Inconsistency]:
    """The types are those of ``TestSettings`` (test_settings.h) and ``PerformanceSummary`` (results.h), written by
    ``ArgValueTransform`` (logging.cc:96 at v5.1.1). A latency below 0 is a doubt."""
    found = ((line, _find_kind(line.key)) for line in log.index.values())
    unlike = {line.key: (line, kind) for line, kind in found if kind and kind.form.fullmatch(line.text) is None}
    for key, (entry, kind) in unlike.items():
        if words := _describe_form(log, key, kind, entry.value):
            item = Inconsistency(key, show_value(entry), f"LoadGen writes {words}", entry.line)
            yield replace(item, premise=CLOCK_KEPT) if may_be_set_back(item) else item
    if log.release >= keys.FIRST_KNOWN_RELEASE:
        yield from _find_wrong_times(log, unlike)


def may_be_set_back(item: Inconsistency) -> bool:
    """Return True if a clock that was set back during an honest run explains the value."""
    return item.key in _LEAST and item.stated.startswith("-")


def _describe_form(log: DetailLog, key: str, kind: _Kind, value: Any) -> str:
    """Describe how LoadGen writes such a value; "" if an older release may have written this line."""
    if log.release >= keys.FIRST_KNOWN_RELEASE:
        return "its line otherwise" if _fits(kind, value) else kind.words
    if not key.startswith(_RESULT) or kind not in (_NUMBER, _WHOLE) or _fits(_NUMBER, value):
        return ""
    if key.endswith(_COUNT) and log.release < _FIRST_PLAIN and isinstance(value, str) and value.isdecimal():
        return ""
    return _NUMBER.words


def _fits(kind: _Kind, value: Any) -> bool:
    if kind is _FLAG:
        return isinstance(value, bool)
    if kind is _TEXT:
        return isinstance(value, str)
    return (is_whole(value) or (kind is _NUMBER and isinstance(value, Decimal))) and value >= 0


def _find_wrong_times(log: DetailLog, unlike: Container[str]) -> Iterator[Inconsistency]:
    for key, counted in zip(_CLOCKS, (log.index.began_at, log.index.ended_at), strict=True):
        entry = log.find_line(key)
        if entry is None or not isinstance(entry.value, str):
            continue
        if not _is_time(log, key):
            yield Inconsistency(key, show_value(entry), "LoadGen writes a time", entry.line)
        elif counted is None and key not in unlike:
            yield Inconsistency(key, show_value(entry), "LoadGen writes the time of its logger with it", entry.line)


def _is_time(log: DetailLog, key: str) -> bool:
    try:
        return (log.started if key == _CLOCKS[0] else log.ended) is not None
    except LogError:
        return False
