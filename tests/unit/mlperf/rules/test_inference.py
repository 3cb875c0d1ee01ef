"""When a cell may take the runs of another scenario, and what is said where it may not."""

from __future__ import annotations

import pytest

from reconciler.mlperf.rules.inference import explain_refusal
from reconciler.mlperf.rules.rounds import load_ruleset


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
