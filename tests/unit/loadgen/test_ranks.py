"""Estimates and counts of a log against its percentiles, where the log lacks what they follow from."""

from __future__ import annotations

import pytest

from reconciler.loadgen.derivations import find_wrong_ranks
from reconciler.loadgen.log import DetailLog
from tests.unit.tree.small_cells import parse_log


def log(scenario: str, **values: object) -> DetailLog:
    return parse_log({"effective_scenario": scenario, **values})


def wrong(scenario: str, **values: object) -> list[str]:
    return [f"{item.key} {item.stated}: {item.derived}" for item in find_wrong_ranks(log(scenario, **values))]


@pytest.mark.parametrize(
    ("scenario", "key", "source", "percentile"),
    [
        ("SingleStream", "early_stopping_latency_ss", "result_90.00_percentile_latency_ns", 0.9),
        ("MultiStream", "early_stopping_latency_ms", "result_99.00_percentile_per_query_latency_ns", 0.99),
    ],
)
def test_an_estimate_follows_from_a_percentile(scenario: str, key: str, source: str, percentile: float) -> None:
    values = {"result_query_count": 1000, "effective_target_latency_percentile": percentile, source: 10, key: 5}
    (found,) = wrong(scenario, **values)
    assert found == f"{key} 5: {source} is 10, and the estimate from 1000 queries is not below it"
    for needed in ("result_query_count", source, key):
        assert wrong(scenario, **{name: value for name, value in values.items() if name != needed}) == []
    unknown = {name: value for name, value in values.items() if name != "effective_target_latency_percentile"}
    assert bool(wrong(scenario, **unknown)) is (scenario == "MultiStream")  # of which it is always the 99th
    assert wrong(scenario, **values, requested_use_token_latencies=True) == []


OVER = "result_overlatency_query_count"
SERVED = {"result_query_count": 1000, "effective_target_latency_ns": 50, "first": 1}


def test_queries_over_the_latency_are_not_judged_by_what_is_not_known() -> None:
    values = {**SERVED, OVER: 7, "result_max_latency_ns": 50, "result_50.00_percentile_latency_ns": 60}
    (found,) = find_wrong_ranks(log("Server", **values))  # the first one that denies it
    assert str(found) == (
        f"{OVER}: 7 (line 5), but result_50.00_percentile_latency_ns is 60: at least 500 of 1000 queries took more "
        "than 50 ns (line 7)"
    )
    for key in ("result_query_count", OVER, "effective_target_latency_ns"):
        assert wrong("Server", **{name: value for name, value in values.items() if name != key}) == []
    for queries, judged in ((0, False), (-1, False), (10**10, True), (10**10 + 1, False)):
        assert bool(wrong("Server", **values | {"result_query_count": queries, OVER: 10**11})) is judged
    assert wrong("Server", result_query_count=1, effective_target_latency_ns=50, result_max_latency_ns=51, **{OVER: 0})


TEXT, MET = "early_stopping_result", "early_stopping_met"
STREAM_TEXT = " * Processed at least {} queries ({})."


@pytest.mark.parametrize(
    ("scenario", "text", "met", "reported"),
    [
        ("SingleStream", " * Only processed 9 queries.", True, True),
        ("SingleStream", " * Only Processed 9 queries.", False, False),
        ("SingleStream", STREAM_TEXT.format(64, 9), True, False),
        ("SingleStream", STREAM_TEXT.format(64, 9), False, True),
        ("SingleStream", STREAM_TEXT.format(64, 9), 1, False),
        ("Server", " * Run successful.", False, True),
        ("Server", " * Run successful.", True, False),
        ("Server", " * Run unsuccessful.", True, False),  # which is identified by another check
        ("Server", " * Run unsuccessful.", False, False),
    ],
)
def test_the_text_of_early_stopping_says_if_it_is_met(scenario: str, text: str, met: object, reported: bool) -> None:
    values = {"loadgen_version": "5.0 @ a", "result_query_count": 9, TEXT: text, MET: met}
    found = [item for item in find_wrong_ranks(log(scenario, **values)) if item.key == MET]
    said = f"{MET}: {met} (line 5), but {TEXT} is {text.strip()} (line 4)"
    assert list(map(str, found)) == [said] * reported


@pytest.mark.parametrize(
    ("queries", "discarded", "fine"),
    [
        (662, 0, True),
        (662, 1, False),
        (837, 0, True),
        (838, 0, False),
        (838, 1, True),
        (661, 0, False),
        (1000, 1, True),
    ],
)
def test_as_many_queries_are_discarded_as_may_be(queries: int, discarded: int, fine: bool) -> None:
    """One that is reported is over the estimate of those behind it."""
    text = f" * Processed at least 662 queries ({queries}).\n * Would discard {discarded} highest latency queries."
    values = {"loadgen_version": "5.0 @ a", "result_query_count": queries, TEXT: text}
    said = (
        f"{TEXT}: discards {discarded} (line 4), but {queries} queries do not let LoadGen discard just so many (line 3)"
    )
    share = {"effective_target_latency_percentile": 0.99}
    assert list(map(str, find_wrong_ranks(log("MultiStream", **values, **share)))) == [said] * (not fine)
    for unknown in ({}, {"effective_target_latency_percentile": 1}, {"effective_target_latency_percentile": 0}):
        assert wrong("MultiStream", **values, **unknown) == []


RANKED = {"SingleStream": "percentile_latency_ns", "MultiStream": "percentile_per_query_latency_ns"}


@pytest.mark.parametrize("scenario", RANKED)
@pytest.mark.parametrize(
    ("rank", "below", "above"),
    [
        ("50.00", False, True),
        ("90.00", False, True),
        ("97.00", False, True),
        ("99.00", False, True),
        ("99.90", True, False),
    ],
)
def test_an_estimate_lies_between_two_percentiles(scenario: str, rank: str, below: bool, above: bool) -> None:
    """Two queries may be over the 99th percentile: the estimate is the 998th latency."""
    key, source = "early_stopping_latency_ms", f"result_{rank}_{RANKED[scenario]}"
    for estimate, fine, side in ((9, below, "below"), (10, True, ""), (11, above, "above")):
        found = wrong(scenario, result_query_count=1000, **{source: 10, key: estimate})
        said = f"{key} {estimate}: {source} is 10, and the estimate from 1000 queries is not {side} it"
        assert found == [said] * (not fine), estimate


def test_an_estimate_of_single_stream_is_of_its_own_percentile_and_of_the_99th() -> None:
    """64 queries prove the 90th percentile with one over it; with nine of ten below the estimate there are seven."""
    values = {"result_query_count": 64, "effective_target_latency_percentile": 0.9}
    source, key = "result_97.00_percentile_latency_ns", "early_stopping_latency_ss"
    assert wrong("SingleStream", **values, **{source: 10, key: 9}) == [
        f"{key} 9: {source} is 10, and the estimate from 64 queries is not below it"
    ]
    assert wrong("SingleStream", **values, **{source: 10, key: 10}) == []
    assert wrong("SingleStream", **values, **{source: 10, key: 0}) == []
    both = {key: 5, "early_stopping_latency_ms": 5, "result_50.00_percentile_latency_ns": 10, source: 10}
    found = [text.partition(" ")[0] for text in wrong("SingleStream", **values | {"result_query_count": 1000}, **both)]
    assert found == ["early_stopping_latency_ms", key]  # one reason each
