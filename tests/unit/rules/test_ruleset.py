"""Lookups on a ruleset: which level of a small round holds for a benchmark, a scenario, a division and a category."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import explain_refusal
from reconciler.resource.ruled_values import Bar, ExtraFiles, Inference, Metric
from reconciler.rules.accuracy import METRIC_LINES, find_impossible, parse_accuracy
from reconciler.rules.rounds import load_ruleset, parse_ruleset
from reconciler.rules.ruleset import Ruleset


def said(value: Any, source: str = "checker") -> dict[str, Any]:
    return {source: value}


ROUND: dict[str, Any] = {
    "round": "v0.1",
    "layout": "v6",
    "general": {
        "qsl_rng_seed": said(1),
        "sample_index_rng_seed": said(2),
        "schedule_rng_seed": said(3),
        "min_duration": said(600, "policy"),
        "metric_key": said("general"),
        "metric_unit": said("u"),
        "compliance_tests": said(["TEST01"]),
        "cell_documents": said(["a.md"]),
        "tests": {
            "TEST01": {
                "files": said(["v.txt"]),
                "compared_with": said(["accuracy"]),
                "expects": said({"v.txt": ["= TEST PASS"]}),
                "performance_checks": said(True),
                "settings": {"mode": said(2), "min_duration": said(5)},
                "limits": {"most_score_change": said("10", "verification")},
            }
        },
    },
    "scenarios": {"Offline": {"metric_key": said("offline"), "metric_better": said("lower")}, "Server": {}},
    "benchmarks": {
        "net": {
            "categories": said(
                {
                    "edge": {"required": ["Offline"]},
                    "datacenter": {"optional": ["Server", "Offline"], "one_of": [["Server", "Offline"]]},
                    "datacenter, edge": {"required": ["Server", "Offline"], "optional": ["SingleStream"]},
                }
            ),
            "general": {
                "min_duration": said(700),
                "metric_divisor": said(10),
                "accuracy": {"F1": {"least": said("90.5"), "most": said("99")}, "acc": {"least": said(70)}},
                "generation": {"both": {"top_k": said(1)}, "accuracy": {"seed": said(2)}},
                "accuracy_files": said({"folder": "images", "stems": [1, "b"]}),
            },
            "scenarios": {
                "Offline": {"min_duration": said(800), "tests": {"TEST01": {"settings": {"min_duration": said(6)}}}}
            },
        },
        "bare": {"categories": said({"edge": None}), "general": {"compliance_tests": said([])}},
    },
    "earlier": {"old": {"categories": said({"edge": {"required": ["Offline"]}})}},
    "divisions": said({"open": {"scenarios": False, "accuracy": False}}),
    "system_fields": said([{"name": "status", "filled": True, "one_of": ["a", "b"]}, {"name": "n", "integer": True}]),
    "measurements_fields": said(["retraining"]),
    "accuracy_log": said({"limit": 3, "whole_below": 2, "keep": 1}),
    "aliases": said({"netto": "net", "older": "old"}),
    "inferences": said(
        [
            {"scenario": "Offline", "measured": "Server", "category": "edge", "key": "k", "multiplier": 2},
            {"scenario": "Offline", "measured": "Server", "category": "datacenter", "key": "l"},
        ]
    ),
}
RULES = parse_ruleset(ROUND)
NET, BARE = RULES.benchmarks["net"], RULES.benchmarks["bare"]


def test_a_name_that_no_round_may_rule_on_is_a_mistake() -> None:
    for ask in (NET.find_ruled_value, RULES.get_value):
        with pytest.raises(KeyError, match="unknown rule: nothing"):
            ask("nothing")


def test_bars_metric_and_files_of_a_benchmark() -> None:
    assert (
        NET.list_bars("Offline")
        == NET.list_bars()
        == (Bar("F1", Decimal("90.5"), Decimal(99)), Bar("acc", Decimal(70), None))
    )
    assert BARE.list_bars() == ()
    assert NET.find_metric("Offline") == Metric("offline", "u", divisor=10, lower_is_better=True)
    assert BARE.find_metric("Server") == Metric("general", "u", divisor=1, lower_is_better=False)
    assert NET.find_extra_files("Server") == ExtraFiles("images", ("1", "b"))
    assert BARE.find_extra_files() is None


def explain(ruleset: Ruleset, *asked: str) -> list[str]:
    """The scenarios and categories that a refusal names."""
    text = explain_refusal(ruleset, *asked)
    found = re.findall(r"SingleStream|MultiStream|Offline|Server|edge|datacenter", text)
    assert bool(found) is bool(text)
    return found


@pytest.mark.parametrize(
    ("source", "scenario", "category", "why"),
    [
        ("SingleStream", "Offline", "edge", ""),
        ("Offline", "Server", "edge", "Server"),
        ("SingleStream", "Offline", "datacenter", "Offline SingleStream edge"),
        ("Server", "Offline", "edge", "Offline SingleStream MultiStream"),
        ("Offline", "MultiStream", "edge", "MultiStream SingleStream"),
    ],
)
def test_scenario_that_is_not_inferred_says_from_what(source: str, scenario: str, category: str, why: str) -> None:
    assert explain(load_ruleset("v6.1"), source, scenario, category) == why.split()


def test_what_may_be_inferred_is_reported_once_and_in_order() -> None:
    allowed = [
        Inference("Offline", measured, category, "key")
        for measured, category in (("Server", "edge"), ("Server", "datacenter"), ("MultiStream", "edge"))
    ]
    ruleset = replace(load_ruleset("v6.1"), inferences=(*allowed, Inference("Server", "Offline", "edge", "key")))
    assert explain(ruleset, "Server", "Offline", "edge,datacenter") == []
    assert explain(ruleset, "MultiStream", "Offline", "datacenter, edge") == []
    assert explain(ruleset, "SingleStream", "Offline", "edge") == ["Offline", "Server", "MultiStream"]
    assert explain(ruleset, "Server", "Offline", "network") == ["Offline", "Server", "datacenter", "edge"]
    assert explain(ruleset, "MultiStream", "Offline", "datacenter") == ["Offline", "MultiStream", "edge"]
    assert explain(ruleset, "Offline", "Server", "datacenter") == ["Server", "Offline", "edge"]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Inference("Offline", "SingleStream", "edge", "key"), Decimal(8)),
        (Inference("Offline", "SingleStream", "edge", "key", multiplier=6, divisor=4), Decimal(12)),
        (Inference("Offline", "SingleStream", "edge", "key", multiplier=10, inverse=True), Decimal("1.25")),
    ],
    ids=["as it is", "by a factor", "inverse"],
)
def test_a_metric_follows_from_the_one_that_was_measured(rule: Inference, value: Decimal) -> None:
    assert rule.derive(Decimal(8)) == value
    assert rule.least_queries == 0


_WORDS = "Word Error Rate: none, accuracy={}%"
LINES = {
    "acc": "accuracy={}%",
    "F1": '{{"exact_match": 83.6, "f1": {}}}',
    "DICE": "Accuracy: mean = {}, tumor = 0.8",
    "mAP": "mAP={}",
    "AUC": "AUC={}%",
    "DLRM_NE": "step metric/lifetime_ne/rating: {}",
    "DLRM_ACC": "step metric/lifetime_accuracy/rating: {}",
    "DLRM_AUC": "step metric/lifetime_gauc/rating: {}",
    "WER": _WORDS,
    "ACCURACY": _WORDS,
    "F1_HIERARCHICAL": '{{"f1": {}}}',
    "E2E_ACCURACY": "Accuracy: {}",
    **{
        metric: f"{{{{'x': 1, '{key}': {{}}}}}}"
        for metric, key in {
            "ROUGE1": "rouge1",
            "ROUGE2": "rouge2",
            "ROUGEL": "rougeL",
            "ROUGELSUM": "rougeLsum",
            "CLIP_SCORE": "CLIP_SCORE",
            "FID_SCORE": "FID_SCORE",
            "GEN_LEN": "gen_len",
            "TOKENS_PER_SAMPLE": "tokens_per_sample",
            "gsm8k_accuracy": "gsm8k",
            "mbxp_accuracy": "mbxp",
            "exact_match": "exact_match",
            "vbench_score": "vbench_score",
        }.items()
    },
}
UNBOUNDED = {"DLRM_NE", "FID_SCORE", "GEN_LEN", "TOKENS_PER_SAMPLE"}
PLAIN = {"F1", "DICE", "AUC", "DLRM_NE", "DLRM_ACC", "DLRM_AUC", "WER", "ACCURACY", "F1_HIERARCHICAL", "E2E_ACCURACY"}


def find(metric: str, text: str, samples: int = 0) -> list[str]:
    return [str(item) for item in find_impossible(text, parse_accuracy(text, [metric]), samples)]


@pytest.mark.parametrize("metric", METRIC_LINES)
def test_metric_is_read_from_its_line_and_is_no_more_than_it_can_be(metric: str) -> None:
    most = 1_000_000 if metric in UNBOUNDED else 1 if metric == "DICE" else 100
    for value in (f"{most}", "0.5"):
        text = f"noise\n{LINES[metric].format(value)}\n"
        (measured,) = parse_accuracy(text, [metric]).metrics[metric]
        assert (str(measured.value), measured.line, measured.numpy) == (value, 2, False)
        assert find(metric, text) == []
    beyond = find(metric, LINES[metric].format(f"{most}.01"))
    assert beyond == ([] if metric in UNBOUNDED else [f"accuracy.txt:1: {metric} {most}.01 is more than {most}"])


@pytest.mark.parametrize("metric", METRIC_LINES)
def test_scalar_of_numpy_is_read_where_the_scorer_prints_one(metric: str) -> None:
    found = parse_accuracy(LINES[metric].format("np.float64(0.25)"), [metric]).metrics[metric]
    assert [(item.value, item.numpy) for item in found] == ([] if metric in PLAIN else [(Decimal("0.25"), True)])


@pytest.mark.parametrize(
    ("first", "second", "agree"),
    [
        ("75.000", "75.0", True),
        ("75.049", "75.0", True),
        ("75.099", "75.0", True),
        ("75.1", "75.0", False),
        ("74.9", "75.0", False),
        ("75.9", "75", True),
        ("74.01", "75", True),
        ("76", "75", False),
    ],
)
def test_second_value_is_the_first_with_more_or_fewer_digits(first: str, second: str, agree: bool) -> None:
    for one, other in ((first, second), (second, first)):
        reported = f"accuracy.txt:3: acc {other}, and line 1 states {one}"
        assert find("acc", f"accuracy={one}%\n\naccuracy={other}%\n") == ([] if agree else [reported])


@pytest.mark.parametrize(
    ("line", "samples", "why"),
    [
        ("accuracy=75.000%, good=12, total=16", 16, []),
        ("accuracy=75.000%, good=12, total=16", 0, []),
        ("accuracy=75.1%, good=12, total=16", 0, []),
        ("accuracy=75.2%, good=12, total=16", 0, ["12 of 16 are 75.000%"]),
        ("accuracy=74.8%, good=12, total=16", 0, ["12 of 16 are 75.000%"]),
        ("accuracy=100.%, good=16, total=16", 0, []),
        ("accuracy=0%, good=0, total=1", 1, []),
        ("accuracy=0%, good=0, total=0", 0, ["0 of 0 cannot be"]),
        ("accuracy=100%, good=17, total=16", 0, ["17 of 16 cannot be"]),
        ("accuracy=75.000%, good=12, total=16", 15, ["it counts 16 samples, and the run answered 15"]),
        (
            "accuracy=80%, good=12, total=16",
            17,
            ["12 of 16 are 75.000%", "it counts 16 samples, and the run answered 17"],
        ),
    ],
)
def test_accuracy_is_that_of_its_counts(line: str, samples: int, why: list[str]) -> None:
    stated = line.partition(",")[0]
    assert find("acc", f"noise\n{line}\n", samples) == [f"accuracy.txt:2: {stated}: {reason}" for reason in why]
