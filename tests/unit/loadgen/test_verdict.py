"""Verdicts, margins and suggestions on runs of the real LoadGen, and on logs with one value changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest

from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.margins import compute_margins
from reconciler.loadgen.verdict import RunVerdict, Suggestion, judge_accuracy, judge_performance, suggest
from reconciler.resource.ruled_values import Metric
from reconciler.rules.rounds import load_ruleset
from tests.unit.loadgen.conftest import Run
from tests.unit.loadgen.test_contradictions import make_log

Runs = Callable[[str], Run]


def metric(scenario: str) -> Metric:
    rules = load_ruleset("v6.1").find_benchmark("resnet")
    assert rules is not None
    return rules.find_metric(scenario)


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


def test_loadgens_own_reason_is_quoted_where_no_condition_reports_it() -> None:
    log = make_log(result_validity="INVALID", result_invalid_reason="it rained", result_samples_per_second=7)
    verdict = judge_performance(log, metric("Offline"))
    assert (verdict.valid, verdict.reasons) == (False, ("LoadGen says INVALID: it rained",))


MAXIMUM = ("error_runtime", "Ending early: Max query count reached.")


def offered(log: DetailLog, *, valid: bool = False) -> str | None:
    found = suggest(log, compute_margins(log), valid=valid)
    return None if found is None else str(found)


def test_a_setting_to_leave_out_has_no_unit() -> None:
    assert str(Suggestion("a", "1", "ns", "because")) == "a: 1 ns (because)"
    assert str(Suggestion("a", "", "", "because")) == "a: leave it out (because)"


@pytest.mark.parametrize(("key", "name"), [("max_query_count", "max_query_count"), ("max_duration_ms", "max_duration")])
def test_a_bound_that_ended_the_run_is_left_out(key: str, name: str) -> None:
    bounded = {f"effective_{key}": 5, "effective_scenario": "SingleStream"}
    said = f"{name}: leave it out ({name} ended the run early)"
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded)) == said
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded), valid=True) is None
    assert offered(make_log("3.0 @ a", **bounded)) is None
    assert offered(make_log("3.0 @ a", ("error_runtime", "Something else"), **bounded)) is None
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded | {f"effective_{key}": 0})) is None
    assert offered(make_log("3.0 @ a", MAXIMUM, **bounded, result_validity=None)) is None
