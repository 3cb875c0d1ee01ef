"""The figures of the rounds, spot-checked one by one: written here once more, by hand, from the rules."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.resource.ruled_values import Bar, Presence
from reconciler.rules.inference import explain_variant_refusal
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules

_MS = 1_000_000
_FIVE = {"SingleStream", "MultiStream", "Server", "Offline", "Interactive"}


def rules_of(round_name: str, benchmark: str) -> BenchmarkRules:
    rules = load_ruleset(round_name).benchmark(benchmark)
    assert rules is not None
    return rules


@pytest.mark.parametrize(
    ("round_name", "benchmarks", "first_seed", "layout"),
    [
        ("v0.7", 10, 12786827339337101903, "legacy"),
        ("v1.0", 10, 7322528924094909334, "legacy"),
        ("v1.1", 10, 1624344308455410291, "legacy"),
        ("v2.0", 10, 6655344265603136530, "legacy"),
        ("v2.1", 9, 14284205019438841327, "legacy"),
        ("v3.0", 9, 10003631887983097364, "legacy"),
        ("v3.1", 11, 148687905518835231, "legacy"),
        ("v4.0", 14, 13281865557512327830, "legacy"),
        ("v4.1", 14, 3066443479025735752, "legacy"),
        ("v5.0", 19, 6023615788873153749, "legacy"),
        ("v5.1", 19, 1780908523862526354, "legacy"),
        ("v6.0", 23, 2465351861681999779, "v6"),
        ("v6.1", 21, 2085463073848966840, "v6"),
    ],
)
def test_rounds(round_name: str, benchmarks: int, first_seed: int, layout: str) -> None:
    ruleset = load_ruleset(round_name)
    assert (len(ruleset.benchmarks), ruleset.layout) == (benchmarks, layout)
    assert ruleset.seeds()["qsl_rng_seed"] == first_seed
    assert all(rules.seeds() == ruleset.seeds() for rules in ruleset.benchmarks.values())


def test_no_two_rounds_share_a_seed() -> None:
    seeds = [seed for name in list_rounds() for seed in load_ruleset(name).seeds().values()]
    assert len(seeds) == len(set(seeds))


@pytest.mark.parametrize(
    ("round_name", "benchmark", "category", "required", "optional"),
    [
        ("v1.0", "resnet", "edge", "SingleStream Offline", "MultiStream"),
        ("v1.1", "resnet", "edge", "SingleStream Offline", ""),
        ("v1.1", "resnet", "datacenter", "Offline", "Server"),
        ("v2.0", "resnet", "datacenter", "Server Offline", ""),
        ("v2.0", "ssd-small", "edge", "SingleStream MultiStream Offline", ""),
        ("v2.0", "ssd-small", "datacenter", "", ""),
        ("v6.1", "resnet", "edge", "SingleStream MultiStream Offline", ""),
        ("v6.1", "resnet", "edge,datacenter", "SingleStream MultiStream Offline Server", ""),
        ("v6.1", "resnet", "datacenter", "", ""),
        ("v6.1", "stable-diffusion-xl", "datacenter", "", ""),
        ("v6.1", "stable-diffusion-xl", "datacenter,edge", "SingleStream Offline Server", ""),
        ("v6.1", "deepseek-r1", "datacenter", "Offline", "Interactive Server"),
        ("v6.1", "qwen3-vl-235b-a22b", "datacenter", "Offline", "Interactive Server"),
        ("v6.1", "dlrm-v3", "datacenter", "Server Offline", ""),
        ("v6.1", "wan-2.2-t2v-a14b", "datacenter", "SingleStream Offline", ""),
        ("v6.1", "wan-2.2-t2v-a14b", "datacenter,edge", "", ""),
        ("v6.1", "whisper", "edge", "Offline", ""),
        ("v6.1", "qwen3.6-27b", "edge", "SingleStream", ""),
        ("v6.1", "3d-unet-99.9", "datacenter", "Offline", ""),
        ("v6.0", "qwen3-vl-235b-a22b", "datacenter", "Server Offline", ""),
        ("v6.0", "retinanet", "edge", "", ""),
        ("v6.0", "retinanet", "datacenter,edge", "SingleStream MultiStream Offline Server", ""),
        ("v5.1", "deepseek-r1", "datacenter", "Server Offline", ""),
        ("v5.1", "deepseek-r1", "datacenter,edge", "SingleStream Server Offline", ""),
        ("v5.1", "llama2-70b-99", "datacenter", "Offline", "Interactive Server"),
        ("v5.1", "resnet", "datacenter", "", ""),
        ("v5.0", "resnet", "datacenter", "Server Offline", ""),
        ("v5.0", "llama2-70b-interactive-99", "datacenter", "Server Offline", ""),
        ("v4.1", "bert-99.9", "edge", "", ""),
        ("v4.1", "bert-99", "datacenter,edge", "SingleStream Offline Server", ""),
        ("v4.0", "rnnt", "edge", "SingleStream Offline", ""),
        ("v3.0", "dlrm-99", "datacenter,edge", "Offline Server", ""),
        ("v1.0", "resnet", "datacenter", "Offline", "Server"),
        ("v1.0", "ssd-small", "edge", "SingleStream Offline", "MultiStream"),
        ("v0.7", "resnet", "datacenter", "Offline", "Server"),
    ],
)
def test_scenarios(round_name: str, benchmark: str, category: str, required: str, optional: str) -> None:
    rules = rules_of(round_name, benchmark)
    found = {s: rules.presence(category, s) for s in _FIVE}
    assert {s for s in found if found[s] is Presence.REQUIRED} == set(required.split())
    assert {s for s in found if found[s] is Presence.OPTIONAL} == set(optional.split())
    if "Interactive" in optional:
        assert rules.missing(category, frozenset(required.split())) == ("Interactive or Server",)
        assert rules.missing(category, frozenset({*required.split(), "Server"})) == ()


@pytest.mark.parametrize(
    ("round_name", "benchmark", "scenario", "name", "value"),
    [
        ("v6.1", "resnet", "Server", "most_target_latency", 15 * _MS),
        ("v6.1", "dlrm-v3", "Server", "most_target_latency", 80 * _MS),
        ("v6.1", "dlrm-v3", "Offline", "least_samples_per_query", 349823),
        ("v6.1", "gpt-oss-120b", "Interactive", "most_tpot_latency", 15 * _MS),
        ("v6.1", "gpt-oss-120b", "Interactive", "most_ttft_latency", 2000 * _MS),
        ("v6.1", "gpt-oss-120b", "Server", "most_tpot_latency", 80 * _MS),
        ("v6.1", "gpt-oss-120b", "Offline", "exact_accuracy_sample_count", 4395),
        ("v6.1", "gpt-oss-120b", "Offline", "dataset_size", 6396),
        ("v6.1", "llama2-70b-99.9", "Interactive", "most_ttft_latency", 450 * _MS),
        ("v6.1", "llama2-70b-99.9", "Server", "most_ttft_latency", 2000 * _MS),
        ("v6.1", "llama3.1-8b", "Interactive", "most_tpot_latency", 30 * _MS),
        ("v6.1", "llama3.1-8b", "Interactive", "model_key", "llama3_1-8b-interactive"),
        ("v6.1", "llama3.1-8b", "Server", "model_key", "llama3_1-8b"),
        ("v6.1", "deepseek-r1", "Interactive", "most_tpot_latency", 15 * _MS),
        ("v6.1", "qwen3-vl-235b-a22b", "Interactive", "most_target_latency", 1500 * _MS),
        ("v6.1", "qwen3-vl-235b-a22b", "Server", "most_target_latency", 12000 * _MS),
        ("v6.1", "qwen3-vl-235b-a22b", "Interactive", "exact_accuracy_sample_count", 8000),
        ("v6.1", "qwen3-vl-235b-a22b", "Server", "exact_accuracy_sample_count", 48289),
        ("v6.1", "wan-2.2-t2v-a14b", "SingleStream", "least_query_count", 50),
        ("v6.1", "wan-2.2-t2v-a14b", "Offline", "least_performance_sample_count", 50),
        ("v6.1", "qwen3.6-27b", "SingleStream", "least_query_count", 995),
        ("v6.1", "qwen3.6-27b", "Offline", "least_samples_per_query", None),
        ("v6.1", "e2e-rag-qna", "Offline", "least_min_duration", 0),
        ("v6.1", "rgat", "Offline", "least_min_duration", 600000),
        ("v6.1", "3d-unet-99", "Offline", "least_performance_sample_count", 43),
        ("v6.1", "whisper", "Offline", "exact_accuracy_sample_count", 1633),
        ("v6.0", "llama3.1-405b", "Interactive", "most_ttft_latency", 4500 * _MS),
        ("v6.0", "qwen3-vl-235b-a22b", "Interactive", "most_target_latency", None),
        ("v6.0", "qwen3-vl-235b-a22b", "Interactive", "target_latency", 12000 * _MS),
        ("v6.1", "qwen3-vl-235b-a22b", "Interactive", "target_latency", 1500 * _MS),
        ("v5.1", "dlrm-v2-99.9", "Server", "most_target_latency", 60 * _MS),
        ("v5.1", "dlrm-v2-99", "Offline", "least_performance_sample_count", 204800),
        ("v5.1", "mixtral-8x7b", "Server", "most_tpot_latency", 200 * _MS),
        ("v5.0", "gptj-99", "Server", "most_target_latency", 20000 * _MS),
        ("v5.0", "bert-99", "Server", "most_target_latency", None),
        ("v4.1", "bert-99", "Server", "most_target_latency", 130 * _MS),
        ("v4.1", "retinanet", "MultiStream", "target_latency", 528 * _MS),
        ("v4.1", "3d-unet-99", "Offline", "exact_sample_concatenate_permutation", True),
        ("v4.0", "3d-unet-99", "Offline", "exact_sample_concatenate_permutation", None),
        ("v4.0", "gptj-99", "Server", "sample_concatenate_permutation", True),
        ("v4.0", "gptj-99", "Offline", "sample_concatenate_permutation", None),
        ("v4.0", "bert-99", "Offline", "least_samples_per_query", 10833),
        ("v3.1", "bert-99", "Offline", "least_samples_per_query", 24576),
        ("v3.0", "dlrm-99.9", "Server", "most_target_latency", 30 * _MS),
        ("v2.1", "3d-unet-99", "Offline", "least_performance_sample_count", 42),
        ("v1.0", "ssd-large", "MultiStream", "most_target_latency", 66 * _MS),
        ("v1.0", "resnet", "Server", "least_min_duration", 600000),
        ("v0.7", "resnet", "Server", "least_min_duration", 60000),
        ("v0.7", "resnet", "Server", "least_query_count", 270336),
        ("v0.7", "bert-99.9", "Server", "least_query_count", 90112),
    ],
)
def test_values(round_name: str, benchmark: str, scenario: str, name: str, value: Any) -> None:
    assert rules_of(round_name, benchmark).value(name, scenario) == value


@pytest.mark.parametrize(
    ("round_name", "benchmark", "sources"),
    [
        ("v4.1", "resnet", ("policy",)),
        *(
            ("v5.0", name, ("policy", "checker"))
            for name in ("resnet", "retinanet", "bert-99.9", "dlrm-v2-99.9", "gptj-99.9", "llama2-70b-99")
        ),
        *(("v5.1", name, ("policy", "checker")) for name in ("stable-diffusion-xl", "mixtral-8x7b", "llama2-70b-99.9")),
        ("v6.1", "bert-99", ("policy", "checker")),
    ],
)
def test_the_checker_counts_samples_since_v5_0(round_name: str, benchmark: str, sources: tuple[str, ...]) -> None:
    """``dataset-size`` of its constants; the checker of v4.1 has no such table."""
    rules = rules_of(round_name, benchmark)
    for name in ("dataset_size", "exact_accuracy_sample_count"):
        found = rules.ruled(name, "Offline")
        assert found is not None
        assert found.sources == sources


@pytest.mark.parametrize(
    ("round_name", "benchmark", "scenario", "metric", "least", "most"),
    [
        ("v6.1", "bert-99.9", "Offline", "F1", "90.783126", None),
        ("v6.1", "llama3.1-8b", "Server", "GEN_LEN", "7350879.6", "8984408.4"),
        ("v6.1", "llama2-70b-99.9", "Server", "TOKENS_PER_SAMPLE", "265.005", "323.895"),
        ("v6.1", "stable-diffusion-xl", "Offline", "FID_SCORE", "23.01085758", "23.95007626"),
        ("v6.1", "deepseek-r1", "Offline", "exact_match", "80.544618", None),
        ("v6.1", "qwen3.6-27b", "SingleStream", "mAP", "0.8364", None),
        ("v6.1", "rgat", "Offline", "acc", "72.1314", None),
        ("v5.0", "rgat", "Offline", "acc", "72.1314", None),
        ("v6.1", "gpt-oss-120b", "Offline", "TOKENS_PER_SAMPLE", None, "10998.9"),
        ("v6.1", "qwen3-vl-235b-a22b", "Interactive", "F1_HIERARCHICAL", "0.779922", None),
        ("v6.1", "qwen3-vl-235b-a22b", "Offline", "F1_HIERARCHICAL", "0.7824", None),
        ("v6.1", "whisper", "Offline", "ACCURACY", "96.953571", None),
        ("v6.1", "e2e-rag-db", "Offline", "E2E_ACCURACY", "98", None),
        ("v5.1", "mixtral-8x7b", "Offline", "TOKENS_PER_SAMPLE", "130.356", "159.324"),
        ("v5.1", "llama3.1-405b", "Offline", "exact_match", "89.232165", None),
        ("v5.0", "gptj-99.9", "Offline", "ROUGE1", "42.9435135", None),
        ("v4.1", "mixtral-8x7b", "Offline", "TOKENS_PER_SAMPLE", "131.31", "160.49"),
        ("v4.0", "rnnt", "Offline", "WER", "91.62252", None),
        ("v3.0", "dlrm-99.9", "Offline", "AUC", "80.16975", None),
        ("v2.1", "3d-unet-99", "Offline", "DICE", "0.853083", None),
        ("v2.0", "3d-unet-99", "Offline", "DICE", "0.8546769", None),
        ("v2.0", "ssd-large", "Offline", "mAP", "19.8", None),
        ("v1.1", "3d-unet-99", "Offline", "DICE", "0.84447", None),
        ("v1.0", "3d-unet-99.9", "Offline", "DICE", "0.852147", None),
        ("v0.7", "ssd-small", "Offline", "mAP", "21.78", None),
    ],
)
def test_bars(round_name: str, benchmark: str, scenario: str, metric: str, least: str | None, most: str | None) -> None:
    bars = {bar.metric: bar for bar in rules_of(round_name, benchmark).bars(scenario)}
    bounds = [None if bound is None else Decimal(bound) for bound in (least, most)]
    assert bars[metric] == Bar(metric, *bounds)


@pytest.mark.parametrize(
    ("round_name", "benchmark", "scenario", "key", "unit", "divisor"),
    [
        ("v6.1", "resnet", "SingleStream", "early_stopping_latency_ss", "ms", _MS),
        ("v6.1", "resnet", "MultiStream", "early_stopping_latency_ms", "ms", _MS),
        ("v6.1", "dlrm-v3", "Server", "result_completed_samples_per_sec", "queries/s", 1),
        ("v6.1", "deepseek-r1", "Interactive", "result_completed_tokens_per_second", "tokens/s", 1),
        ("v6.1", "llama3.1-8b-edge", "SingleStream", "result_90.00_percentile_latency_ns", "ms", _MS),
        ("v6.1", "wan-2.2-t2v-a14b", "SingleStream", "early_stopping_latency_ss", "s", 1000 * _MS),
        ("v6.1", "whisper", "Offline", "result_tokens_per_second", "tokens/s", 1),
        ("v6.1", "e2e-rag-qna", "Offline", "result_samples_per_second", "tasks/s", 1),
        ("v6.1", "qwen3-vl-235b-a22b", "Interactive", "result_completed_samples_per_sec", "queries/s", 1),
        ("v5.0", "gptj-99", "Offline", "result_inferred_tokens_per_second", "tokens/s", 1),
    ],
)
def test_metrics(round_name: str, benchmark: str, scenario: str, key: str, unit: str, divisor: int) -> None:
    metric = rules_of(round_name, benchmark).metric(scenario)
    assert (metric.key, metric.unit, metric.divisor) == (key, unit, divisor)
    assert metric.lower_is_better is (scenario in ("SingleStream", "MultiStream"))


@pytest.mark.parametrize(
    ("round_name", "benchmark", "tests"),
    [
        ("v6.1", "resnet", "TEST01 TEST04"),
        ("v6.1", "llama3.1-8b", "TEST06"),
        ("v6.1", "llama3.1-8b-edge", ""),
        ("v6.1", "gpt-oss-120b", "TEST07 TEST09"),
        ("v6.1", "dlrm-v3", "TEST08"),
        ("v6.1", "wan-2.2-t2v-a14b", "TEST04"),
        ("v6.1", "e2e-rag-qna", "TEST09"),
        ("v6.1", "qwen3-vl-235b-a22b", ""),
        ("v5.1", "pointpainting", "TEST01 TEST04"),
        ("v5.0", "gptj-99", ""),
        ("v5.0", "llama3.1-405b", "TEST06"),
        ("v4.1", "resnet", "TEST01 TEST04 TEST05"),
        ("v4.1", "stable-diffusion-xl", "TEST01 TEST04"),
        ("v4.1", "gptj-99.9", ""),
        ("v4.0", "stable-diffusion-xl", ""),
        ("v3.1", "rnnt", "TEST01 TEST05"),
        ("v1.0", "resnet", "TEST01 TEST04-A TEST05"),
        ("v0.7", "bert-99", "TEST01 TEST05"),
    ],
)
def test_compliance_tests(round_name: str, benchmark: str, tests: str) -> None:
    rules = rules_of(round_name, benchmark)
    assert list(rules.compliance_tests) == tests.split()
    assert [test.name for test in rules.tests()] == tests.split()


@pytest.mark.parametrize(
    ("benchmark", "scenario", "test", "compared_with", "setting", "value"),
    [
        ("resnet", "Offline", "TEST01", ("performance", "accuracy"), "accuracy_log_sampling_target", 4096),
        ("3d-unet-99.9", "Offline", "TEST01", ("performance", "accuracy"), "accuracy_log_sampling_target", 64),
        ("stable-diffusion-xl", "Offline", "TEST01", ("performance", "accuracy"), "accuracy_log_sampling_target", 128),
        ("stable-diffusion-xl", "Offline", "TEST04", ("performance",), "min_query_count", 500),
        ("stable-diffusion-xl", "SingleStream", "TEST04", ("performance",), "min_query_count", None),
        ("wan-2.2-t2v-a14b", "SingleStream", "TEST04", ("performance",), "min_query_count", 64),
        ("wan-2.2-t2v-a14b", "Offline", "TEST04", ("performance",), "min_query_count", 50),
        ("resnet", "Server", "TEST04", ("performance",), "performance_issue_same_index", 3),
        ("deepseek-r1", "Server", "TEST06", (), "accuracy_log_sampling_target", 100),
        ("gpt-oss-120b", "Offline", "TEST07", (), "accuracy_log_sampling_target", 990),
        ("dlrm-v3", "Offline", "TEST08", ("accuracy",), "accuracy_log_sampling_target", 4096),
        ("gpt-oss-120b", "Offline", "TEST09", (), "min_query_count", 6396),
        ("e2e-rag-qna", "Offline", "TEST09", (), "performance_issue_unique", None),
    ],
)
def test_audit_settings(
    benchmark: str, scenario: str, test: str, compared_with: tuple[str, ...], setting: str, value: int | None
) -> None:
    found = rules_of("v6.1", benchmark).test(test, scenario)
    assert found.compared_with == compared_with
    assert (found.settings[setting].value if setting in found.settings else None) == value
    assert found.settings["mode"].value == 2
    assert found.performance_checks is (test in ("TEST01", "TEST04"))


def test_what_verdict_files_must_say() -> None:
    (accuracy, performance) = rules_of("v6.1", "resnet").test("TEST01").expected
    assert (accuracy.file, accuracy.texts, accuracy.whole_line) == ("verify_accuracy.txt", ("TEST PASS",), True)
    assert (performance.file, performance.whole_line) == ("verify_performance.txt", False)
    first, *others = rules_of("v6.1", "llama3.1-8b").test("TEST06").expected
    assert first.texts == ("First token check pass: True", "First token check pass: Skipped")
    assert [other.texts for other in others] == [("EOS check pass: True",), ("Sample length check pass: True",)]
    assert all(expected.whole_line for expected in (first, *others))


@pytest.mark.parametrize(
    ("benchmark", "test", "limit", "value"),
    [
        ("gpt-oss-120b", "TEST07", "least_accuracy", "60.698"),
        ("gpt-oss-120b", "TEST09", "most_mean_tokens", "1406.02"),
        ("e2e-rag-qna", "TEST09", "least_mean_tokens", "246.43"),
        ("bert-99", "TEST01", "most_accuracy_change", "1"),
        ("bert-99.9", "TEST01", "most_accuracy_change", "0.1"),
        ("stable-diffusion-xl", "TEST01", "most_accuracy_change_FID_SCORE", "2"),
        ("dlrm-v3", "TEST08", "most_entropy_change", "0.1"),
        ("resnet", "TEST04", "most_score_gain", "10"),
    ],
)
def test_limits_of_verdicts(benchmark: str, test: str, limit: str, value: str) -> None:
    assert rules_of("v6.1", benchmark).test(test).limits[limit].value == value


def test_a_test_that_the_round_dropped_is_unknown() -> None:
    assert rules_of("v4.1", "resnet").test("TEST05").settings["qsl_rng_seed"].value == 16799458546791641818
    with pytest.raises(KeyError, match=r"v5\.0 has no test TEST05"):
        rules_of("v5.0", "resnet").test("TEST05")


def test_modes_differ_only_where_the_round_says_so() -> None:
    rules = rules_of("v6.1", "gpt-oss-120b")
    assert rules.value("generation.accuracy.max_new_tokens") == 32768
    assert rules.value("generation.performance.max_new_tokens") == 10000
    same = rules_of("v6.1", "llama3.1-8b")
    assert same.value("generation.both.max_new_tokens") == 128
    assert [same.value(f"generation.{mode}.max_new_tokens") for mode in ("accuracy", "performance")] == [None, None]


def test_extra_accuracy_files_by_round() -> None:
    assert rules_of("v6.1", "stable-diffusion-xl").extra_files() is None
    images, videos = (rules_of("v6.0", n).extra_files() for n in ("stable-diffusion-xl", "wan-2.2-t2v-a14b"))
    assert images is not None
    assert videos is not None
    assert (images.folder, images.stems[0], len(images.stems)) == ("images", "1311", 10)
    assert (videos.folder, videos.stems[-1]) == ("videos", "96")


def test_aliases_lead_to_benchmarks_that_the_round_knows() -> None:
    ruleset = load_ruleset("v6.1")
    assert ruleset.official("resnet50") == "resnet"
    assert ruleset.official("llama3_1-8b-edge") == "llama3.1-8b-edge"
    assert ruleset.official("ssd-resnet34") is None, "retinanet left the suite"
    assert load_ruleset("v5.1").official("ssd-resnet34") == "retinanet"


@pytest.mark.parametrize(
    ("scenario", "measured", "category", "key"),
    [
        ("Offline", "SingleStream", "edge", "result_qps_without_loadgen_overhead"),
        ("Offline", "MultiStream", "edge,datacenter", "result_mean_query_latency_ns"),
        ("MultiStream", "SingleStream", "edge", "early_stopping_latency_ms"),
        ("SingleStream", "MultiStream", "edge", None),
        ("Offline", "SingleStream", "datacenter", None),
        ("Offline", "Server", "edge", None),
    ],
)
def test_inferences(scenario: str, measured: str, category: str, key: str | None) -> None:
    found = load_ruleset("v6.1").inference(scenario, measured, category)
    assert (found.key if found else None) == key


@pytest.mark.parametrize(
    ("source", "target", "refusal"),
    [
        ("bert-99.9", "bert-99", ""),
        ("bert-99", "bert-99.9", "bert-99 does not have the stricter bar for F1"),
        ("resnet", "bert-99", "resnet and bert-99 are not variants of one benchmark"),
    ],
)
def test_a_laxer_variant_takes_the_runs_of_the_stricter_one(source: str, target: str, refusal: str) -> None:
    rules = load_ruleset("v4.1").benchmarks
    assert explain_variant_refusal(rules[source], rules[target], "Offline") == refusal


def test_lists_of_the_tree() -> None:
    ruleset = load_ruleset("v6.1")
    assert (len(ruleset.system_fields), sum(field.filled for field in ruleset.system_fields)) == (35, 26)
    assert len(ruleset.network.fields) == 13
    assert ruleset.network.sut_name == "Network SUT"
    assert ruleset.value("most_file_bytes") == 50 * 2**20
    assert len(ruleset.endpoints.benchmarks) == 7
    assert load_ruleset("v6.0").endpoints.benchmarks == ()
