"""Lookups on a ruleset: which level of a small round holds; and of one value: which of its sources counts."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import explain_refusal
from reconciler.resource.ruled_values import Bar, ExtraFiles, Inference, Metric
from reconciler.rules.rounds import load_ruleset, parse_ruleset
from reconciler.rules.ruled_value import RoundFileError, is_sourced, parse_ruled_value
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
    ("name", "entry", "counting", "others"),
    [
        ("min_duration", {"checker+policy": 5, "loadgen": 5}, ("checker", "policy", "loadgen"), {}),
        ("least_runs", {"policy": 4, "checker+loadgen": 5, "old checker": 3}, ("checker", "loadgen"), {"policy": 4}),
        ("most_ttft_latency", {"policy": "4.5", "checker": 4, "loadgen": "10"}, ("checker",), {"loadgen": "10"}),
        ("tests.TEST01.limits.most_score_change", {"policy": "9", "verification": "10"}, ("policy",), {}),
        ("accuracy.acc.least", {"policy": "9.5", "checker": "10"}, ("checker",), {"policy": "9.5"}),
        ("least_runs", {"checker": 1, "policy": 2, "ignored": {"loadgen": 3}, "because": "old"}, ("policy",), {}),
    ],
    ids=["three agree", "least", "most", "a limit", "a bar", "another is ignored"],
)
def test_the_strictest_source_counts(
    name: str, entry: dict[str, Any], counting: tuple[str, ...], others: dict[str, object]
) -> None:
    found = parse_ruled_value(name, entry)
    assert found.sources == counting
    assert found.value == next(value for names, value in entry.items() if names.split("+")[0] == counting[0])
    assert others.items() <= dict(found.overruled).items()
    assert [item.source for item in found.ignored] == list(entry.get("ignored", ()))


@pytest.mark.parametrize(
    "entry",
    [
        {"checker+rumour": 1},
        {"checker": 1, "ignored": {"me": 2}, "because": "x"},
        {"checker": 1, "ignored": {"policy": 0.5}, "because": "x"},
        {"checker": 1, "ignored": {}, "because": "x"},
    ],
    ids=str,
)
def test_what_is_no_value_is_reported_at_its_place(entry: dict[str, Any]) -> None:
    for where, place in (("", "min_duration"), ("general", "general.min_duration")):
        with pytest.raises(RoundFileError) as caught:
            parse_ruled_value("min_duration", entry, where)
        assert (caught.value.place, bool(caught.value.problem), bool(caught.value.fix)) == (place, True, True)


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
