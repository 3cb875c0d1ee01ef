"""Results of the endpoints harness, field by field."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from reconciler.endpoints.results.accuracy import judge_accuracy_scores, read_sample_count
from reconciler.endpoints.results.measurements import (
    Results,
    collect_result_settings,
    compute_rate,
    find_differences,
    find_excess_duration,
    find_lost_samples,
    find_shortcomings,
    find_wrong_rates,
    list_scenarios,
    measure_performance,
    read_measured,
)
from reconciler.resource.ruled_values import Bar, LatencyLimits, Metric
from reconciler.rules.rounds import load_ruleset
from reconciler.storage.documents import ResultDocument, parse_json_object, parse_yaml_mapping

PATTERN = "settings: {load_pattern: {type: "


def document(**values: Any) -> ResultDocument:
    return ResultDocument(values)


@pytest.mark.parametrize(
    ("text", "scenarios"),
    [
        ("type: offline\n", ("Offline",)),
        (f"type: online\n{PATTERN}poisson}}}}\n", ("Server", "Interactive")),
        (f"type: online\n{PATTERN}concurrency, target_concurrency: 1}}}}\n", ("SingleStream",)),
        (f"type: online\n{PATTERN}concurrency, target_concurrency: 2}}}}\n", ("Server", "Interactive")),
        (f"type: online\n{PATTERN}agentic_inference, target_concurrency: 1}}}}\n", ("SingleStream",)),
        (f"type: online\n{PATTERN}agentic_inference, target_concurrency: 2}}}}\n", ("Server", "Interactive")),
        (f"type: submission\n{PATTERN}concurrency, target_concurrency: 1}}}}\n", ("SingleStream",)),
        ("type: submission\nbenchmark_mode: offline\n", ()),
        ("type: OFFLINE\n", ("Offline",)),
        ("type: Interactive\n", ("Interactive",)),
        ("type: singlestream\n", ("SingleStream",)),
        (f"type: interactive\n{PATTERN}concurrency, target_concurrency: 1}}}}\n", ("Interactive",)),
        (f"type: online\n{PATTERN}poisson, target_concurrency: 1}}}}\n", ("Server", "Interactive")),
        (f"type: online\n{PATTERN}concurrency}}}}\n", ("Server", "Interactive")),
        ("type: online\n", ("Server", "Interactive")),
        (f"type: submission\n{PATTERN}concurrency, target_concurrency: 2}}}}\n", ()),
        (f"type: submission\n{PATTERN}poisson, target_concurrency: 1}}}}\n", ()),
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


@pytest.mark.parametrize(("written", "asked"), [("10.0", "10"), ("10.5", "10.5"), ("25", "25")])
def test_a_whole_rate_of_a_configuration_is_asked_for_as_one(written: str, asked: str) -> None:
    config = parse_yaml_mapping(f"settings: {{load_pattern: {{target_qps: {written}}}}}\n".encode())
    assert str(collect_result_settings(config)["target_qps"]) == asked


@pytest.mark.parametrize(("state", "ended"), [("complete", True), (None, True), ("aborted", False)])
def test_a_run_ends_where_its_results_say_so(state: str | None, ended: bool) -> None:
    results = Results(document(), document(duration_ns=10**9, **({"state": state} if state else {})), None)
    found = [item.field for item in find_differences(results, {"scenario": "Offline", "mode": "performance"})]
    assert ("end" not in found) is ended


@pytest.mark.parametrize(
    ("asked", "said"), [("oss", []), ("", []), ("other", [("model", "other", "oss", "config.yaml", 3)])]
)
def test_another_model_is_named_with_the_line_of_its_name(asked: str, said: list[object]) -> None:
    config = parse_yaml_mapping(b"type: offline\nmodel_params:\n  name: oss\n")
    wanted = {"scenario": "Offline", "mode": "performance", "harness.model_name": asked}
    found = find_differences(Results(config, None, None), wanted)
    named = [(item.field, item.asked, item.found, item.file, item.line) for item in found if item.field == "model"]
    assert named == said


def test_tokens_of_a_mean() -> None:
    summary = document(n_samples_completed=10, duration_ns=10**9, output_sequence_lengths={"avg": 2.5})
    assert compute_rate(summary, "tps") == 25


CONFIGURED = b"""\
name: x
type: online
model_params:
  name: oss
