"""Settings and counts that LoadGen takes over under another name, and its own version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from reconciler.loadgen import keys
from reconciler.loadgen.inconsistency import (
    CLOCK_KEPT,
    LOADGEN,
    SECOND,
    Inconsistency,
    is_wrapped,
    read_number,
    show_value,
)
from reconciler.loadgen.log import DetailLog
from reconciler.resource.rules import rule

_PERCENTILE = keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE
# Effective or counted, and the request or setting that it is taken from (``TestSettingsInternal``).
_TAKEN = {
    "SingleStream": (
        (_PERCENTILE, keys.REQUESTED_SINGLE_STREAM_TARGET_LATENCY_PERCENTILE),
        (keys.GENERATED_SAMPLES_PER_QUERY, keys.EFFECTIVE_SAMPLES_PER_QUERY),
    ),
    "MultiStream": (
        (_PERCENTILE, keys.REQUESTED_MULTI_STREAM_TARGET_LATENCY_PERCENTILE),
        (keys.EFFECTIVE_SAMPLES_PER_QUERY, keys.REQUESTED_MULTI_STREAM_SAMPLES_PER_QUERY),
        (keys.GENERATED_SAMPLES_PER_QUERY, keys.EFFECTIVE_SAMPLES_PER_QUERY),
    ),
    "Server": (
        (_PERCENTILE, keys.REQUESTED_SERVER_TARGET_LATENCY_PERCENTILE),
        (keys.EFFECTIVE_TARGET_LATENCY_NS, keys.REQUESTED_SERVER_TARGET_LATENCY_NS),
        (keys.EFFECTIVE_TARGET_QPS, keys.REQUESTED_SERVER_TARGET_QPS),
        (keys.GENERATED_SAMPLES_PER_QUERY, keys.EFFECTIVE_SAMPLES_PER_QUERY),
    ),
    "Offline": ((keys.EFFECTIVE_TARGET_QPS, keys.REQUESTED_OFFLINE_EXPECTED_QPS),),
}
_SINGLE = {
    "SingleStream": keys.EFFECTIVE_SAMPLES_PER_QUERY,
    "Server": keys.EFFECTIVE_SAMPLES_PER_QUERY,
    "Offline": keys.RESULT_QUERY_COUNT,  # one query holds all samples
}
_OVERHEAD = Decimal("1.001")  # two clocks
_HASH = 7  # digits of a commit at least
_SOURCES, _NUMBERED, _LINE_ENDS = keys.LOADGEN_FILE_SHA1, "/VERSION.txt", (b"\n", b"", b"\r\n")


@rule("log.derived-settings", "settings that LoadGen derives", sources=LOADGEN)
def find_wrong_derivations(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen derives settings of a performance run from others (``TestSettingsInternal``, test_settings_internal.cc;
    ``GenerateQueries``, loadgen.cc)."""
    for key, source in _TAKEN.get(log.scenario, ()):
        taken, asked = read_number(log, key), read_number(log, source)
        if taken is not None and asked is not None and taken != asked:
            yield Inconsistency(
                key, f"{taken:f}", f"{source} is {asked:f}", log.find_line_number(key), log.find_line_number(source)
            )
    single = _SINGLE.get(log.scenario, "")
    count = read_number(log, single)
    if count is not None and count != 1:
        yield Inconsistency(single, f"{count:f}", f"it is 1 in {log.scenario}", log.find_line_number(single))
    if log.scenario == "SingleStream":
        yield from _find_wrong_rate(log)


def _find_wrong_rate(log: DetailLog) -> Iterator[Inconsistency]:
    """The rate with LoadGen's own time is that of all queries but the last, up to whose issue the others were answered
    (``qps_w_lg`` of ``LogDetail``, results.cc; ``IssueQueriesInternal``, issue_query_controller.cc). The last one may
    have taken the longest."""
    gross, mean = keys.RESULT_QPS_WITH_LOADGEN_OVERHEAD, keys.RESULT_MEAN_LATENCY_NS
    rate, count = read_number(log, gross), read_number(log, keys.RESULT_QUERY_COUNT)
    average, slowest = read_number(log, mean), read_number(log, keys.RESULT_MAX_LATENCY_NS)
    if rate is None or count is None or average is None or slowest is None or count * average <= slowest:
        return
    if is_wrapped(log, average):
        return
    most = (count - 1) * SECOND / (count * average - slowest)
    if rate > most * _OVERHEAD:
        why = f"{count:f} queries of {average:f} ns are {most:.6g} at most"
        yield Inconsistency(gross, f"{rate:f}", why, log.find_line_number(gross), log.find_line_number(mean))


@rule("log.release", "one commit of LoadGen", sources=LOADGEN)
def find_wrong_release(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen is built from the commit that it names twice: both are of one git in one run of its build
    (``generate_loadgen_version_definitions_git``, version_generator.py). When its commit was made and when it was
    built, two machines say: a doubt."""
    version, message = log.find_line(keys.LOADGEN_VERSION), log.find_line(keys.LOADGEN_GIT_LOG_MESSAGE)
    if version is not None and message is not None:
        commit, head = str(version.value).partition("@")[2].strip(), str(message.value).strip()[:40]
        if len(commit) >= _HASH and _is_hash(commit) and _is_hash(head) and not head.startswith(commit):
            derived = f"its sources were at {head[:12]}"
            yield Inconsistency(keys.LOADGEN_VERSION, show_value(version), derived, version.line, message.line)
    made, built = log.find_line(keys.LOADGEN_GIT_COMMIT_DATE), log.find_line(keys.LOADGEN_BUILD_DATE_UTC)
    if made is None or built is None:
        return
    try:
        dates = [datetime.fromisoformat(str(entry.value)).replace(tzinfo=None) for entry in (made, built)]
    except ValueError:
        return
    if (dates[0] - dates[1]).days >= 1:
        derived = f"it was built on {dates[1]:%Y-%m-%d}"
        yield Inconsistency(keys.LOADGEN_GIT_COMMIT_DATE, show_value(made), derived, made.line, built.line, CLOCK_KEPT)


@rule("log.version", "the version of the logged sources", sources=LOADGEN)
def find_wrong_version(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen's number is that of its VERSION.txt, whose SHA-1 is logged with those of the other sources
    (``generate_loadgen_version_definitions_sha1``, version_generator.py): that of the number and one line end."""
    version, sources = log.find_line(keys.LOADGEN_VERSION), log.find_line(_SOURCES)
    digest = sources.value.get(_NUMBERED) if sources is not None and isinstance(sources.value, dict) else None
    if version is None or sources is None or not isinstance(digest, str) or not isinstance(version.value, str):
        return
    number = version.value.partition("@")[0].strip().encode()
    if digest not in {hashlib.sha1(number + end, usedforsecurity=False).hexdigest() for end in _LINE_ENDS}:
        derived = f"{_NUMBERED.lstrip('/')} of its sources states another"
        yield Inconsistency(keys.LOADGEN_VERSION, show_value(version), derived, version.line, sources.line)


def _is_hash(text: str) -> bool:
    return bool(text) and not text.strip("0123456789abcdef")
