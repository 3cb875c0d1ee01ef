"""The figures of the rounds, spot-checked one by one: written here once more, by hand, from the rules."""

from __future__ import annotations

import pytest

from reconciler.rules.inference import explain_variant_refusal
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.rules.ruleset import BenchmarkRules


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


def test_a_test_that_the_round_dropped_is_unknown() -> None:
    assert rules_of("v4.1", "resnet").test("TEST05").settings["qsl_rng_seed"].value == 16799458546791641818
    with pytest.raises(KeyError, match=r"v5\.0 has no test TEST05"):
        rules_of("v5.0", "resnet").test("TEST05")


def test_aliases_lead_to_benchmarks_that_the_round_knows() -> None:
    ruleset = load_ruleset("v6.1")
    assert ruleset.official("resnet50") == "resnet"
    assert ruleset.official("llama3_1-8b-edge") == "llama3.1-8b-edge"
    assert ruleset.official("ssd-resnet34") is None, "retinanet left the suite"
    assert load_ruleset("v5.1").official("ssd-resnet34") == "retinanet"


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