settings:
  load_pattern:
    type: poisson
    target_qps: 12.5
  runtime:
    min_duration_ms: 600000
    max_duration_ms: 700000
    n_samples_to_issue: 100
    dataloader_random_seed: 7
    scheduler_random_seed: 8
"""
SUMMARY = b"""{
"n_samples_issued": 101,
"n_samples_completed": 99,
"n_samples_failed": 2,
"state": "complete",
"complete": true,
"qps": 9.9,
"duration_ns": 10000000000
}"""
SCORES = b'{"accuracy_scores": [{"score": 0.5, "total_samples": 3}]}'
SETTINGS = {
    "target_qps": Decimal("12.5"),
    "min_duration": 600000,
    "max_duration": 700000,
    "min_query_count": 100,
    "accuracy_sample_count": 3,
}
SEEDED = {"sample_index_rng_seed": 7, "schedule_rng_seed": 8, "qsl_rng_seed": 9}  # the last is none of the harness
ASKED = {"scenario": "Server", "harness.model_name": "oss", **SETTINGS, **SEEDED}


def compare(
    mode: str = "performance", old: str = "", new: str = "", asked: dict[str, Any] = ASKED, seconds: float = 10.0
) -> list[str]:
    """Where it is another run, and where its figures contradict each other, with one text of the files replaced."""
    config, summary, scores = (
        data.replace(old.encode(), new.encode(), 1) if old else data for data in (CONFIGURED, SUMMARY, SCORES)
    )
    results = Results(parse_yaml_mapping(config), parse_json_object(summary), parse_json_object(scores))
    found, read = [*find_differences(results, {**asked, "mode": mode})], parse_json_object(summary)
    if mode == "performance":
        found += [*find_excess_duration(read, seconds), *find_lost_samples(read), *find_wrong_rates(read)]
    return [str(item) for item in found]


@pytest.mark.parametrize(
    ("old", "new", "field", "line"),
    [
        ("type: online", "type: offline", "scenario", 2),
        ("target_qps: 12.5", "target_qps: 12", "target_qps", 8),
        ("    target_qps: 12.5\n", "", "target_qps", 0),
        (": 600000", ": 600001", "min_duration", 10),
        (": 700000", ": 1", "max_duration", 11),
        ("issue: 100", "issue: 99", "min_query_count", 12),
        ("loader_random_seed: 7", "loader_random_seed: 8", "sample_index_rng_seed", 13),
        ("scheduler_random_seed: 8", "scheduler_random_seed: 7", "schedule_rng_seed", 14),
        ('"complete": true', '"complete": false', "end", 5),
        ('"complete",', '"lost\\n it",', "end", 5),
        ('"duration_ns": 10000000000', '"duration_ns": 0', "duration", 0),
        ('"duration_ns": 10000000000', '"duration_ns": -5', "duration", 0),
        ('"n_samples_failed": 2', '"n_samples_failed": 1', "samples", 3),
        ('"n_samples_failed": 2,', "", "samples", 3),
        ('"qps": 9.9', '"qps": 9.902', "qps", 7),
        ('"qps": 9.9', '"qps": 9.898', "qps", 7),
        ('"n_samples_issued": 101', '"n_samples_issued": 0, "n_samples_asked": 101', "mode", 2),
    ],
)
def test_each_field_that_is_not_as_asked_is_named_with_its_line(old: str, new: str, field: str, line: int) -> None:
    assert compare() == []
    (found,) = (found for found in compare(old=old, new=new) if found.startswith(f"{field}: "))
    assert re.findall(r" \(line (\d+)\)$", found) == ([str(line)] if line else [])


def test_a_run_takes_no_longer_than_its_command() -> None:
    assert compare(seconds=10.0) == []
    (said,) = compare(seconds=9.5)
    assert said == "duration: expected a run within the 9.5 s of the command, result_summary.json says 10 s (line 8)"


def test_what_is_not_asked_may_be_anything() -> None:
    bare = {"scenario": "Server"}
    assert compare(asked=bare, old="poisson", new="burst") == []
    assert compare("accuracy", asked=bare, old='"total_samples": 3', new='"total_samples": 9') == []
    assert compare(old='"total_samples": 3', new='"total_samples": 9') == []  # of a run that is not scored


SHORT = "duration: 1.999 s, at least 2 s are required"
UNSTATED = "result_summary.json says nothing that result_samples_per_second could be taken from"


@pytest.mark.parametrize(
    ("values", "reasons", "value"),
    [
        ({"n_samples_issued": 12, "duration_ns": 2 * 10**9}, [], "6"),
        ({"n_samples_issued": 12, "duration_ns": 2 * 10**9, "n_samples_failed": 0}, [], "6"),
        (
            {"n_samples_issued": 3, "duration_ns": 1999 * 10**6},
            ["duration: 1.999 s, at least 2 s are required"],
            "1.5007503",
        ),
        ({"n_samples_issued": 12}, [UNSTATED], None),
        ({"duration_ns": 3 * 10**9}, [UNSTATED], None),
    ],
)
def test_a_performance_run_is_valid_where_nothing_speaks_against_it(
    values: dict[str, Any], reasons: list[str], value: str | None
) -> None:
    metric = Metric("result_samples_per_second", "samples/s")
    made = measure_performance(document(**values, version="1.0", git_sha="abc"), metric, LatencyLimits(), 2000)
    assert (made["validity"], made["reasons"]) == ("INVALID" if reasons else "VALID", reasons)
    found = None if made["metric"] is None else (made["metric"]["value"][:9], made["metric"]["unit"])
    assert found == (None if value is None else (value, "samples/s"))
    assert made["harness_version"] == "1.0 abc"


def test_limits_are_bounds_that_are_not_reached() -> None:
    def over(**found: int) -> list[str]:
        series = {name: {"early_stopping_percentiles": {"99.0": value}} for name, value in found.items()}
        limits = LatencyLimits(ttft=Decimal(2 * 10**6), tpot=Decimal(10**6))
        return list(find_shortcomings(document(**series), limits, 0))

    assert over(ttft=2 * 10**6 - 1, tpot=10**6 - 1) == []
    assert over(ttft=2 * 10**6, tpot=10**6 - 1) == ["p99 ttft: 2 ms, below 2 ms is required"]
    assert over(ttft=1) == ["p99 tpot: nothing, below 1 ms is required"]


def test_a_configuration_is_asked_for_under_the_names_of_specs() -> None:
    found = collect_result_settings(parse_yaml_mapping(CONFIGURED))
    expected = {"target_qps": Decimal("12.5"), "min_duration": 600000, "max_duration": 700000, "min_query_count": 100}
    assert found == expected
    none = parse_yaml_mapping(b"settings: {runtime: {min_duration_ms: 0, max_duration_ms: 1.5}}")
    assert collect_result_settings(none) == {"min_duration": 0}


def test_what_is_published_of_each_scenario() -> None:
    ruleset = load_ruleset("v6.1")
    llama, wan, vision = (ruleset.find_benchmark(n) for n in ("llama3.1-8b", "wan-2.2-t2v-a14b", "qwen3-vl-235b-a22b"))
    assert llama
    assert wan
    assert vision

    def unit(rules: Any, scenario: str) -> tuple[str, str, int]:
        metric = ruleset.endpoints.make_metric(rules.name, scenario, rules.find_metric(scenario))
        return metric.key, metric.unit, metric.divisor

    for scenario in ("Offline", "Server", "Interactive"):
        assert unit(llama, scenario) == ("result_completed_tokens_per_second", "tokens/s", 1)
    assert unit(ruleset.find_benchmark("llama3.1-8b-edge"), "Offline")[1] == "tokens/s"
    assert unit(vision, "Server") == ("result_completed_samples_per_sec", "queries/s", 1)
    assert unit(wan, "SingleStream") == ("result_mean_latency_ns", "s", 10**9)
    assert unit(wan, "Offline") == ("result_samples_per_second", "samples/s", 1)


def test_a_short_run_and_lost_samples_are_said() -> None:
    summary = document(n_samples_failed=2, duration_ns=10**9)
    assert list(find_shortcomings(summary, LatencyLimits(), 600_000)) == [
        "2 samples failed",
        "duration: 1 s, at least 600 s are required",
    ]


BARS = (Bar("ROUGE1", Decimal("38.39")), Bar("F1_HIERARCHICAL", Decimal("0.78")), Bar("GEN_LEN", None, Decimal(9)))


def test_datasets_count_together() -> None:
    entries = [{"score": 1, "total_samples": 30}, {"score": 0, "response_counts": {"issued": 12}}]
    results = document(accuracy_scores=entries)
    assert read_sample_count(results) == 42
    assert judge_accuracy_scores(results, BARS[1:2], single=True, binds=True)["metric"]["value"] == "0.5"


def test_what_is_nowhere_in_a_configuration_has_no_line() -> None:
    bare = Results(parse_yaml_mapping(b"verbose: x\n"), None, None)
    asked = {"scenario": "Server", "mode": "accuracy", "target_qps": 1, "schedule_rng_seed": 8}
    asked["harness.model_name"] = "oss"
    assert [str(item) for item in find_differences(bare, asked)] == [
        "scenario: expected Server, config.yaml says type nothing",
        "mode: expected accuracy, accuracy_results.json says no score of an accuracy dataset",
        "model: expected oss, config.yaml says nothing",
        "target_qps: expected 1, config.yaml says nothing",
        "schedule_rng_seed: expected 8, config.yaml says nothing",
    ]


@pytest.mark.parametrize(
    ("values", "key", "value"),
    [
        ({"n_samples_completed": 10, "duration_ns": 2 * 10**9}, "result_completed_samples_per_sec", 5),
        ({"n_samples_completed": 10, "duration_ns": 2 * 10**9, "qps": 0}, "result_completed_samples_per_sec", 0),
        ({}, "result_completed_samples_per_sec", None),
        ({"n_samples_completed": 10, "duration_ns": 10**9}, "result_completed_tokens_per_second", None),
        ({"n_samples_issued": 0, "duration_ns": 10**9}, "result_samples_per_second", 0),
        ({"n_samples_issued": 5, "duration_ns": 0}, "result_samples_per_second", None),
        ({"latency": {"early_stopping_percentiles": {"99": 7}}}, "result_99_percentile_latency_ns", 7),
        ({"latency": {"early_stopping_percentiles": {"x": 1, "99": 7}}}, "result_99.00_percentile_latency_ns", 7),
        ({"latency": {"early_stopping_percentiles": [99]}}, "result_99.00_percentile_latency_ns", None),
        ({"latency": 5}, "result_mean_latency_ns", None),
        ({"latency": {"early_stopping_percentiles": {"99": 7}}}, "result_99.00_percentile_ttft_ns", None),
        ({"latency": {"early_stopping_percentiles": {"99": 7}}}, "early_99.00_percentile_latency_ns", None),
    ],
    ids=str,
)
def test_a_metric_is_what_the_summary_says_or_its_counts_make(values: dict[str, Any], key: str, value: object) -> None:
    assert read_measured(document(**values), key) == value
