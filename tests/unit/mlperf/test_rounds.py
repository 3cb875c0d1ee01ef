"""The round files and the lookups on them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from reconciler.errors import ReconcilerError
from reconciler.mlperf.rounds import RoundFileError, known_rounds, load_ruleset, parse_ruleset, ruled
from reconciler.mlperf.ruleset import FIELDS, SOURCES, BenchmarkRules, Presence
from reconciler.resource.canonical import canonical
from reconciler.resource.kinds import SCENARIOS


@pytest.fixture(scope="module")
def resnet() -> BenchmarkRules:
    rules = load_ruleset("v6.1").benchmark("resnet")
    assert rules is not None
    return rules


@pytest.mark.parametrize("name", known_rounds())
def test_every_ruled_value_names_its_sources_and_is_exact(name: str) -> None:
    ruleset = load_ruleset(name)
    assert ruleset.round == name
    for benchmark in ruleset.benchmarks.values():
        for scenario in SCENARIOS:
            for field in FIELDS:
                found = benchmark.ruled(field, scenario)
                if found is not None:
                    assert found.sources
                    assert set(found.sources) <= set(SOURCES)
                    canonical(found.value)


@pytest.mark.parametrize("name", known_rounds())
def test_every_benchmark_is_complete_where_it_may_be_entered(name: str) -> None:
    for benchmark in load_ruleset(name).benchmarks.values():
        assert benchmark.value("model_key")
        assert benchmark.bars()
        for table in benchmark.tables.values():
            for scenario in table.required + table.optional:
                assert benchmark.metric(scenario).key
                assert benchmark.demands(scenario)


def test_load_ruleset_when_unknown_names_the_nearest_and_all() -> None:
    with pytest.raises(ReconcilerError) as caught:
        load_ruleset("v6.11")
    assert "v6.11" in caught.value.message
    assert "did you mean v6.1?" in caught.value.fix
    assert "known rounds" in caught.value.fix


def test_settings_take_the_most_specific_value_and_name_their_source(resnet: BenchmarkRules) -> None:
    offline, server = resnet.settings("Offline"), resnet.settings("Server")
    assert offline["min_query_count"].value == 24576
    assert server["min_query_count"].value == 100
    assert server["target_latency"].value == 15_000_000
    assert server["target_latency"].origin.file == "round v6.1 (mlperf.conf)"
    assert resnet.settings("MultiStream")["samples_per_query"].value == 8
    assert "target_latency" not in offline


def test_demands_of_resnet(resnet: BenchmarkRules) -> None:
    demands = {name: value.value for name, value in resnet.demands("Offline").items()}
    assert demands == {
        "least_min_duration": 600000,
        "least_query_count": 1,
        "least_performance_sample_count": 1024,
        "least_samples_per_query": 24576,
        "exact_accuracy_sample_count": 50000,
    }
    assert resnet.bars()[0].least == Decimal("75.6954")
    assert resnet.compliance_tests == ("TEST01", "TEST04")


@pytest.mark.parametrize(
    ("category", "scenario", "presence"),
    [
        ("edge", "SingleStream", Presence.REQUIRED),
        ("edge", "Server", Presence.FORBIDDEN),
        ("datacenter,edge", "Server", Presence.REQUIRED),
        ("edge,datacenter", "Server", Presence.REQUIRED),
        ("datacenter", "Offline", Presence.FORBIDDEN),
        ("edge", "Interactive", Presence.FORBIDDEN),
    ],
)
def test_presence_by_category(resnet: BenchmarkRules, category: str, scenario: str, presence: Presence) -> None:
    assert resnet.presence(category, scenario) is presence


def test_missing_names_what_is_required(resnet: BenchmarkRules) -> None:
    assert resnet.missing("edge", frozenset({"Offline"})) == ("SingleStream", "MultiStream")
    assert resnet.missing("edge", frozenset({"Offline", "SingleStream", "MultiStream"})) == ()


def test_unknown_names_are_told_apart(resnet: BenchmarkRules) -> None:
    assert load_ruleset("v6.1").benchmark("resnet50") is None
    with pytest.raises(KeyError):
        resnet.ruled("min_durations")


def test_divisions_exempt_some_demands() -> None:
    ruleset = load_ruleset("v6.1")
    assert ruleset.binds("closed", "accuracy")
    assert not ruleset.binds("open", "accuracy")
    assert ruleset.binds("open", "least_min_duration")


def test_settings_of_mlperf_conf_are_those_of_the_real_loadgen(
    resnet: BenchmarkRules, loadgen_read: Callable[..., list[dict[str, Any]]]
) -> None:
    scenarios = ("SingleStream", "MultiStream", "Server", "Offline")
    answers = loadgen_read([(b"", "resnet50", scenario) for scenario in scenarios], conf_type=0)
    streams = {"SingleStream": "single_stream_expected_latency_ns", "MultiStream": "multi_stream_expected_latency_ns"}
    for scenario, loaded in zip(scenarios, answers, strict=True):
        settings = {name: value.value for name, value in resnet.settings(scenario).items()}
        assert loaded["min_duration_ms"] == settings["min_duration"]
        assert loaded["min_query_count"] == settings["min_query_count"]
        assert loaded["performance_sample_count_override"] == settings["performance_sample_count"]
        assert {name: loaded[name] for name in resnet.seeds()} == resnet.seeds()
        if scenario in streams:
            assert loaded[streams[scenario]] == settings["target_latency"]
        if scenario == "Server":
            assert loaded["server_target_latency_ns"] == settings["target_latency"]


# A round file in its smallest form, for the mistakes below.
def _document(**general: Any) -> dict[str, Any]:
    return {
        "round": "v0.1",
        "layout": "v6",
        "general": general,
        "scenarios": {"Offline": {}},
        "benchmarks": {"b": {"categories": {"checker": {"edge": {"required": ["Offline"]}}}, "general": {}}},
        "divisions": {"checker": {}},
        "system_fields": {"checker": [{"name": "status"}]},
        "measurements_fields": {"checker": ["retraining"]},
        "accuracy_log": {"checker": {"limit": 3, "whole_below": 1, "keep": 1}},
    }


@pytest.mark.parametrize(
    ("general", "message"),
    [
        ({"min_durations": {"checker": 1}}, "unknown fields min_durations"),
        ({"min_duration": {"rumour": 1}}, "unknown source"),
        ({"min_duration": {}}, "no source"),
        ({"target_latency_percentile": {"policy": 99.9}}, "in quotes"),
        ({"min_duration": {"policy": 1, "checker": 2}}, "neither is the stricter"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parse_ruleset_when_malformed_names_the_place(general: dict[str, Any], message: str) -> None:
    with pytest.raises(RoundFileError, match=message):
        parse_ruleset(_document(**general))


def test_parse_ruleset_in_its_smallest_form() -> None:
    rules = parse_ruleset(_document(min_duration={"checker": 1})).benchmark("b")
    assert rules is not None
    assert rules.value("min_duration", "Offline") == 1
    assert rules.value("min_duration") == 1


def test_the_strictest_source_wins_and_the_others_are_kept() -> None:
    lower = ruled("most_target_latency", {"policy": 80, "checker+mlperf.conf": 60000})
    assert (lower.value, lower.sources) == (80, ("policy",))
    assert lower.overruled == (("checker", 60000), ("mlperf.conf", 60000))
    assert ruled("least_min_duration", {"policy": 80, "checker": 60000}).value == 60000
