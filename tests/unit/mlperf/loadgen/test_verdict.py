"""Verdicts, margins and suggestions on runs of the real LoadGen, and on logs with one value changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest

from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.margins import show_measured
from reconciler.loadgen.verdict import RunVerdict, judge_accuracy, judge_performance
from reconciler.resource.ruled_values import Metric
from reconciler.rules.rounds import load_ruleset
from tests.unit.mlperf.conftest import Run
from tests.unit.mlperf.loadgen.test_contradictions import make_log

Runs = Callable[[str], Run]


def metric(scenario: str) -> Metric:
    rules = load_ruleset("v6.1").benchmark("resnet")
    assert rules is not None
    return rules.metric(scenario)


def judge(log: DetailLog) -> RunVerdict:
    return judge_performance(log, metric(log.scenario))


def changed(run: Run, **values: str) -> DetailLog:
    """The log of a run with the JSON text of some values replaced."""
    data = run.bytes("detail.txt")
    for key, value in values.items():
        data, count = re.subn(
            rb'("key": "%s", "value": )[^,]*(, "time_ms)' % key.encode(), rb"\g<1>%s\2" % value.encode(), data
        )
        assert count, key
    return parse_detail(data)


@pytest.mark.parametrize("name", ["multi-stream-valid", "server-valid", "offline-valid", "single-stream-valid"])
def test_valid_runs(loadgen_run: Runs, name: str) -> None:
    log = loadgen_run(name).detail
    verdict = judge(log)
    assert (verdict.word, verdict.reasons, verdict.errors) == ("VALID", (), ())
    expected = Decimal(log.get(metric(log.scenario).key)) / metric(log.scenario).divisor
    assert Decimal(verdict.metric) == expected
    assert all(margin.met for margin in verdict.margins)
    assert {"duration"} <= {margin.name for margin in verdict.margins}


@pytest.mark.parametrize(
    ("name", "reason", "setting"),
    [
        ("single-stream-out-of-queries", "shorter than its minimum duration", "target_latency"),
        ("multi-stream-out-of-queries", "shorter than its minimum duration", "target_latency"),
        ("single-stream-too-few", "early stopping", "min_query_count"),
        ("single-stream-max-count", "fewer queries than the minimum", "max_query_count"),
        ("server-too-fast", "the latency constraint is not met", "target_qps"),
        ("server-too-few", "early stopping", "min_query_count"),
        ("offline-too-short", "shorter than its minimum duration", "target_qps"),
    ],
)
def test_invalid_runs_say_why_and_what_next(loadgen_run: Runs, name: str, reason: str, setting: str) -> None:
    log = loadgen_run(name).detail
    verdict = judge(log)
    assert verdict.word == log.validity == "INVALID"
    assert any(reason in text for text in verdict.reasons)
    assert verdict.suggestion is not None
    assert verdict.suggestion.setting == setting
    assert not all(margin.met for margin in verdict.margins)
    assert str(verdict.suggestion).startswith(setting)


def test_suggestions_point_the_right_way(loadgen_run: Runs) -> None:
    stream = loadgen_run("single-stream-out-of-queries").detail
    suggestion = judge(stream).suggestion
    assert suggestion is not None
    assert int(suggestion.value) == stream.get("result_mean_latency_ns")
    server = judge(loadgen_run("server-too-fast").detail).suggestion
    assert server is not None
    assert 0 < Decimal(server.value) < 1000
    offline = loadgen_run("offline-too-short").detail
    suggestion = judge(offline).suggestion
    assert suggestion is not None
    assert Decimal(suggestion.value) >= Decimal(offline.get("result_samples_per_second"))
    few = judge(loadgen_run("server-too-few").detail).suggestion
    assert few is not None
    assert few.value == "459"


@pytest.mark.parametrize(
    ("latency", "qps"),
    [("5500000000", "1900"), ("9000000000", "1700")],
    ids=["a little over", "far over"],
)
def test_server_over_its_limit_without_saturation_is_lowered(loadgen_run: Runs, latency: str, qps: str) -> None:
    log = changed(
        loadgen_run("server-valid"),
        **{
            "result_99.00_percentile_latency_ns": latency,
            "result_perf_constraints_met": "false",
            "result_validity": '"INVALID"',
            "result_scheduled_samples_per_sec": "2000",
            "result_completed_samples_per_sec": "1999",
        },
    )
    suggestion = judge(log).suggestion
    assert suggestion is not None
    assert (suggestion.setting, suggestion.value) == ("target_qps", qps)


def test_a_slack_server_run_is_offered_a_higher_rate(loadgen_run: Runs) -> None:
    log = changed(loadgen_run("server-valid"), **{"result_99.00_percentile_latency_ns": "1000000"})
    suggestion = judge(log).suggestion
    assert suggestion is not None
    assert suggestion.value == "2200"
    tight = changed(loadgen_run("server-valid"), **{"result_99.00_percentile_latency_ns": "4900000000"})
    assert judge(tight).suggestion is None


def test_an_offline_run_that_lasted_as_asked_is_offered_nothing(loadgen_run: Runs) -> None:
    log = changed(
        loadgen_run("offline-valid"),
        effective_min_duration_ms="100",
        effective_samples_per_query="3000",
        result_max_latency_ns="105000000",
        result_samples_per_second="400.2",
    )
    assert judge(log).suggestion is None


def test_a_slack_offline_run_is_offered_a_lower_rate(loadgen_run: Runs) -> None:
    log = changed(
        loadgen_run("offline-valid"),
        effective_min_duration_ms="100",
        effective_samples_per_query="3000",
        result_max_latency_ns="900000000",
        result_samples_per_second="400.2",
    )
    suggestion = judge(log).suggestion
    assert suggestion is not None
    assert (suggestion.setting, suggestion.value) == ("target_qps", "401")


def test_late_queries_raise_the_count_that_early_stopping_needs(loadgen_run: Runs) -> None:
    log = changed(loadgen_run("server-too-few"), result_overlatency_query_count="1", result_query_count="300")
    suggestion = judge(log).suggestion
    assert suggestion is not None
    assert int(suggestion.value) > 662
    enough = {"early_stopping_met": "true", "result_overlatency_query_count": "1"}
    assert judge(changed(loadgen_run("server-too-few"), **enough)).suggestion is None
    hopeless = changed(loadgen_run("server-too-few"), result_overlatency_query_count="30")
    assert judge(hopeless).suggestion is None


def test_an_error_line_makes_a_valid_run_invalid_here(loadgen_run: Runs) -> None:
    data = loadgen_run("offline-valid").bytes("detail.txt")
    data += b':::MLLOG {"key": "error_runtime", "value": "a  b", "metadata": {"is_error": true}}\n'
    verdict = judge(parse_detail(data))
    assert verdict.word == "INVALID"
    assert verdict.errors == ((data.count(b"\n"), "a b"),)
    assert verdict.reasons[0].endswith("a b")


def test_a_log_that_ends_early_is_invalid(loadgen_run: Runs) -> None:
    data = loadgen_run("offline-valid").bytes("detail.txt")
    log = parse_detail(data[: data.index(b":::MLLOG", data.index(b"loaded_qsl_set"))])
    verdict = judge(log)
    assert verdict.reasons == (f"the log ends at line {log.length} without a result",)
    assert (verdict.metric, verdict.margins, verdict.suggestion) == ("", (), None)


def test_an_unknown_latency_is_no_metric(loadgen_run: Runs) -> None:
    """LoadGen writes 0 where early stopping could not estimate the percentile."""
    verdict = judge(changed(loadgen_run("multi-stream-valid"), early_stopping_latency_ms="0"))
    assert verdict.metric == ""
    assert verdict.reasons == ("the log has no early_stopping_latency_ms",)


def test_an_unexplained_invalid_quotes_loadgen(loadgen_run: Runs) -> None:
    verdict = judge(changed(loadgen_run("offline-valid"), result_validity='"INVALID"'))
    assert verdict.reasons == ("LoadGen says INVALID: no reason given",)


def test_accuracy_runs(loadgen_run: Runs) -> None:
    run = loadgen_run("offline-accuracy")
    assert judge_accuracy(run.detail).valid
    cut = run.bytes("detail.txt")
    assert not judge_accuracy(parse_detail(cut[: cut.index(b':::MLLOG {"key": "power_begin')])).valid


def test_token_latencies_are_margins_of_their_own(loadgen_run: Runs) -> None:
    """With token latencies the target latency is unused; TTFT and TPOT bind."""
    data = loadgen_run("server-valid").bytes("detail.txt")
    for key, value in {
        "requested_use_token_latencies": b"true",
        "requested_server_ttft_latency": b"2000000000",
        "requested_server_tpot_latency": b"100000000",
        "result_first_token_99.00_percentile_latency_ns": b"1900000000",
        "result_time_per_output_token_99.00_percentile_ns": b"120000000",
    }.items():
        data += b':::MLLOG {"key": "%s", "value": %s, "metadata": {}}\n' % (key.encode(), value)
    found = {margin.name: margin for margin in judge(parse_detail(data)).margins}
    assert (found["p99 TTFT"].met, found["p99 TTFT"].headroom) == (True, "+5.0")
    assert (found["p99 TPOT"].met, found["p99 TPOT"].headroom) == (False, "-20.0")
    assert str(found["p99 TPOT"]) == "p99 TPOT 120 ms, limit 100 ms: not met (-20.0%)"
    assert "early stopping" not in found


@pytest.mark.parametrize(
    ("number", "text"), [("1234567", "1234600"), ("0.000123", "0.000123"), ("0", "0"), ("NaN", "0")]
)
def test_shown(number: str, text: str) -> None:
    assert show_measured(Decimal(number)) == text


def test_reasons_are_told_in_full(loadgen_run: Runs) -> None:
    run = loadgen_run("server-valid")
    said = {
        "result_perf_constraints_met": "the latency constraint is not met",
        "result_min_duration_met": "the run is shorter than its minimum duration",
        "result_min_queries_met": "fewer queries than the minimum were issued",
        "early_stopping_met": "early stopping: too few queries to prove the percentile",
    }
    for key, reason in said.items():
        assert judge(changed(run, **{key: "false"}, result_validity='"INVALID"')).reasons == (reason,)
    every = dict.fromkeys(said, "false")
    assert judge(changed(run, **every, result_validity='"INVALID"')).reasons == tuple(said.values())
    unexplained = changed(run, result_validity='"INVALID"')
    assert judge(unexplained).reasons == ("LoadGen says INVALID: no reason given",)


def test_loadgens_own_reason_is_quoted_where_no_condition_tells_it() -> None:
    log = make_log(result_validity="INVALID", result_invalid_reason="it rained", result_samples_per_second=7)
    verdict = judge_performance(log, metric("Offline"))
    assert (verdict.valid, verdict.reasons) == (False, ("LoadGen says INVALID: it rained",))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(54, "54"), (0.001, "0.001"), (0, ""), (-5, ""), ("54", ""), (None, "")],
)
def test_a_metric_is_a_number_above_0(value: object, shown: str) -> None:
    key = metric("Offline").key
    verdict = judge_performance(make_log(**{key: value}), metric("Offline"))
    assert (verdict.metric, verdict.unit) == (shown, metric("Offline").unit)
    assert verdict.reasons == (() if shown else (f"the log has no {key}",))
    failed = judge_performance(make_log(**{key: value}, result_min_duration_met=False), metric("Offline"))
    assert failed.reasons == ("the run is shorter than its minimum duration",)


def test_the_first_of_several_errors_is_quoted_and_the_others_are_counted() -> None:
    errors = [("error_a", " it\n broke "), ("error_b", "again"), ("error_c", "again")]
    key = metric("Offline").key
    for count, more in ((1, ""), (2, " and 1 more"), (3, " and 2 more")):
        log = make_log("3.0 @ a", *errors[:count], **{key: 5})
        verdict = judge_performance(log, metric("Offline"))
        assert verdict.reasons == (f"ERROR in line 8: it broke{more}",)
        assert verdict.errors == ((8, "it broke"), (9, "again"), (10, "again"))[:count]
    cut = judge_performance(make_log("3.0 @ a", errors[0], result_validity=None), metric("Offline"))
    assert cut.reasons == ("the log ends at line 6 without a result", "ERROR in line 6: it broke")


def test_an_accuracy_run_comes_to_its_end_without_errors() -> None:
    ended = {"effective_test_mode": "AccuracyOnly", "power_end": "02-22-2023 08:55:08.000"}
    fine = judge_accuracy(make_log(**ended))
    assert (fine.word, fine.reasons, fine.metric, fine.unit, fine.errors) == ("VALID", (), "", "", ())
    broken = judge_accuracy(make_log("3.0 @ a", ("error_a", "it broke"), **ended))
    assert (broken.word, broken.reasons) == ("INVALID", ("ERROR in line 8: it broke",))
    assert broken.errors == ((8, "it broke"),)
    cut = judge_accuracy(make_log(**ended | {"power_end": None}))
    assert cut.reasons == ("the log ends at line 6 without a result",)
