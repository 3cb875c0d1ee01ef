"""Margins, computed by hand from logs of a few lines."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.loadgen.log import DetailLog
from reconciler.loadgen.margins import Margin, compute_margins, read_seconds, show_measured
from reconciler.loadgen.verdict import suggest
from tests.unit.loadgen.test_contradictions import make_log
from tests.unit.tree.small_cells import parse_log

MILLISECOND = 1_000_000
SERVER: dict[str, object] = {
    "effective_scenario": "Server",
    "effective_target_latency_percentile": 0.99,
    "effective_target_latency_ns": 15 * MILLISECOND,
    "effective_min_duration_ms": 600_000,
    "effective_min_query_count": 270_336,
    "result_query_count": 300_000,
    "result_min_queries_met": True,
    "result_99.00_percentile_latency_ns": 12 * MILLISECOND,
    "result_overlatency_query_count": 100,
    "result_validity": "VALID",
}
TPOT = "result_time_per_output_token_99.00_percentile_ns"
TOKENS: dict[str, object] = {
    **SERVER,
    "requested_use_token_latencies": True,
    "requested_server_ttft_latency": 2000 * MILLISECOND,
    "requested_server_tpot_latency": 100 * MILLISECOND,
    "result_first_token_99.00_percentile_latency_ns": 1900 * MILLISECOND,
    TPOT: 101 * MILLISECOND,
}
STREAM: dict[str, object] = {
    "effective_scenario": "SingleStream",
    "effective_target_latency_percentile": 0.9,
    "effective_min_query_count": 1024,
    "result_query_count": 1000,
    "result_min_queries_met": False,
    "result_validity": "INVALID",
}
OFFLINE: dict[str, object] = {
    "effective_scenario": "Offline",
    "effective_min_duration_ms": 600_000,
    "requested_min_query_count": 24_576,
    "generated_samples_per_query": 30_720,
    "result_min_queries_met": True,
    "result_max_latency_ns": 660_000 * MILLISECOND,
    "result_min_duration_met": True,
    "result_validity": "VALID",
}


def log_of(values: dict[str, object], **changes: object) -> DetailLog:
    """A whole log; a change of None takes a line out."""
    return parse_log({key: value for key, value in {**values, **changes}.items() if value is not None})


def margins_of(log: DetailLog) -> dict[str, Margin]:
    assert log.complete
    return {margin.name: margin for margin in compute_margins(log)}


@pytest.mark.parametrize(
    ("values", "least", "margin"),
    [
        (SERVER, "effective_min_query_count", Margin("queries", "300000", "270340", "queries", True, "+11.0")),
        (STREAM, "effective_min_query_count", Margin("queries", "1000", "1024", "queries", False, "-2.3")),
        (OFFLINE, "requested_min_query_count", Margin("samples", "30720", "24576", "samples", True, "+25.0")),
    ],
)
def test_a_run_has_a_margin_of_what_it_issued(values: dict[str, object], least: str, margin: Margin) -> None:
    other = "effective_min_query_count" if least.startswith("requested") else "requested_min_query_count"
    assert margins_of(log_of(values))[margin.name] == margin
    assert margin.name not in margins_of(log_of(values, **{least: None, other: 7}))


def test_an_offline_run_has_a_margin_of_its_samples_and_its_slowest_latency() -> None:
    found = margins_of(log_of(OFFLINE))
    assert found == {
        "duration": Margin("duration", "660", "600", "s", True, "+10.0"),
        "samples": Margin("samples", "30720", "24576", "samples", True, "+25.0"),
    }


def test_a_run_that_was_asked_for_no_duration_has_no_margin_of_it() -> None:
    assert [*margins_of(log_of(OFFLINE, effective_min_duration_ms=None))] == ["samples"]


def test_a_server_run_has_a_margin_of_the_time_between_its_first_and_its_last_line() -> None:
    times = {"power_begin": "01-02-2026 10:00:00.000", "power_end": "01-02-2026 10:10:00.500"}
    assert margins_of(log_of(SERVER, **times))["duration"].measured == "600.5"
    assert "duration" not in margins_of(log_of(SERVER, power_begin=times["power_begin"]))


def test_server_run_with_token_latencies_has_a_margin_of_each_and_none_of_early_stopping() -> None:
    found = margins_of(log_of(TOKENS))
    assert found == {
        "queries": Margin("queries", "300000", "270340", "queries", True, "+11.0"),
        "p99 TTFT": Margin("p99 TTFT", "1900", "2000", "ms", True, "+5.0"),
        "p99 TPOT": Margin("p99 TPOT", "101", "100", "ms", False, "-1.0"),
    }
    assert str(found["p99 TPOT"]) == "p99 TPOT 101 ms, limit 100 ms (-1.0%): not met"


@pytest.mark.parametrize(
    ("latency", "met", "headroom"), [(12, True, "+20.0"), (15, True, "+0.0"), (18, False, "-20.0")]
)
def test_a_server_run_has_a_margin_of_its_latency(latency: int, met: bool, headroom: str) -> None:
    log = log_of(SERVER, **{"result_99.00_percentile_latency_ns": latency * MILLISECOND})
    expected = Margin("p99 latency", str(latency), "15", "ms", met, headroom)
    assert margins_of(log)["p99 latency"] == expected


def test_other_scenarios_have_no_margin_of_their_latency() -> None:
    log = log_of(STREAM, **{"result_90.00_percentile_latency_ns": MILLISECOND, "effective_target_latency_ns": 1})
    assert "p90 latency" not in margins_of(log)


# LoadGen's table of early stopping for the 99th percentile: 662 queries allow 1 over the limit, 838 allow 2.
@pytest.mark.parametrize(
    ("queries", "over", "allowed", "met", "headroom"),
    [(662, 0, "1", True, "+100.0"), (838, 2, "2", True, "+0.0"), (838, 3, "2", False, "-50.0")],
)
def test_a_server_run_has_a_margin_of_the_queries_over_its_limit(
    queries: int, over: int, allowed: str, met: bool, headroom: str
) -> None:
    log = log_of(SERVER, result_query_count=queries, result_overlatency_query_count=over, early_stopping_met=met)
    assert margins_of(log)["early stopping"] == Margin(
        "early stopping", str(over), allowed, "queries over", met, headroom
    )


def test_a_server_run_that_is_too_short_for_any_query_over_has_a_margin_of_its_queries() -> None:
    log = log_of(SERVER, result_query_count=400, result_overlatency_query_count=0, early_stopping_met=False)
    assert margins_of(log)["early stopping"] == Margin("early stopping", "400", "459", "queries", False, "-12.9")


def test_a_stream_needs_queries_enough_to_discard_one() -> None:
    """64 at the 90th percentile, of the same table."""
    for queries, met, headroom in ((80, True, "+25.0"), (48, False, "-25.0")):
        log = log_of(STREAM, result_query_count=queries, early_stopping_met=met)
        assert margins_of(log)["early stopping"] == Margin(
            "early stopping", str(queries), "64", "queries", met, headroom
        )


@pytest.mark.parametrize(
    ("values", "key", "margin"),
    [
        (SERVER, "result_min_queries_met", "queries"),
        (STREAM, "result_min_queries_met", "queries"),
        (OFFLINE, "result_min_queries_met", "samples"),
        (OFFLINE, "result_min_duration_met", "duration"),
        (SERVER, "early_stopping_met", "early stopping"),
        (STREAM, "early_stopping_met", "early stopping"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value["effective_scenario"]),
)
def test_a_margin_is_met_unless_the_log_denies_it(values: dict[str, object], key: str, margin: str) -> None:
    said = {state: margins_of(log_of(values, **{key: state}))[margin].met for state in (True, False, None)}
    assert said == {True: True, False: False, None: True}


@pytest.mark.parametrize(("missing", "needed"), [((409, 0), 459), ((409, 800), 850), ((0, 0), 459)])
def test_too_few_queries_of_a_server_with_token_latencies_have_a_count(missing: tuple[int, int], needed: int) -> None:
    """As LoadGen says it; its count of queries over the latency is of whole answers then."""
    words = " * Run unsuccessful.  * Processed 50 queries.  * Would need to run at least {} more queries,  with the run"
    texts = [words.format(count) if count else "" for count in missing]
    changes = {"early_stopping_ttft_result": texts[0], "early_stopping_tpot_result": texts[1], TPOT: 90 * MILLISECOND}
    counts = {"effective_target_qps": 200, "result_query_count": 50, "result_overlatency_query_count": 50}
    log = log_of(TOKENS, early_stopping_met=False, **changes, **counts)
    margin = margins_of(log)["early stopping"]
    assert (margin.measured, margin.limit, margin.met) == ("50", str(needed), False)
    found = suggest(log, compute_margins(log), valid=False)
    assert found is not None
    assert (found.setting, found.value) == ("min_query_count", str(needed))


ENDED = {"power_end": "02-22-2023 08:54:58.600"}  # after 10.5 s


def shown(**values: Any) -> list[str]:
    return list(map(str, compute_margins(make_log(**values))))


def test_a_run_lasts_to_the_millisecond() -> None:
    assert read_seconds(make_log(power_end="02-22-2023 08:54:58.6004")) == Decimal("10.5")
    assert read_seconds(make_log(power_end="02-22-2023 08:54:58.6006")) == Decimal("10.501")
    assert read_seconds(make_log()) is read_seconds(make_log(power_begin=None, **ENDED)) is None
    assert read_seconds(make_log(result_max_latency_ns=1_500_000_000)) == Decimal("1.5")


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [("123456.7", 5, "123460"), ("1.234567", 5, "1.2346"), ("123.4567", 2, "120"), ("-Infinity", 5, "0")],
)
def test_a_number_is_shown_in_as_many_digits_as_are_asked(number: str, digits: int, text: str) -> None:
    assert show_measured(Decimal(number), digits) == text
