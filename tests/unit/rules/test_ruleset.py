"""Lookups on a ruleset: which level of a small round holds for a benchmark, a scenario, a division and a category."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from reconciler.resource.ruled_values import (
    Bar,
    ExtraFiles,
    Metric,
)
from reconciler.rules.rounds import parse_ruleset


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
                "accuracy": {
                    "F1": {"least": said("90.5"), "most": said("99")},
                    "acc": {"least": said(70)},
                },
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
        with pytest.raises(KeyError, match="no such rule: nothing"):
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
