"""What LoadGen derives of its settings and measures of its queries, against the lines that it is derived from."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.loadgen.derivations import find_wrong_derivations, find_wrong_release
from reconciler.loadgen.inconsistency import CLOCK_KEPT, Inconsistency
from reconciler.loadgen.log import DetailLog
from tests.unit.loadgen.test_contradictions import make_log

PERCENTILE, PER_QUERY = "effective_target_latency_percentile", "effective_samples_per_query"
TAKEN = (
    ("SingleStream", PERCENTILE, "requested_single_stream_target_latency_percentile"),
    ("MultiStream", PERCENTILE, "requested_multi_stream_target_latency_percentile"),
    ("Server", PERCENTILE, "requested_server_target_latency_percentile"),
    ("SingleStream", "generated_samples_per_query", PER_QUERY),
    ("MultiStream", "generated_samples_per_query", PER_QUERY),
    ("Server", "generated_samples_per_query", PER_QUERY),
    ("MultiStream", PER_QUERY, "requested_multi_stream_samples_per_query"),
    ("Server", "effective_target_latency_ns", "requested_server_target_latency_ns"),
    ("Server", "effective_target_qps", "requested_server_target_qps"),
    ("Offline", "effective_target_qps", "requested_offline_expected_qps"),
)


def log(scenario: str, **values: Any) -> DetailLog:
    return make_log("6.0 @ abc", effective_scenario=scenario, **values)


@pytest.mark.parametrize(("scenario", "key", "source"), TAKEN, ids="-".join)
def test_a_setting_is_the_one_that_was_asked_for(scenario: str, key: str, source: str) -> None:
    assert list(find_wrong_derivations(log(scenario, **{source: 1, key: 1}))) == []
    assert list(find_wrong_derivations(log(scenario, **{source: "many", key: 1}))) == []
    assert list(find_wrong_derivations(log(scenario, **{key: 1}))) == []
    wrong = log(scenario, **{source: 1, key: 2})
    assert Inconsistency(key, "2", f"{source} is 1", wrong.find_line_number(key), wrong.find_line_number(source)) in (
        *find_wrong_derivations(wrong),
    )
    elsewhere = {"SingleStream": "Offline", "Offline": "SingleStream"}.get(scenario, "Offline")
    assert not [item for item in find_wrong_derivations(log(elsewhere, **{source: 1, key: 2})) if item.other]


@pytest.mark.parametrize(
    ("scenario", "key"),
    [("SingleStream", PER_QUERY), ("Server", PER_QUERY), ("Offline", "result_query_count"), ("MultiStream", "")],
)
def test_what_is_one_in_a_scenario_is_one(scenario: str, key: str) -> None:
    for count in (0, 2):
        counted = log(scenario, **{PER_QUERY: count, "result_query_count": count})
        found = list(find_wrong_derivations(counted))
        assert found == (
            [Inconsistency(key, str(count), f"it is 1 in {scenario}", counted.find_line_number(key))] if key else []
        )
    assert list(find_wrong_derivations(log(scenario, **{PER_QUERY: 1, "result_query_count": 1}))) == []


RATE, MEAN = "result_qps_with_loadgen_overhead", "result_mean_latency_ns"
# 11 queries of 0.1 s, of which the slowest took 0.2 s: those before the last took 0.9 s at least.
MEASURED: dict[str, Any] = {
    RATE: 11.11,
    "result_query_count": 11,
    MEAN: 100_000_000,
    "result_max_latency_ns": 200_000_000,
}


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, ""),
        ({RATE: 11.12}, ""),
        ({RATE: 11.13}, "11.1111"),
        ({RATE: 12.6, "result_query_count": 6}, "12.5 "),
        ({RATE: 12.5, "result_query_count": 6}, ""),
        ({RATE: 10.01, "result_max_latency_ns": 100_000_000}, ""),  # a thousandth more than 10
        ({RATE: 10.0101, "result_max_latency_ns": 100_000_000}, "10"),
        ({RATE: 99, "result_max_latency_ns": 1_100_000_000}, ""),  # all that was measured was the slowest
        ({RATE: 99, MEAN: "long"}, ""),
        ({RATE: 99, "result_max_latency_ns": None}, ""),
        ({RATE: 99, "result_query_count": None}, ""),
        ({RATE: None}, ""),
    ],
    ids=str,
)
def test_a_rate_is_no_higher_than_the_latencies_allow(changes: dict[str, Any], most: str) -> None:
    values = {**MEASURED, **changes}
    single = log("SingleStream", **{name: value for name, value in values.items() if value is not None})
    why = f"{values['result_query_count']} queries of 100000000 ns are {most.strip()} at most"
    lines = single.find_line_number(RATE), single.find_line_number(MEAN)
    assert list(find_wrong_derivations(single)) == (
        [Inconsistency(RATE, str(values[RATE]), why, *lines)] if most else []
    )
    assert not list(find_wrong_derivations(log("Server", **{n: v for n, v in values.items() if v is not None})))


@pytest.mark.parametrize(
    ("version", "message", "wrong"),
    [
        ("6.0 @ abcdef1", "abcdef1234567890 subject", False),
        ("6.0 @ abcdef2", "abcdef1234567890 subject", True),
        ("6.0 @ abcdef", "1234567890 subject", False),  # too short to be one
        ("6.0 @ abcdefg", "abcdef1234567890 subject", False),
        ("6.0 @ abcdefX", "abcdef1234567890 subject", False),
        ("6.0", "abcdef1234567890 subject", False),
        ("6.0 @ abcdef2", "Merge abcdef", False),
        ("6.0 @ abcdef2", "", False),
    ],
)
def test_loadgen_is_of_the_commit_that_it_names_twice(version: str, message: str, wrong: bool) -> None:
    head = message.split(" ")[0] if message and not message.startswith("Merge") else message
    named = make_log(version, loadgen_git_log_message=head)
    found = list(find_wrong_release(named))
    lines = named.find_line_number("loadgen_version"), named.find_line_number("loadgen_git_log_message")
    reported = Inconsistency("loadgen_version", version, f"its sources were at {head[:12]}", *lines)
    assert found == ([reported] if wrong else [])


def test_a_message_begins_with_the_forty_digits_of_its_commit() -> None:
    for commit, wrong in (("abcdef1", False), ("abcdef2", True)):
        named = make_log(f"6.0 @ {commit}", loadgen_git_log_message=f" abcdef1{'0' * 33} a subject")
        derived = [item.derived for item in find_wrong_release(named)]
        assert derived == ["its sources were at abcdef100000"] * wrong
        longer = make_log(f"6.0 @ {commit}", loadgen_git_log_message=f"abcdef1{'0' * 34}")
        assert [item.derived for item in find_wrong_release(longer)] == derived


@pytest.mark.parametrize(
    ("made", "built", "wrong"),
    [
        ("2026-01-02T10:00:00Z", "2026-01-02T10:00:00", False),
        ("2026-01-03T09:59:59Z", "2026-01-02T10:00:00", False),
        ("2026-01-03T10:00:00Z", "2026-01-02T10:00:00", True),
        ("2025-01-03T10:00:00Z", "2026-01-02T10:00:00", False),
        ("today", "2026-01-02T10:00:00", False),
        ("2026-01-03T10:00:00Z", "yesterday", False),
    ],
)
def test_loadgen_is_built_no_earlier_than_its_commit_was_made(made: str, built: str, wrong: bool) -> None:
    dated = make_log("6.0", loadgen_git_commit_date=made, loadgen_build_date_utc=built)
    lines = dated.find_line_number("loadgen_git_commit_date"), dated.find_line_number("loadgen_build_date_utc")
    reported = Inconsistency("loadgen_git_commit_date", made, "it was built on 2026-01-02", *lines, CLOCK_KEPT)
    assert list(find_wrong_release(dated)) == ([reported] if wrong else [])
    assert list(find_wrong_release(make_log("6.0", loadgen_git_commit_date=made))) == []
