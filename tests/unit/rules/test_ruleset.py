"""Lookups on a ruleset: which level of a small round holds; and of one value: which of its sources counts."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import explain_refusal
from reconciler.resource.ruled_values import Bar, Expected, ExtraFiles, Inference, Metric, parse_expected
from reconciler.rules.accuracy import METRIC_LINES, find_impossible, parse_accuracy
from reconciler.rules.rounds import load_ruleset, parse_ruleset
from reconciler.rules.ruled_value import Ignored, RoundFileError, RuledValue, is_sourced, parse_ruled_value
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


KNOWN = "policy, checker, old checker, mlperf.conf, loadgen, audit.config, verification"


@pytest.mark.parametrize(
    ("name", "entry", "found"),
    [
        ("min_duration", {"checker": 5}, RuledValue(5, ("checker",))),
        ("min_duration", {"checker+policy": 5}, RuledValue(5, ("checker", "policy"))),
        (
            "min_duration",
            {"checker+policy": 5, "loadgen": 5, "mlperf.conf": 5},
            RuledValue(5, ("checker", "policy", "loadgen", "mlperf.conf")),
        ),
        (
            "least_runs",
            {"policy": 4, "checker+loadgen": 5, "old checker": 4, "mlperf.conf": 3},
            RuledValue(5, ("checker", "loadgen"), (("policy", 4), ("old checker", 4), ("mlperf.conf", 3))),
        ),
        (
            "most_ttft_latency",
            {"policy": "4.5", "checker": 4, "loadgen": "10"},
            RuledValue(4, ("checker",), (("policy", "4.5"), ("loadgen", "10"))),
        ),
        (
            "tests.TEST01.limits.most_score_change",
            {"policy": "9", "verification": "10"},
            RuledValue("9", ("policy",), (("verification", "10"),)),
        ),
        (
            "accuracy.acc.least",
            {"policy": "9.5", "checker": "10"},
            RuledValue("10", ("checker",), (("policy", "9.5"),)),
        ),
        (
            "model_key",
            {"checker": "a", "ignored": {"policy+loadgen": "b", "old checker": "c"}, "because": "a slip"},
            RuledValue(
                "a",
                ("checker",),
                (),
                (
                    Ignored("policy", "b", "a slip"),
                    Ignored("loadgen", "b", "a slip"),
                    Ignored("old checker", "c", "a slip"),
                ),
            ),
        ),
        (
            "least_runs",
            {"checker": 1, "policy": 2, "ignored": {"loadgen": 3}, "because": "old"},
            RuledValue(2, ("policy",), (("checker", 1),), (Ignored("loadgen", 3, "old"),)),
        ),
        ("accuracy_files", {"policy": [1, {"a": [2]}]}, RuledValue((1, {"a": (2,)}), ("policy",))),
    ],
    ids=["one", "two", "three agree", "least", "most", "a limit", "a bar", "ignored", "both", "a list"],
)
def test_the_strictest_source_counts(name: str, entry: dict[str, Any], found: RuledValue) -> None:
    assert parse_ruled_value(name, entry) == found


BOTH = "`ignored` and `because` require each other"
DIFFER = "sources differ, and neither is stricter"


@pytest.mark.parametrize(
    ("name", "entry", "problem", "fix"),
    [
        ("min_duration", {}, "no source", f"write {{SOURCE: value}}; known: {KNOWN}"),
        ("min_duration", {"ignored": {"policy": 1}, "because": "x"}, "no source", "write {SOURCE: value}"),
        ("min_duration", {"rumour": 1}, "unknown source 'rumour'", f"known: {KNOWN}"),
        ("min_duration", {"checker+rumour": 1}, "unknown source 'checker+rumour'", "known: policy"),
        ("min_duration", {"checker": 1, "ignored": {"me": 2}, "because": "x"}, "unknown source 'me'", "known: policy"),
        ("min_duration", {"checker": 1.5}, "1.5 is not exact as a number", 'write it in quotes: "1.5"'),
        ("min_duration", {"checker": [{"a": 1.5}]}, "1.5 is not exact as a number", "write it in quotes"),
        (
            "min_duration",
            {"checker": 1, "ignored": {"policy": 0.5}, "because": "x"},
            "0.5 is not exact as a number",
            "write it in quotes",
        ),
        ("min_duration", {"checker": 1, "ignored": {"policy": 2}}, BOTH, "write both `ignored` and `because`"),
        ("min_duration", {"checker": 1, "because": "x"}, BOTH, "or neither"),
        ("min_duration", {"checker": 1, "ignored": {}, "because": "x"}, BOTH, "or neither"),
        (
            "min_duration",
            {"checker": 1, "policy": 2},
            DIFFER,
            "list the ignored source under `ignored`, and the reason under `because`",
        ),
    ],
)
def test_what_is_no_value_is_reported_at_its_place(name: str, entry: dict[str, Any], problem: str, fix: str) -> None:
    for where, place in (("", name), ("general", f"general.{name}")):
        with pytest.raises(RoundFileError) as caught:
            parse_ruled_value(name, entry, where)
        assert (caught.value.place, caught.value.problem, caught.value.at) == (place, problem, "")
        assert caught.value.message == f"{place}: {problem}"
        assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("entry", "sourced"),
    [
        ({"policy": 1}, True),
        ({"policy+old checker": 1, "ignored": {}, "because": ""}, True),
        ({"policy": 1, "rumour": 2}, False),
        ({"policy+rumour": 1}, False),
        ({}, False),
        (["policy"], False),
        (7, False),
        ("policy", False),
    ],
    ids=str,
)
def test_a_mapping_of_sources_alone_is_a_value(entry: object, sourced: bool) -> None:
    assert is_sourced(entry) is sourced


def test_a_text_is_expected_anywhere_or_as_a_whole_line_and_a_list_in_a_list_holds_alternatives() -> None:
    entry = {"a.txt": ["= TEST PASS", "pass"], "b.txt": [["= yes", "= no"], ["one", "= two"], ("x",)], "c.txt": []}
    assert parse_expected(entry) == (
        Expected("a.txt", ("TEST PASS",), True),
        Expected("a.txt", ("pass",), False),
        Expected("b.txt", ("yes", "no"), True),
        Expected("b.txt", ("one", "two"), False),
        Expected("b.txt", ("x",), False),
    )


@pytest.mark.parametrize(
    ("lines", "whole", "anywhere"),
    [
        (["TEST PASS"], True, True),
        (["x", "  OK\t"], True, True),
        (["a TEST PASS"], False, True),
        (["TEST FAIL"], False, False),
        ([], False, False),
    ],
    ids=str,
)
def test_a_line_says_what_is_expected(lines: list[str], whole: bool, anywhere: bool) -> None:
    texts = ("TEST PASS", "OK")
    assert Expected("f", texts, True).stands_in(lines) is whole
    assert Expected("f", texts, False).stands_in(lines) is anywhere
