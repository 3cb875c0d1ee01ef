"""Rules for the internal consistency of a detail log. LoadGen derives counts, rates, flags and its verdict from other
numbers that it logs, so a manually changed line contradicts others.

Each check derives a value as LoadGen does, and its docstring names LoadGen's function (at v5.1.1), which makes it an
invariant. Checks allow for LoadGen's rounding: six significant digits for doubles, milliseconds for clocks. Dates, time
zones and file write times depend on the machine, so they cause doubts at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen import keys
from reconciler.loadgen.answers import count_padding, summarize_loaded
from reconciler.loadgen.derivations import (
    find_wrong_derivations,
    find_wrong_order,
    find_wrong_ranks,
    find_wrong_rates,
    find_wrong_release,
    find_wrong_tokens,
    find_wrong_version,
)
from reconciler.loadgen.early_stopping import compute_allowed_over, is_allowed_over
from reconciler.loadgen.inconsistency import (
    CLOCK,
    CLOCK_KEPT,
    DRIFT,
    ENDING,
    LOADGEN,
    SECOND,
    Inconsistency,
    contradict,
    is_wrapped,
    read_integer,
    read_longest_seconds,
    read_number,
    show_value,
)
from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.settings import ACCURACY, LOADGEN_MODE, PERFORMANCE
from reconciler.loadgen.value_formats import find_wrong_notation
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Rule, rule

# All lines of a log come from one process, and LoadGen's logger takes the time of its results once, after the run. So
# an invented line, or one copied from another log, is detected even if its value fits.

_STAMP = re.compile(
    rb'(?P<stamp>, "time_ms": (?P<time>[\d.]+), "namespace": "(?P<namespace>[^"\\]*+)",).*?'
    rb'(?P<source>"file": "(?P<file>[^"\\]*+)",)'
)
_WORDS = {"time": "ms of LoadGen's logger", "namespace": "as namespace", "file": "as LoadGen's source file"}


@rule("log.one-run", "lines of one run", sources=LOADGEN)
def find_foreign_lines(log: DetailLog) -> Iterator[Inconsistency]:
    """``RunPerformanceMode`` (loadgen.cc:928 at v5.1.1) logs all results in one entry, and ``LogDetail`` stamps the
    entry once with a time. ``TlsLogger`` (logging.cc:1131) reads the process number once."""
    yield from _find_other_process(log)
    first, stamps = None, (b"", b"")
    for entry in log.index.values():
        if entry.key.startswith("result_") and (
            first is None or stamps[0] not in entry.text or stamps[1] not in entry.text
        ):
            found = _STAMP.search(entry.text)
            if found is not None and first is None:
                first, stamps = (found, entry.line), (found["stamp"], found["source"])
            elif found is not None and first is not None:
                yield from _compare(entry.key, entry.line, found, *first)


def _find_other_process(log: DetailLog) -> Iterator[Inconsistency]:
    writers = [entry.process for entry in log.lines if entry.process]
    if len(set(writers)) <= 1:
        return
    for entry in log.index.values():
        if entry.process and entry.process != writers[0]:
            stated = f"written by process {entry.process[:20]}"
            yield Inconsistency(entry.key, stated, f"process {writers[0][:20]} wrote the log", entry.line)


def _compare(
    key: str, line: int, found: re.Match[bytes], first: re.Match[bytes], first_line: int
) -> Iterator[Inconsistency]:
    for name, words in _WORDS.items():
        if found[name] != first[name]:
            stated, derived = (match[name].decode(errors="replace")[:40] for match in (found, first))
            yield Inconsistency(key, f"{stated} {words}", f"another of its results has {derived}", line, first_line)


# Lines that LoadGen writes in every run, or in every run of a kind. If one is missing, a contradiction with it cannot
# be detected.

_KNOWN = range(keys.FIRST_KNOWN_RELEASE, 7)  # LoadGen releases whose sources were read: a later one may omit a line
_RELEASE = re.compile(r"\d*\.\d", re.ASCII)  # prefix of their versions; the first ones begin with ".5a1"


@rule("log.missing-keys", "keys that LoadGen always logs", sources=LOADGEN)
def find_missing_keys(log: DetailLog) -> Iterator[Inconsistency]:
    """``StartTest``, ``LoadSamplesToRam`` and ``IssueQueries`` (loadgen.cc), ``LogRequestedTestSettings`` and
    ``LogEffectiveSettings`` (test_settings_internal.cc), ``LogLoadgenVersion`` (version.cc) and
    ``PerformanceSummary::LogDetail`` (results.cc) log these keys unconditionally, for the scenarios listed here."""
    yield from _find_missing_version(log)
    if log.release in _KNOWN:
        timed, tokens = log.mode == LOADGEN_MODE[PERFORMANCE], log.get(keys.REQUESTED_USE_TOKEN_LATENCIES) is True
        for key in keys.list_required(log.scenario, timed=timed, tokens=tokens):
            if key not in log.index:
                yield Inconsistency(key, "absent", "LoadGen logs it of every such run", log.length)


def _find_missing_version(log: DetailLog) -> Iterator[Inconsistency]:
    """An old release's log may omit a line, but every log states a release."""
    version = log.find_line(keys.LOADGEN_VERSION)
    if version is None and log.index.structured:
        yield Inconsistency(keys.LOADGEN_VERSION, "absent", "LoadGen logs it of every run", log.length)
    elif version is not None and not _RELEASE.match(str(version.value)):
        yield contradict(log, keys.LOADGEN_VERSION, show_value(version), "LoadGen's begins with a release")


