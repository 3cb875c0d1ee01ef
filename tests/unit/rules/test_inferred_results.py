"""When a cell may take the runs of another scenario, and what is said where it may not."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from msgspec.structs import replace

from reconciler.desired.checks import explain_refusal
from reconciler.resource.ruled_values import Inference
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset


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
def test_scenario_that_is_not_inferred_says_from_what_it_may_be(
    source: str, scenario: str, category: str, why: str
) -> None:
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
