"""When a cell may take the runs of another scenario, and what is said where it may not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.resource.ruled_values import Inference
from reconciler.rules.inference import explain_refusal, explain_variant_refusal
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules


@pytest.mark.parametrize(
    ("source", "scenario", "category", "why"),
    [
        ("SingleStream", "Offline", "edge", ""),
        ("Offline", "Server", "edge", "round v6.1 never infers Server"),
        ("SingleStream", "Offline", "datacenter", "Offline is inferred from SingleStream on edge systems only"),
        ("Server", "Offline", "edge", "Offline is inferred from SingleStream or MultiStream only"),
        ("Offline", "MultiStream", "edge", "MultiStream is inferred from SingleStream only"),
    ],
)
def test_scenario_that_is_not_inferred_says_from_what_it_may_be(
    source: str, scenario: str, category: str, why: str
) -> None:
    assert explain_refusal(load_ruleset("v6.1"), source, scenario, category) == why


def test_what_may_be_inferred_is_told_once_and_in_order() -> None:
    allowed = [
        Inference("Offline", measured, category, "key")
        for measured, category in (("Server", "edge"), ("Server", "datacenter"), ("MultiStream", "edge"))
    ]
    ruleset = replace(load_ruleset("v6.1"), inferences=(*allowed, Inference("Server", "Offline", "edge", "key")))
    assert explain_refusal(ruleset, "Server", "Offline", "edge,datacenter") == ""
    assert explain_refusal(ruleset, "MultiStream", "Offline", "datacenter, edge") == ""
    assert explain_refusal(ruleset, "SingleStream", "Offline", "edge") == (
        "Offline is inferred from Server or MultiStream only"
    )
    assert explain_refusal(ruleset, "Server", "Offline", "network") == (
        "Offline is inferred from Server on datacenter and edge systems only"
    )
    assert explain_refusal(ruleset, "MultiStream", "Offline", "datacenter") == (
        "Offline is inferred from MultiStream on edge systems only"
    )
    assert explain_refusal(ruleset, "Offline", "Server", "datacenter") == (
        "Server is inferred from Offline on edge systems only"
    )


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


def make(name: str, **values: Any) -> BenchmarkRules:
    stated = {field.replace("__", "."): RuledValue(value, ("checker",)) for field, value in values.items()}
    return BenchmarkRules(name, "v0.1", {}, RuledValue({}, ("checker",)), {"": (stated,)})


SAME = {"model_key": "net", "dataset_size": 9}


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (SAME, SAME, ""),
        (SAME, {**SAME, "model_key": "other"}, "a and b are not variants of one benchmark"),
        (SAME, {**SAME, "dataset_size": 8}, "a and b are not variants of one benchmark"),
        (SAME, {"model_key": "net"}, "a and b are not variants of one benchmark"),
        (
            {**SAME, "accuracy__acc__least": "70", "accuracy__f1__least": "60"},
            {**SAME, "accuracy__acc__least": "70", "accuracy__f1__least": "61"},
            "a does not have the stricter bar for f1",
        ),
        ({**SAME, "accuracy__acc__least": "70"}, SAME, ""),
        ({**SAME, "accuracy__acc__least": "70"}, {**SAME, "accuracy__acc__least": "70"}, ""),
        ({**SAME, "accuracy__acc__most": "70"}, {**SAME, "accuracy__acc__most": "70"}, ""),
        (
            {**SAME, "accuracy__acc__most": "70"},
            {**SAME, "accuracy__acc__least": "70"},
            "a does not have the stricter bar for acc",
        ),
        (SAME, {**SAME, "accuracy__acc__most": "70"}, "a does not have the stricter bar for acc"),
    ],
)
def test_a_variant_is_of_one_model_and_dataset(source: dict[str, Any], target: dict[str, Any], why: str) -> None:
    assert explain_variant_refusal(make("a", **source), make("b", **target), "Offline") == why
