"""What follows from the figures of one point, and what a point has of which nothing was said."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.rules.endpoints_program.point import (
    DRIFTING,
    OFFLINE_PATTERN,
    AccuracyScore,
    Distribution,
    MeasuredPoint,
    SteadyWindow,
)

POINT = MeasuredPoint(
    concurrency=8,
    load_pattern="concurrency",
    model="tiny",
    dataset="prompts",
    issued=10,
    completed=10,
    failed=0,
    duration_ns=2_500_000_000,
    output_tokens=1000,
    ttft=Distribution(percentiles={Decimal(90): Decimal(120_500_000)}),
    tpot=Distribution(percentiles={Decimal(90): Decimal(20_000_000)}),
    latency=Distribution(total=Decimal(50 * 10**9)),
    finished=True,
    streaming=True,
    stream_all_chunks=True,
    min_duration_ms=0,
)
NONE = Distribution()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"seconds": Decimal("2.5"), "system_tps": 400, "tps_per_user": 50, "interactivity": 20}),
        ({}, {"ttft_p90_ms": Decimal("120.5"), "is_offline": False}),
        ({"duration_ns": 0}, {"seconds": 0, "system_tps": 0}),
        ({"duration_ns": 1}, {"system_tps": 1000 * 10**9}),
        ({"tpot": NONE, "ttft": NONE, "latency": NONE}, {"tps_per_user": None, "ttft_p90_ms": None}),
        ({"latency": NONE}, {"interactivity": None}),
        ({"failed": 1}, {"interactivity": None}),
        ({"tpot": Distribution(percentiles={Decimal(90): Decimal(0)})}, {"tps_per_user": None}),
        ({"ttft": Distribution(percentiles={Decimal(90): Decimal(0)})}, {"ttft_p90_ms": 0}),
        ({"load_pattern": "max_throughput"}, {"is_offline": True}),
    ],
    ids=str,
)
def test_rates_follow_from_counts_and_times(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    point = replace(POINT, **changes)
    assert {name: getattr(point, name) for name in expected} == expected


def test_scores_are_of_accuracy_datasets_or_of_the_performance_run_itself() -> None:
    own, other = (AccuracyScore("performance", inline=True, scores={}), AccuracyScore("q", inline=False, scores={}))
    point = replace(POINT, accuracy=(other, own, replace(other, dataset="r")))
    assert point.inline_score == own
    assert [score.dataset for score in point.accuracy_runs] == ["q", "r"]
    assert (POINT.inline_score, POINT.accuracy_runs) == (None, ())
    assert (own.samples, own.issued, own.complete) == (0, 0, True)


def test_a_window_is_told_by_its_super_passes_and_what_drifts_in_it() -> None:
    states = {"ttft": "Drifting Up", "qps": "Plateau", "tpot": "Drifting Down", "latency": "Drifting Up", "x": ""}
    window = SteadyWindow(True, 3, 7, states=states)
    assert (window.super_passes, window.drifting) == (5, ("latency", "tpot", "ttft"))
    empty = SteadyWindow(False)
    assert (empty.super_passes, empty.drifting) == (0, ())
    assert (empty.first, empty.last, empty.super_pass_size, empty.samples) == (0, -1, 0, 0)
    assert (empty.seconds, empty.anomaly, empty.skipped) == (None, "", 0)


def test_what_nothing_was_said_of_is_empty() -> None:
    assert (POINT.seeds, POINT.samples_asked, POINT.warmup, POINT.window) == ({}, 0, None, None)
    assert (POINT.turn_tokens, POINT.endpoints, POINT.client) == (None, (), "")
    assert (NONE.total, NONE.mean, NONE.least, NONE.most, NONE.median, NONE.at(50)) == (0, None, None, None, None, None)
    assert POINT.ttft.at(90) == 120_500_000


def test_the_words_of_the_client_are_known() -> None:
    assert (OFFLINE_PATTERN, DRIFTING) == ("max_throughput", "Drifting")