_ZONES = 26 * 3600  # seconds: the largest difference between two time zones
_MODES = {name: mode for mode, name in LOADGEN_MODE.items()}
_ESTIMATE = re.compile(r"(?P<rank>[\d.]+)th percentile estimate: (?P<value>\d+)", re.ASCII)
# Prefixes of keys that a run logs once; an accuracy run logs its clock and loaded samples for each part.
_ONCE = (
    *("effective_", "requested_", "qsl_reported_", "result_", "early_stopping_", "loadgen_"),
    *(keys.NUM_ERRORS, keys.TEST_DATETIME, keys.SUT_NAME, keys.QSL_NAME),
)
_ONCE_TIMED = (keys.POWER_BEGIN, keys.POWER_END, keys.LOADED_QSL_SET)
# Effective settings that LoadGen derives from several, and also logs as requested under the same name.
# The minimum is 1 in Offline, and padded to complete permutations for equal issue; the maximum is derived from
# performance_issue_unique and the sample count.
_DERIVED = frozenset({keys.MIN_QUERY_COUNT, keys.MAX_QUERY_COUNT})


def list_rules() -> tuple[Rule, ...]:
    """List all rules for a detail log, in the order in which they are applied."""
    return tuple(applied.rule for applied in (*_ANY, *_PERFORMANCE))


def find_inconsistencies(log: DetailLog, *, judge_library: bool = True) -> tuple[Inconsistency, ...]:
    """Return all contradictions within the log of a completed run, in a fixed order. ``judge_library``: include sample
    counts beyond the library; False if they are checked separately or allowed."""
    found = log.compute_once(_find_inconsistencies)
    return (*found, *find_small_library(log)) if judge_library else found


def _find_inconsistencies(log: DetailLog) -> tuple[Inconsistency, ...]:
    if not log.complete or log.mode not in LOADGEN_MODE.values():
        return ()
    rules = _ANY if log.mode == LOADGEN_MODE[ACCURACY] else (*_ANY, *_PERFORMANCE)
    return tuple(replace(item, rule=applied.rule.id) for applied in rules for item in applied(log))


