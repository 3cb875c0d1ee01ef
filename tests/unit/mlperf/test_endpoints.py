"""Results of the endpoints harness, field by field."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.mlperf.documents import ResultDocument, parse_json_object, parse_yaml_mapping
from reconciler.mlperf.endpoints import (
    AskedResults,
    Results,
    collect_result_settings,
    compute_rate,
    find_differences,
    find_over_limits,
    find_shortcomings,
    list_scenarios,
    read_measured,
    read_percentile,
)
from reconciler.mlperf.endpoints_accuracy import judge_accuracy_scores, read_sample_count
from reconciler.mlperf.rules.rounds import load_ruleset
from reconciler.mlperf.rules.values import Bar, LatencyLimits

PATTERN = "settings: {load_pattern: {type: "


def document(**values: Any) -> ResultDocument:
    return ResultDocument(values, {})


@pytest.mark.parametrize(
    ("text", "scenarios"),
    [
        ("type: offline\n", ("Offline",)),
        (f"type: online\n{PATTERN}poisson}}}}\n", ("Server", "Interactive")),
        (f"type: online\n{PATTERN}concurrency, target_concurrency: 1}}}}\n", ("SingleStream",)),
        (f"type: online\n{PATTERN}concurrency, target_concurrency: 2}}}}\n", ("Server", "Interactive")),
        (f"type: submission\n{PATTERN}concurrency, target_concurrency: 1}}}}\n", ("SingleStream",)),
        ("type: submission\nbenchmark_mode: offline\n", ()),
        ("type: eval\n", ()),
        ("name: x\n", ()),
    ],
)  # fmt: skip
def test_scenarios_of_a_configuration(text: str, scenarios: tuple[str, ...]) -> None:
    assert list_scenarios(parse_yaml_mapping(text.encode())) == scenarios


def test_rates_count_in_loadgens_window_as_loadgen_does() -> None:
    """The first query opens the window, and is not counted (loadgen/results.cc)."""
    counted = {"n_samples_completed": 101, "duration_ns": 20 * 10**9, "output_sequence_lengths": {"total": 1000}}
    assert compute_rate(document(**counted), "qps") == Decimal("5.05")
    windowed = document(**counted, legacy_loadgen_window_duration_ns=10 * 10**9)
    assert (compute_rate(windowed, "qps"), compute_rate(windowed, "tps")) == (10, 100)


def test_a_key_that_only_loadgen_has_says_nothing() -> None:
    counted = document(n_samples_issued=10, duration_ns=10**9, latency={"early_stopping_percentiles": {"99": 5}})
    assert read_measured(counted, "result_99.00_percentile_latency_ns") == 5
    assert read_measured(counted, "result_query_count") is None
    assert read_measured(counted, "early_stopping_latency_ss") is None


@pytest.mark.parametrize(("written", "asked"), [("10.0", "10"), ("10.5", "10.5"), ("25", "25")])
def test_a_whole_rate_of_a_configuration_is_asked_for_as_one(written: str, asked: str) -> None:
    config = parse_yaml_mapping(f"settings: {{load_pattern: {{target_qps: {written}}}}}\n".encode())
    assert str(collect_result_settings(config)["target_qps"]) == asked


@pytest.mark.parametrize(("state", "ended"), [("complete", True), (None, True), ("aborted", False)])
def test_a_run_ends_where_its_results_say_so(state: str | None, ended: bool) -> None:
    results = Results(document(), document(duration_ns=10**9, **({"state": state} if state else {})), None)
    found = [item.field for item in find_differences(results, AskedResults("Offline", "performance", "", {}, {}))]
    assert ("end" not in found) is ended


@pytest.mark.parametrize(
    ("asked", "said"), [("oss", []), ("", []), ("other", [("model", "other", "oss", "config.yaml", 3)])]
)
def test_another_model_is_named_with_the_line_of_its_name(asked: str, said: list[object]) -> None:
    config = parse_yaml_mapping(b"type: offline\nmodel_params:\n  name: oss\n")
    found = find_differences(Results(config, None, None), AskedResults("Offline", "performance", asked, {}, {}))
    named = [(item.field, item.asked, item.found, item.file, item.line) for item in found if item.field == "model"]
    assert named == said


@pytest.mark.parametrize(
    ("scores", "count"),
    [
        ([], None),
        ([{"score": 0.5}], None),
        ([{"score": 0.5, "total_samples": 0}], 0),
        ([{"score": 0.5, "total_samples": 3}, {"score": 0.5, "response_counts": {"issued": 4}}], 7),
        ([{"score": 0.5, "total_samples": 3}, {"score": 0.5, "dataset_type": "performance", "total_samples": 9}], 3),
    ],
)
def test_samples_are_counted_over_the_accuracy_datasets_that_say_how_many(
    scores: list[dict[str, Any]], count: int | None
) -> None:
    assert read_sample_count(document(accuracy_scores=scores)) == count


def test_tokens_of_a_mean() -> None:
    summary = document(n_samples_completed=10, duration_ns=10**9, output_sequence_lengths={"avg": 2.5})
    assert compute_rate(summary, "tps") == 25


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("result_samples_per_second", Decimal(6)),
        ("result_completed_samples_per_sec", Decimal(5)),
        ("result_completed_tokens_per_second", Decimal(70)),
        ("result_mean_latency_ns", Decimal(3)),
        ("result_90.00_percentile_latency_ns", Decimal(9)),
        ("result_99.90_percentile_latency_ns", Decimal(12)),
        ("result_97.00_percentile_latency_ns", None),
        ("early_stopping_latency_ss", None),
    ],
)
def test_metrics_by_the_checkers_keys(key: str, value: Decimal | None) -> None:
    latency = {"avg": 3, "early_stopping_percentiles": {"90.0": 9, "99.9": 12, "50": None}}
    summary = document(
        n_samples_issued=12, n_samples_completed=10, duration_ns=2 * 10**9, qps=5.0, tps=70, latency=latency
    )
    assert read_measured(summary, key) == value


def test_what_is_published_of_each_scenario() -> None:
    ruleset = load_ruleset("v6.1")
    llama, wan, vision = (ruleset.benchmark(n) for n in ("llama3.1-8b", "wan-2.2-t2v-a14b", "qwen3-vl-235b-a22b"))
    assert llama
    assert wan
    assert vision

    def unit(rules: Any, scenario: str) -> tuple[str, str, int]:
        metric = ruleset.endpoints.metric(rules.name, scenario, rules.metric(scenario))
        return metric.key, metric.unit, metric.divisor

    assert unit(llama, "Offline") == ("result_samples_per_second", "samples/s", 1)
    assert unit(llama, "Server") == ("result_completed_tokens_per_second", "tokens/s", 1)
    assert unit(llama, "Interactive") == ("result_completed_samples_per_sec", "queries/s", 1)
    assert unit(vision, "Server") == ("result_completed_samples_per_sec", "queries/s", 1)
    assert unit(wan, "SingleStream") == ("result_mean_latency_ns", "s", 10**9)


def test_tokens_are_bounded_instead_of_whole_latencies() -> None:
    series = {"early_stopping_percentiles": {"99": 100}}
    summary = document(ttft=series, tpot=series, latency=series)
    both = LatencyLimits(ttft=Decimal(101), tpot=Decimal(100), latency=Decimal(1))
    assert list(find_over_limits(summary, both)) == [("tpot", 100)]
    assert list(find_over_limits(summary, LatencyLimits(latency=Decimal(99)))) == [("latency", 99)]
    assert list(find_over_limits(document(), both)) == [("ttft", 101), ("tpot", 100)]
    assert read_percentile(summary, "ttft") == 100


def test_a_short_run_and_lost_samples_are_said() -> None:
    summary = document(n_samples_failed=2, duration_ns=10**9)
    assert list(find_shortcomings(summary, LatencyLimits(), 600_000)) == [
        "2 samples failed",
        "duration: 1 s, at least 600 s are required",
    ]


BARS = (Bar("ROUGE1", Decimal("38.39")), Bar("F1_HIERARCHICAL", Decimal("0.78")), Bar("GEN_LEN", None, Decimal(9)))


@pytest.mark.parametrize(
    ("score", "single", "measured_bars", "met"),
    [
        ({"rouge1": "38.5", "gen_len": "8"}, False, {"ROUGE1": "38.5", "GEN_LEN": "8"}, True),
        ({"rouge1": "38.5", "gen_len": "10"}, False, {"ROUGE1": "38.5", "GEN_LEN": "10"}, False),
        ({"hierarchical": 0.7}, False, {"F1_HIERARCHICAL": "0.7"}, False),
        (0.7, False, {}, True),
        (0.7, True, {"ROUGE1": "0.7", "F1_HIERARCHICAL": "0.7", "GEN_LEN": "0.7"}, False),
        ({"other": 1}, False, {}, True),
    ],
)
def test_scores_against_bars(score: Any, single: bool, measured_bars: dict[str, str], met: bool) -> None:
    results = document(accuracy_scores=[{"score": score}, {"score": 9, "dataset_type": "performance"}])
    values = judge_accuracy_scores(results, BARS, single=single, binds=True)
    assert {bar["metric"]: bar["measured"] for bar in values["bars"]} == measured_bars
    assert values["accuracy_met"] is met


def test_datasets_count_together() -> None:
    entries = [{"score": 1, "total_samples": 30}, {"score": 0, "response_counts": {"issued": 12}}]
    results = document(accuracy_scores=entries)
    assert read_sample_count(results) == 42
    assert judge_accuracy_scores(results, BARS[1:2], single=True, binds=True)["metric"]["value"] == "0.5"


def test_a_dataset_without_a_score_is_none() -> None:
    with pytest.raises(ValueError, match="not every accuracy dataset has a score"):
        judge_accuracy_scores(document(accuracy_scores=[{"score": None}]), BARS, single=False, binds=False)


@pytest.mark.parametrize("data", [b"[]", b"{", b'"x"'])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json_object(data)
