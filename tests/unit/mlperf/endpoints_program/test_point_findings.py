"""Each finding about a measured point: its words, its weight, and the values on both sides of its limit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.rules.endpoints_program.event_log import LoggedRequest, LoggedRun
from reconciler.rules.endpoints_program.judge import (
    AskedPoint,
    Gravity,
    PointFinding,
    classify_window,
    find_differences,
    find_least_seconds,
    is_agentic,
    judge_logged,
    judge_point,
)
from reconciler.rules.endpoints_program.point import Distribution, Warmup
from tests.unit.mlperf.endpoints_program.good_point import GOOD, REGIONS, RULES, SEEDS, WINDOW

SECOND = 10**9
WHOLE_RUN = "whole-run metrics are official"
PATTERNS = "a curve has concurrency, agentic_inference, max_throughput"
OFFLINE: dict[str, Any] = {
    "load_pattern": "max_throughput",
    "concurrency": 192,
    "window": None,
    "duration_ns": 1200 * SECOND,
}


def tell(findings: Any) -> list[tuple[str, str, str]]:
    return [(found.rule, found.weight.value, found.text) for found in findings]


def window(**changes: Any) -> dict[str, Any]:
    return {"window": replace(WINDOW, **changes)}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"finished": False}, [("run-complete", "the run did not come to its end")]),
        (
            {"failed": 1, "completed": 191},
            [("failed-samples", "1 sample failed"), ("min-query-count", "191 samples completed, one pass has 192")],
        ),
        (
            {"completed": 194, "failed": 0},
            [("metric-consistency-accounting", "194 completed and 0 failed of 192 issued")],
        ),
        ({"issued": 0}, []),
        ({"load_pattern": "poisson"}, [("load-pattern", f"load pattern poisson; {PATTERNS}")]),
        ({"load_pattern": ""}, [("load-pattern", f"load pattern unknown; {PATTERNS}")]),
        ({"concurrency": 71, "duration_ns": 1200 * SECOND, **window(seconds=Decimal(1200))}, []),
        (
            {"concurrency": 72},
            [("concurrency-in-range", "concurrency 72 is beyond 71, 10 % above the maximum")],
        ),
        ({"duration_ns": 600 * SECOND, **window(seconds=Decimal(600))}, []),
        (
            {"duration_ns": 599_940_000_000},
            [("point-duration", "the run took 599.9 s, its region needs 600 s")],
        ),
        ({"output_tokens": 0}, [("metric-consistency-output-tokens", "no output token was counted")]),
        ({"tpot": Distribution()}, [("metric-consistency-tpot-p90", "TPOT has no 90th percentile above 0")]),
        (
            {"tpot": Distribution(percentiles={Decimal(90): Decimal(0)})},
            [("metric-consistency-tpot-p90", "TPOT has no 90th percentile above 0")],
        ),
        ({"streaming": False}, [("streaming-config", "responses were not streamed (model_params.streaming)")]),
        (
            {"warmup": Warmup(10, whole_pass=False, salt=False, concurrency=5)},
            [("warmup-salt", "the client warmed up with the performance dataset, and without salt")],
        ),
        ({"warmup": Warmup(10, whole_pass=False, salt=True, concurrency=5)}, []),
        ({"issued": 384, "completed": 384}, []),
        (
            {"issued": 200, "completed": 200},
            [("whole-passes", "200 samples issued are 1.04 passes over 192; only whole passes count")],
        ),
        (
            {"seeds": {**GOOD.seeds, "model_seed": 42}},
            [("seed-runtime-match", "model_seed is 42, seed set A has 9315206023656308754")],
        ),
        (
            {"seeds": {"scheduler_rng_seed": GOOD.seeds["scheduler_rng_seed"]}},
            [("seed-runtime-match", "sample_index_rng_seed is not set, seed set A has 586478644936801402")],
        ),
    ],
    ids=str,
)
def test_what_makes_a_point_invalid_is_told_in_words(change: dict[str, Any], told: list[tuple[str, str]]) -> None:
    found = judge_point(replace(GOOD, **change), RULES, REGIONS, dataset_size=192, seeds=SEEDS)
    invalid = [item for item in found if item.rule != "figures-possible"]
    assert tell(invalid) == [(rule, "invalid", text) for rule, text in told]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"window": None}, [("steady-state-basis", f"the client found no steady-state window: {WHOLE_RUN}")]),
        (window(seconds=Decimal(600)), []),
        (
            window(seconds=Decimal("599.94")),
            [
                ("point-duration", "the steady-state window spans 599.9 s, its region needs 600 s"),
                ("steady-state-basis", f"status insufficient_duration, verdict STEADY STATE: {WHOLE_RUN}"),
            ],
        ),
        (
            window(seconds=None),
            [("steady-state-basis", f"status insufficient_duration, verdict STEADY STATE: {WHOLE_RUN}")],
        ),
        (window(last=-1), [("steady-state-basis", f"status partial_dataset, verdict not found: {WHOLE_RUN}")]),
    ],
    ids=str,
)
def test_what_a_reviewer_will_ask_is_told_in_words(change: dict[str, Any], told: list[tuple[str, str]]) -> None:
    found = judge_point(replace(GOOD, **change), RULES, REGIONS)
    assert tell(found) == [(rule, "warning", text) for rule, text in told]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"tpot": Distribution(), "streaming": False}, []),
        (
            {"duration_ns": 1199 * SECOND},
            [("point-duration", "invalid", "the run took 1199.0 s, its region needs 1200 s")],
        ),
        (
            {"output_tokens": 0},
            [("metric-consistency-output-tokens", "invalid", "no output token was counted")],
        ),
    ],
    ids=str,
)
def test_of_an_offline_run_only_its_length_and_its_counts_are_judged(
    change: dict[str, Any], told: list[tuple[str, str, str]]
) -> None:
    assert tell(judge_point(replace(GOOD, **{**OFFLINE, **change}), RULES, REGIONS)) == told


@pytest.mark.parametrize(
    ("dataset", "size", "completed", "needed"),
    [
        ("tiny", 0, 1, 0),
        ("tiny", 192, 192, 0),
        ("tiny", 192, 191, 192),
        ("aime25", 0, 30, 0),
        ("aime25", 0, 29, 30),
        ("aime25::preset", 10, 29, 30),
        ("aime25", 29, 29, 30),
    ],
)
def test_a_point_has_as_many_queries_as_its_dataset_needs(dataset: str, size: int, completed: int, needed: int) -> None:
    point = replace(GOOD, dataset=dataset, completed=completed, issued=0)
    told = [("min-query-count", "invalid", f"{completed} samples completed, one pass has {needed}")] if needed else []
    assert tell(judge_point(point, RULES, REGIONS, dataset_size=size)) == told
    short = tell(judge_point(point, RULES.shorten(1), REGIONS, dataset_size=size))
    assert [text for rule, _, text in short if rule == "min-query-count"] == (
        [f"{completed} samples completed, one pass has {size}"] if completed < size else []
    )


@pytest.mark.parametrize(
    ("change", "concurrency", "least"),
    [
        ({}, 1, 600),
        ({}, 32, 600),
        ({}, 33, 1200),
        ({"load_pattern": "agentic_inference"}, 32, 600),
        ({"load_pattern": "agentic_inference"}, 33, 2400),
        ({"load_pattern": "max_throughput"}, 1, 1200),
        ({}, 72, 0),
    ],
)
def test_a_point_lasts_as_long_as_its_region_needs(change: dict[str, Any], concurrency: int, least: int) -> None:
    point = replace(GOOD, concurrency=concurrency, **change)
    assert find_least_seconds(point, RULES, REGIONS) == least
    assert is_agentic(point, RULES) is (change.get("load_pattern") == "agentic_inference")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"last": 3}, ("windowable", "STEADY STATE")),
        ({"last": 0}, ("insufficient_passes", "STEADY STATE")),
        ({"super_pass_size": 0}, ("partial_dataset", "not found")),
        ({"seconds": Decimal(600)}, ("windowable", "STEADY STATE")),
        ({"found": False, "anomaly": "shift", "states": {"tpot": "Drifting Up"}}, ("insufficient_passes", "not found")),
        ({"anomaly": "shift", "states": {"tpot": "Drifting Up"}}, ("insufficient_duration", "anomaly")),
        (
            {"states": {"tpot": "Drifting Down", "ttft": "Drifting Up"}},
            ("insufficient_duration", "drifting_up"),
        ),
        ({"states": {"tpot": "Drifting Down", "ttft": "Plateau"}}, ("insufficient_duration", "drifting_down")),
    ],
    ids=str,
)
def test_a_window_has_the_status_of_its_first_shortcoming(change: dict[str, Any], status: tuple[str, str]) -> None:
    assert classify_window(replace(WINDOW, **change), 600, RULES) == status


def ask(**changes: Any) -> list[str]:
    base = {"concurrency": 5, "model": "tiny", "dataset": "tiny_prompts", "min_duration_ms": 1000}
    return [found.text for found in find_differences(GOOD, AskedPoint(**{**base, **changes}))]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"concurrency": 6}, "concurrency: asked for 6, the client ran 5"),
        ({"load_pattern": "burst"}, "load pattern: asked for burst, the client ran concurrency"),
        ({"model": "big"}, "model: asked for big, the client ran tiny"),
        ({"dataset": "prompts"}, "dataset: asked for prompts, the client ran tiny_prompts"),
        ({"min_duration_ms": 1001}, "min_duration_ms: asked for 1001, the client ran 1000"),
        (
            {"seeds": replace(SEEDS, scheduler_rng_seed=1)},
            "scheduler_rng_seed: asked for 1, the client ran 10487924139932647040",
        ),
    ],
    ids=str,
)
def test_what_ran_otherwise_is_told_by_itself(changes: dict[str, Any], text: str) -> None:
    assert ask(**changes) == [text]
    assert ask(model="", dataset="", min_duration_ms=0) == []
    nameless = replace(GOOD, model="")
    assert list(find_differences(nameless, AskedPoint(5, model="tiny"))) == [
        PointFinding("ran-as-asked", Gravity.INVALID, "model: asked for tiny, the client ran nothing")
    ]


def logged(count: int, peak: int) -> LoggedRun:
    """Requests of one level, one after another."""
    requests = [LoggedRequest(n * SECOND, first=n * SECOND + 10, done=n * SECOND + 110, chunks=2) for n in range(count)]
    return LoggedRun(0, tuple(requests), peak)


@pytest.mark.parametrize(
    ("peak", "requests", "told"),
    [(5, 40, False), (4, 40, True), (6, 40, True), (3, 3, False), (2, 3, True)],
)
def test_a_load_is_held_where_as_many_requests_were_under_way_as_the_point_has(
    peak: int, requests: int, told: bool
) -> None:
    text = f"at most {peak} requests were under way at a time; the point is of 5"
    found = tell(judge_logged(logged(requests, peak), GOOD, RULES, dataset_size=0, least_seconds=1))
    assert found == ([("concurrency-sustained", "invalid", text)] if told else [])
    offline = replace(GOOD, **OFFLINE)
    assert tell(judge_logged(logged(requests, peak), offline, RULES, dataset_size=4, least_seconds=1)) == []


def test_the_steady_state_of_the_events_is_told_or_held_against_the_client() -> None:
    run, silent = logged(40, 5), replace(GOOD, window=None)
    shown = "looked for in the run's events, the steady state is"
    (found,) = judge_logged(run, silent, RULES, dataset_size=4, least_seconds=1)
    assert found == PointFinding("steady-state-basis", Gravity.WARNING, f"{shown} 35.0 s from super-pass 1 to 9")
    (none,) = judge_logged(run, silent, RULES, dataset_size=20, least_seconds=1)
    assert none.text == f"{shown} none"
    assert tell(judge_logged(run, silent, RULES, dataset_size=41, least_seconds=1)) == []
    (false,) = judge_logged(run, GOOD, RULES, dataset_size=4, least_seconds=1)
    text = "the client reports super-passes of 192 samples, the dataset has 4"
    assert false == PointFinding("steady-state-consistency", Gravity.INVALID, text)
