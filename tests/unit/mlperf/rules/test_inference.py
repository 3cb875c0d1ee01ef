"""When a cell may take the runs of another scenario or variant, and what is said where it may not."""

from __future__ import annotations

import pytest

from reconciler.mlperf.rules.inference import explain_refusal, explain_variant_refusal
from reconciler.mlperf.rules.rounds import load_ruleset
from reconciler.mlperf.rules.ruled_value import RuledValue
from reconciler.mlperf.rules.ruleset import BenchmarkRules


@pytest.mark.parametrize(
    ("source", "target", "strict"),
    [
        pytest.param({"least": "10"}, {"least": "10"}, True, id="as high"),
        pytest.param({"least": "11"}, {"least": "10"}, True, id="higher"),
        pytest.param({"least": "9"}, {"least": "10"}, False, id="lower"),
        pytest.param({"most": "10"}, {"most": "10"}, True, id="as low"),
        pytest.param({"most": "9"}, {"most": "10"}, True, id="less"),
        pytest.param({"most": "11"}, {"most": "10"}, False, id="more"),
        pytest.param({"least": "11", "most": "12"}, {"least": "10", "most": "12"}, True, id="a narrower range"),
        pytest.param({"least": "11", "most": "13"}, {"least": "10", "most": "12"}, False, id="a moved range"),
        pytest.param({"least": "9", "most": "11"}, {"least": "10", "most": "12"}, False, id="a range moved down"),
        pytest.param({"least": "11"}, {"least": "10", "most": "12"}, False, id="no upper bound"),
        pytest.param({"most": "11"}, {"least": "10", "most": "12"}, False, id="no lower bound"),
        pytest.param({"least": "10", "most": "11"}, {"least": "10"}, True, id="one bound more"),
    ],
)
def test_bar_is_stricter_on_both_sides(source: dict[str, str], target: dict[str, str], strict: bool) -> None:
    def variant(name: str, bounds: dict[str, str]) -> BenchmarkRules:
        ruled = {f"accuracy.F1.{side}": RuledValue(bound, ("policy",)) for side, bound in bounds.items()}
        tables = RuledValue("", ("policy",))
        return BenchmarkRules(name, "v6.1", tables={}, tables_ruled=tables, levels={"": (ruled,)})

    why = explain_variant_refusal(variant("fine", source), variant("coarse", target), "Offline")
    assert why == ("" if strict else "fine does not have the stricter bar for F1")


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