@rule("log.repeated-keys", "keys that are logged once", sources=LOADGEN)
def _find_repeated_keys(log: DetailLog) -> Iterator[Inconsistency]:
    """Each of these keys is logged once: by ``LogRequestedTestSettings`` and ``LogEffectiveSettings``
    (test_settings_internal.cc), ``LogLoadgenVersion`` (version.cc), ``StartTest`` and ``IssueQueries`` (loadgen.cc), or
    ``PerformanceSummary::LogDetail`` (results.cc). Readers use the first line, although LoadGen wrote the second."""
    once = _ONCE + (_ONCE_TIMED if log.mode == LOADGEN_MODE[PERFORMANCE] else ())
    for entry in log.index.repeated:
        if entry.key.startswith(once):
            first, second = log.index[entry.key], f"a second line says {show_value(entry)}"
            yield Inconsistency(entry.key, show_value(first), second, first.line, entry.line)


@rule("log.requested-settings", "settings as they were requested", sources=LOADGEN)
def _find_wrong_settings(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen uses settings as requested, except the derived ones (the initialisers of ``TestSettingsInternal``,
    test_settings_internal.cc:27)."""
    for key, entry in log.index.items():
        name = key.removeprefix("effective_")
        asked = log.find_line(f"requested_{name}")
        if name == key or name in _DERIVED or asked is None:
            continue
        if asked.value != entry.value:
            yield contradict(log, key, show_value(entry), f"{show_value(asked)} was requested", asked.key)


@rule("log.dates", "dates in the order of the run", sources=LOADGEN)
def _find_wrong_dates(log: DetailLog) -> Iterator[Inconsistency]:
    """Dates depend on the machine, and some come from another clock than LoadGen's, so they only raise doubts, unless a
    date is invalid (``CurrentDateTimeISO8601`` in utils.cc, which ``StartTest`` in loadgen.cc logs at v5.1.1)."""
    dated = _parse_date(str(log.get(keys.TEST_DATETIME)).rstrip("Z"))
    if dated is None and keys.TEST_DATETIME in log.index and log.release >= keys.FIRST_KNOWN_RELEASE:
        stated = str(log.get(keys.TEST_DATETIME))
        yield contradict(log, keys.TEST_DATETIME, stated, "LoadGen writes a date")
    try:
        began, ended = log.started, log.ended
    except LogError:
        return
    begin, end = log.find_line_number(keys.POWER_BEGIN), log.find_line_number(keys.POWER_END)
    if began is not None and ended is not None and began > ended:
        yield _doubt(
            keys.POWER_BEGIN, str(log.get(keys.POWER_BEGIN)), f"power_end is {log.get('power_end')}", begin, end
        )
    built = _parse_date(log.get(keys.LOADGEN_BUILD_DATE_UTC))
    if built is not None and began is not None and (built - began.replace(tzinfo=None)).days >= 1:
        derived = f"LoadGen was built on {built:%Y-%m-%d}"
        other = log.find_line_number(keys.LOADGEN_BUILD_DATE_UTC)
        yield _doubt(keys.POWER_BEGIN, str(log.get(keys.POWER_BEGIN)), derived, begin, other)
    counted, stated = log.index.ended_at, str(log.get(keys.POWER_END))
    if counted is None or began is None or ended is None:
        return
    lasted, seconds = Decimal(str((ended - began).total_seconds())), counted / 1000
    if lasted > seconds + ENDING:
        derived = f"LoadGen's logger had run for {seconds:.6g} s, and not for {lasted:.6g} s"
        yield _doubt(keys.POWER_END, stated, derived, end, begin)
    if dated is not None:
        apart = Decimal(str((ended.replace(tzinfo=None) - dated).total_seconds())) - seconds
        if abs(apart) > _ZONES:
            derived = f"test_datetime is {log.get('test_datetime')}, and LoadGen's logger had run for {seconds:.6g} s"
            yield _doubt(keys.POWER_END, stated, derived, end, log.find_line_number(keys.TEST_DATETIME))


def _doubt(key: str, stated: str, derived: str, line: int, other: int) -> Inconsistency:
    return Inconsistency(key, stated, derived, line, other, CLOCK_KEPT)


@rule("log.loaded-samples", "loaded samples of the library", sources=LOADGEN)
def _find_wrong_samples(log: DetailLog) -> Iterator[Inconsistency]:
    """Loaded samples are in the library, and their number is the one that LoadGen states (``GenerateLoadableSets`` and
    ``LoadSamplesToRam``, loadgen.cc:604)."""
    total, mode = read_integer(log, keys.QSL_REPORTED_TOTAL_COUNT), _MODES[log.mode]
    key = f"effective_{mode}_sample_count"
    used = read_integer(log, key)
    if keys.LOADED_QSL_SET not in log.index or total is None or used is None:
        return
    loaded = summarize_loaded(log)
    wrong = loaded.greatest if loaded.greatest is not None and loaded.greatest >= total else loaded.negative
    if wrong is not None:
        yield contradict(log, keys.LOADED_QSL_SET, f"sample {wrong}", f"the library has {show_count(total, 'sample')}")
    if not min(used, total) <= loaded.different <= min(used, total) + count_padding(log):
        derived = f"{loaded.different} different samples were loaded"
        yield contradict(log, key, str(used), derived, keys.LOADED_QSL_SET)


@rule("log.sample-counts", "sample counts of the library", sources=LOADGEN)
def _find_wrong_sample_counts(log: DetailLog) -> Iterator[Inconsistency]:
    """LoadGen uses as many samples as the library reports, unless a setting overrides the number
    (``TestSettingsInternal``, test_settings_internal.cc)."""
    reports = {PERFORMANCE: keys.QSL_REPORTED_PERFORMANCE_COUNT, ACCURACY: keys.QSL_REPORTED_TOTAL_COUNT}
    for mode, reported in reports.items():
        key, override = f"effective_{mode}_sample_count", f"requested_{mode}_sample_count_override"
        used, asked = read_integer(log, key), read_integer(log, override)
        source = override if asked else reported
        wanted = read_integer(log, source)
        if None not in (used, asked, wanted) and used != wanted:
            yield contradict(log, key, str(used), f"{source} is {wanted}", source)


def find_small_library(log: DetailLog) -> Iterator[Inconsistency]:
    """Find a sample count beyond the library size in the log of a completed run. LoadGen accepts this
    (``GenerateLoadableSets`` uses the available samples). The rules do not, because they set the count to the dataset's
    size."""
    if not log.complete or log.mode not in _MODES:
        return
    total, key = read_integer(log, keys.QSL_REPORTED_TOTAL_COUNT), f"effective_{_MODES[log.mode]}_sample_count"
    used = read_integer(log, key)
    if total is not None and used is not None and used > total:
        derived = f"the library has {show_count(total, 'sample')}"
        yield contradict(log, key, str(used), derived, keys.QSL_REPORTED_TOTAL_COUNT)


@rule("log.error-count", "the number of ERROR lines", sources=LOADGEN)
def _find_wrong_error_count(log: DetailLog) -> Iterator[Inconsistency]:
    """``PerformanceSummary::LogDetail`` (results.cc:852) logs the number of errors; more errors may follow it."""
    stated, line = read_integer(log, keys.NUM_ERRORS), log.find_line_number(keys.NUM_ERRORS)
    counted = sum(1 for entry in log.errors if entry.line < line)
    if stated is not None and not counted <= stated <= len(log.errors):
        yield contradict(log, keys.NUM_ERRORS, str(stated), f"the log has {show_count(counted, 'ERROR line')}")


@rule("log.verdict", "a verdict that follows from its conditions", sources=LOADGEN)
def _find_wrong_verdict(log: DetailLog) -> Iterator[Inconsistency]:
    """VALID requires all of the conditions and no stated reason against it (``PerformanceSummary::LogDetail``,
    results.cc:671)."""
    if log.validity == "VALID":
        if failed := next((key for key in keys.CONDITIONS if log.get(key) is False), ""):
            yield contradict(log, keys.RESULT_VALIDITY, "VALID", f"{failed} is false", failed)
        if (reason := log.find_line(keys.RESULT_INVALID_REASON)) is not None:
            yield contradict(log, keys.RESULT_VALIDITY, "VALID", f"{reason.key} is {show_value(reason)}", reason.key)
    if log.validity == "INVALID" and all(log.get(key, True) is True for key in keys.CONDITIONS):
        yield contradict(log, keys.RESULT_VALIDITY, "INVALID", "every condition is met")


@rule("log.conditions", "conditions that follow from their numbers", sources=LOADGEN)
def _find_wrong_conditions(log: DetailLog) -> Iterator[Inconsistency]:
    """The flags follow from their numbers (``MinDurationMet``, ``MinQueriesMet`` and ``MinSamplesMet``, results.cc;
    ``GenerateQueries``, loadgen.cc)."""
    queries, least = read_integer(log, keys.RESULT_QUERY_COUNT), read_integer(log, keys.EFFECTIVE_MIN_QUERY_COUNT)
    if queries is not None and least is not None and log.get(keys.RESULT_MIN_QUERIES_MET) is True and queries < least:
        yield contradict(log, keys.RESULT_MIN_QUERIES_MET, "true", f"{queries} of {least} queries were issued")
    generated = read_integer(log, keys.GENERATED_QUERY_COUNT)
    if queries is not None and generated is not None and queries > generated:
        derived = f"{generated} queries were generated"
        yield contradict(log, keys.RESULT_QUERY_COUNT, str(queries), derived)
    if log.scenario == "Offline":
        issued = read_integer(log, keys.GENERATED_SAMPLES_PER_QUERY)
        wanted = read_integer(log, keys.EFFECTIVE_MIN_SAMPLE_COUNT)
        short = issued is not None and wanted is not None and issued < wanted
        met = log.get(keys.RESULT_MIN_QUERIES_MET) is True
        if short and met and not log.get(keys.EFFECTIVE_PERFORMANCE_ISSUE_UNIQUE):
            yield contradict(log, keys.RESULT_MIN_QUERIES_MET, "true", f"{issued} of {wanted} samples were issued")
    lasted, minimum = _find_last_issue(log), read_number(log, keys.EFFECTIVE_MIN_DURATION_MS)
    if lasted is not None and minimum is not None and log.get(keys.RESULT_MIN_DURATION_MET) is True:
        needed = minimum / 1000
        if lasted + CLOCK + needed * DRIFT < needed:
            derived = f"the run lasted {lasted:.6g} s of {needed:.6g} s"
            yield contradict(log, keys.RESULT_MIN_DURATION_MET, "true", derived)


def _find_last_issue(log: DetailLog) -> Decimal | None:
    """Return an upper bound of the last query's issue time in seconds, which LoadGen compares with the minimum
    duration. A run ends later, with a completion."""
    if log.scenario == "Offline":
        slowest = read_number(log, keys.RESULT_MAX_LATENCY_NS)
        return None if slowest is None else slowest / SECOND
    return read_longest_seconds(log)


@rule("log.early-stopping", "early stopping that follows from the counts", sources=LOADGEN)
def _find_wrong_early_stopping(log: DetailLog) -> Iterator[Inconsistency]:
    """The flag follows from LoadGen's own text and from the counts (``PerformanceSummary::EarlyStopping``, results.cc;
    ``MinPassingQueriesFinder``, early_stopping.cc)."""
    entry = log.find_line(keys.EARLY_STOPPING_RESULT)
    text = str(entry.value) if entry is not None else ""
    met = log.find_line(keys.EARLY_STOPPING_MET)
    if entry is not None and met is not None and met.value is True and "unsuccessful" in text.lower():
        yield contradict(log, keys.EARLY_STOPPING_MET, "true", f"{entry.key} is {show_value(entry)}", entry.key)
    queries, over = read_integer(log, keys.RESULT_QUERY_COUNT), read_integer(log, keys.RESULT_OVERLATENCY_QUERY_COUNT)
    percentile = read_number(log, keys.EFFECTIVE_TARGET_LATENCY_PERCENTILE)
    if log.scenario != "Server" or None in (queries, over, percentile) or log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):
        return
    if queries and met is not None and met.value is True and 0 < Decimal(percentile or 0) < 1:
        wanted = Decimal(percentile or 0) * 100
        if not is_allowed_over(over or 0, queries, wanted):
            allowed = compute_allowed_over(queries, wanted)
            derived = f"{over} of {queries} queries were over the latency, and {max(allowed, 0)} are allowed"
            yield contradict(log, keys.EARLY_STOPPING_MET, "true", derived, keys.RESULT_OVERLATENCY_QUERY_COUNT)


@rule("log.estimates", "one estimate of early stopping", sources=LOADGEN)
def _find_wrong_estimates(log: DetailLog) -> Iterator[Inconsistency]:
    """The streams' metric is an estimate, which the early stopping text states as well
    (``PerformanceSummary::EarlyStopping``, results.cc)."""
    entry = log.find_line(keys.EARLY_STOPPING_RESULT)
    if entry is None or log.scenario not in keys.STREAMS or log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):
        return
    stated = {found["rank"]: int(found["value"]) for found in _ESTIMATE.finditer(str(entry.value))}
    for rank, key in (("90.0", keys.EARLY_STOPPING_LATENCY_SS), ("99.0", keys.EARLY_STOPPING_LATENCY_MS)):
        found = read_number(log, key)
        if found is not None and rank in stated and Decimal(stated[rank]) != found:
            derived = f"early stopping estimates {stated[rank]}"
            yield contradict(log, key, f"{found:f}", derived, keys.EARLY_STOPPING_RESULT)


@rule("log.latencies", "latencies in order", sources=LOADGEN)
def _find_wrong_latencies(log: DetailLog) -> Iterator[Inconsistency]:
    """Percentiles never decrease, and all latencies lie between the minimum and the maximum
    (``PerformanceSummary::ProcessLatencies``, results.cc:22, reads all of them from one sorted list)."""
    for part, ranked in (
        ("latency_ns", "_percentile_latency_ns"),
        ("query_latency_ns", "_percentile_per_query_latency_ns"),
    ):
        rising = [f"result_min_{part}", *(f"result_{p}{ranked}" for p in keys.PERCENTILES), f"result_max_{part}"]
        mean = f"result_mean_{part}"
        for item in find_wrong_order(log, rising, mean, "latencies"):
            if item.key != mean:
                yield item
            elif log.scenario != "Offline":  # releases before 5 lose the carry in Offline's sum
                wrapped = is_wrapped(log, read_number(log, mean) or Decimal(0))
                yield replace(item, premise=CLOCK_KEPT if wrapped else "")
    for key, rank, kind in _RANKED.get(log.scenario, ()):
        estimate, seen = read_number(log, key), read_number(log, f"result_{rank}_percentile_{kind}")
        slowest = read_number(log, f"result_max_{kind.removeprefix('per_')}")
        if not estimate or log.get(keys.REQUESTED_USE_TOKEN_LATENCIES):
            continue
        if seen is not None and estimate < seen:
            yield contradict(log, key, f"{estimate:f}", f"the {rank} percentile is {seen:f}")
        if slowest is not None and estimate > slowest:
            yield contradict(log, key, f"{estimate:f}", f"the slowest took {slowest:f}")


_RANKED = {
    "SingleStream": ((keys.EARLY_STOPPING_LATENCY_SS, "90.00", "latency_ns"),),
    "MultiStream": ((keys.EARLY_STOPPING_LATENCY_MS, "99.00", "per_query_latency_ns"),),
}


def _parse_date(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value)).replace(tzinfo=None)
    except ValueError:
        return None


_ANY = (
    _find_repeated_keys,
    find_missing_keys,
    find_wrong_notation,
    _find_wrong_settings,
    _find_wrong_dates,
    _find_wrong_sample_counts,
    _find_wrong_samples,
    find_foreign_lines,
    find_wrong_release,
    find_wrong_version,
)
_PERFORMANCE = (
    _find_wrong_error_count,
    _find_wrong_verdict,
    _find_wrong_conditions,
    _find_wrong_early_stopping,
    _find_wrong_estimates,
    _find_wrong_latencies,
    find_wrong_derivations,
    find_wrong_ranks,
    find_wrong_rates,
    find_wrong_tokens,
)
