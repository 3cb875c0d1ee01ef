"""How many samples a target rate lets LoadGen ask for."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.inconsistency import elapsed_seconds
from reconciler.loadgen.log import parse_detail
from tests.unit.mlperf.conftest import Run
from tests.unit.mlperf.loadgen.test_verdict import changed


@pytest.mark.parametrize("name", ["unique", "same"])
def test_more_samples_than_the_target_needs_are_inconsistent_but_where_few_are_issued(
    loadgen_run: Callable[[str], Run], name: str
) -> None:
    run, key = loadgen_run("offline-valid"), "generated_samples_per_query"
    many = changed(run, **{key: "9000000"})
    assert key in {item.key for item in find_inconsistencies(many)}
    few = changed(run, **{key: "9000000", f"effective_performance_issue_{name}": "true"})
    why = [item.derived for item in find_inconsistencies(few) if item.key == key]
    assert not any("need no more than" in text for text in why)


@pytest.mark.parametrize(
    "key", ["effective_min_duration_ms", "effective_target_qps", "effective_performance_sample_count"]
)
def test_a_log_that_leaves_out_a_figure_is_not_judged_by_it(loadgen_run: Callable[[str], Run], key: str) -> None:
    data = loadgen_run("offline-valid").bytes("detail.txt").replace(f'"{key}"'.encode(), b'"gone"')
    assert "generated_samples_per_query" not in {item.key for item in find_inconsistencies(parse_detail(data))}


@pytest.mark.parametrize(("late", "inconsistent"), [(-0.01, False), (1.5, True)])
def test_few_queries_may_be_over_a_gap_before_their_schedule_is(
    loadgen_run: Callable[[str], Run], late: float, inconsistent: bool
) -> None:
    """``late``: when the last of forty queries was issued, in seconds behind the run's end; a gap comes after it."""
    run = loadgen_run("server-valid")
    elapsed = elapsed_seconds(run.detail)
    assert elapsed is not None
    last = float(elapsed) + late
    few = changed(
        run,
        result_query_count="40",
        result_scheduled_samples_per_sec=f"{39 / last:.6g}",
        generated_query_duration=str(round((last + 1.5) * 1e9)),
    )
    why = [item.derived for item in find_inconsistencies(few) if item.key == "generated_query_duration"]
    assert any("s of queries, and the run lasted" in text for text in why) is inconsistent


def test_a_last_query_that_takes_long_is_no_lie(loadgen_run: Callable[[str], Run]) -> None:
    """LoadGen states the rate with its own time without the last query, and the mean latency with it."""
    log = loadgen_run("single-stream-late").detail
    gross, net = (log.get(f"result_qps_{kind}_loadgen_overhead") for kind in ("with", "without"))
    assert gross > net
    assert not find_inconsistencies(log)


@pytest.mark.parametrize(("completed", "inconsistent"), [("1000", False), ("1010", False), ("1010.01", True)])
def test_server_completes_no_more_than_was_scheduled_but_for_a_hundredth(
    loadgen_run: Callable[[str], Run], completed: str, inconsistent: bool
) -> None:
    figures = {"scheduled": "1000", "completed": completed}
    log = changed(
        loadgen_run("server-valid"), **{f"result_{name}_samples_per_sec": rate for name, rate in figures.items()}
    )
    found = [item for item in find_inconsistencies(log) if item.key == "result_completed_samples_per_sec"]
    assert [item.derived for item in found] == (["1000 were scheduled"] if inconsistent else [])
    assert [item.line for item in found] == [log.number("result_completed_samples_per_sec")] * inconsistent


@pytest.mark.parametrize("key", ["generated_query_duration", "result_scheduled_samples_per_sec"])
def test_schedule_of_a_server_run_is_not_judged_by_a_figure_that_is_not_there(
    loadgen_run: Callable[[str], Run], key: str
) -> None:
    data = loadgen_run("server-valid").bytes("detail.txt")
    assert f'"{key}"'.encode() in data
    found = find_inconsistencies(parse_detail(data.replace(f'"{key}"'.encode(), b'"gone"')))
    assert not [item for item in found if "queries in" in item.derived]


@pytest.mark.parametrize(("name", "judged"), [("single-stream-valid", True), ("multi-stream-valid", False)])
def test_a_rate_without_loadgens_own_time_is_of_single_stream_alone(
    loadgen_run: Callable[[str], Run], name: str, judged: bool
) -> None:
    """A MultiStream query has several samples, so that its mean latency says nothing of such a rate."""
    key = "result_qps_without_loadgen_overhead"
    data = loadgen_run(name).bytes("detail.txt")
    head = next(line for line in data.splitlines(keepends=True) if b'"result_query_count"' in line)
    log = parse_detail(
        data.replace(f'"{key}"'.encode(), b'"gone"')
        + re.sub(rb'"result_query_count", "value": \d+', f'"{key}", "value": 123456.0'.encode(), head)
    )
    assert log.get(key) == 123456
    assert [item.line for item in find_inconsistencies(log) if item.key == key] == [log.number(key)] * judged


@pytest.mark.parametrize(
    ("version", "equal", "inconsistent"),
    [("5.0.10", True, False), ("5.0.10", False, True), ("5.0.11", True, True), ("6.0.17", True, True)],
)
def test_samples_of_whole_permutations_were_logged_before_they_were_filled_up(
    loadgen_run: Callable[[str], Run], version: str, equal: bool, inconsistent: bool
) -> None:
    run = loadgen_run("offline-valid")
    issued, slowest = (run.detail.get(key) for key in ("generated_samples_per_query", "result_max_latency_ns"))
    loaded = issued - 1  # so that two permutations were issued
    log = changed(
        run,
        loadgen_version=f'"{version} @ d6147c7eb7"',
        effective_sample_concatenate_permutation=str(equal).lower(),
        effective_performance_sample_count=str(10 * loaded),
        qsl_reported_total_count=str(loaded),
        result_samples_per_second=f"{2 * loaded * 1e9 / slowest:.6g}",
    )
    keys = {item.key for item in find_inconsistencies(log)}
    assert ("result_samples_per_second" in keys) is inconsistent
