"""The worked figures of the rules' power model, and what a descriptor must not do."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from reconciler.mlperf.endpoints_program.power import (
    ProvisionedPower,
    compute_power,
    find_cooling,
    find_default,
    find_processor_default,
    find_switch_default,
)
from reconciler.mlperf.endpoints_program.rules import load_endpoints_rules

_RULES = load_endpoints_rules()


def sourced(watts: float, **changes: Any) -> dict[str, Any]:
    return {"value_w": watts, "source_type": "vendor_spec", "source": "https://acme.example/spec", **changes}


def node_set(number: int = 0, nodes: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "node_set_id": number,
        "system_node_ensemble_id": number,
        "nodes_provisioned": nodes,
        "power_method": "component_sum",
        "components": {
            "cpu": {"count_per_node": 2, "tdp_per_unit": sourced(350)},
            "accelerator": {"count_per_node": 8, "tdp_per_unit": sourced(700)},
            "scale_up_network": {"method": "none"},
        },
        **changes,
    }


def describe(*sets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    absent = {"present": False}
    return {
        "system_desc_id": "box",
        "cooling": "air",
        "node_sets": list(sets) or [node_set()],
        "scale_out": absent,
        **changes,
    }


def compute(document: dict[str, Any]) -> ProvisionedPower:
    return compute_power(document, _RULES, {}, {})


def test_components_take_the_overhead_of_their_cooling() -> None:
    # 2 x 350 + 8 x 700 = 6300 W; half as much again where it is cooled by air, 30 % by liquid.
    assert compute(describe()).kilowatts == Decimal("9.45")
    assert compute(describe(cooling="liquid")).kilowatts == Decimal("8.19")


def test_a_published_power_takes_no_overhead() -> None:
    published = node_set(power_method="published_system", published_power=sourced(10_000), nodes=2, components=None)
    power = compute(describe(published, scale_out={"present": False}))
    assert (power.kilowatts, power.warnings) == (Decimal("20.00"), ["scale_out.present is false for 2 nodes"])
    part = {"power_method": "node_scaling", "published_power": sourced(0, value_kw=140, value_w=None)}
    rack = node_set(nodes=9, nodes_in_published_rack=18, components=None, **part)
    assert compute(describe(rack)).kilowatts == Decimal("70.00")


def test_network_cards_take_the_overhead_and_switches_do_not() -> None:
    fabric = {
        "present": True,
        "cabling": "passive",
        "required_bandwidth_tbps": 1.6,
        "nics": {"count_per_node": 4, "bandwidth_per_nic_gbps": 200, "counted": True, "tdp_per_nic": sourced(50)},
        "switches": [{"model": "X", "count": 1, "bandwidth_tbps": 25.6, "power_per_switch": sourced(900)}],
    }
    power = compute(describe(node_set(nodes=2), scale_out=fabric))
    # 1.5 x (2 x 6300 + 2 x 4 x 50) + 900
    assert power.kilowatts == Decimal("20.40")
    assert power.find_point_kilowatts({0: 1}) == Decimal("10.20")
    assert power.find_point_kilowatts({}) == power.kilowatts


def test_a_declared_power_governs_and_is_shared_out_by_the_largest_part() -> None:
    declared = sourced(0, value_kw=12, value_w=None)
    joined = {"method": "declared_tdp", "switch_count": 1, "tdp_per_switch": sourced(100)}
    sets = [node_set(0, 4), node_set(1, 2)]
    for item in sets:
        item["components"]["scale_up_network"] = joined
    power = compute(describe(*sets, declared_provisioned_power=declared))
    assert power.declared
    assert power.kilowatts == Decimal("12.00")
    assert power.find_point_kilowatts({0: 2}) == Decimal("12.00")
    assert power.find_point_kilowatts({0: 2, 1: 1}) == Decimal("6.00")


def test_what_is_left_out_is_filled_with_the_rules_own_figures_and_marked() -> None:
    left_out = node_set()
    left_out["components"]["cpu"] = {"model": "AMD EPYC 96-Core", "count_per_node": 2}
    left_out["components"]["accelerator"] = {"model": "NVIDIA GB300", "count_per_node": 4}
    power = compute(describe(left_out))
    assert power.kilowatts == Decimal("9.90")  # 1.5 x (2 x 500 + 4 x 1400)
    assert len(power.estimated) == 2


def test_defaults_are_those_of_the_named_part() -> None:
    assert find_default("NVIDIA B300 SXM", _RULES) == (Decimal(1100), "D.3")
    assert find_default("H100", _RULES) is None
    assert find_processor_default("Intel Xeon", 64, _RULES) == (Decimal(350), "D.2")
    assert find_processor_default("NVIDIA Grace", 144, _RULES) is None
    assert find_processor_default("Xeon", None, _RULES) is None
    assert find_switch_default("SN5610", "active_optical", _RULES) == (Decimal(2080), "D.4")
    assert find_switch_default("SN5400", "active_optical", _RULES) is None


@pytest.mark.parametrize(
    ("words", "cooling"), [("liquid-cooled with air-cooled PSUs", "liquid"), ("Air", "air"), ("passive", "")]
)
def test_cooling_is_read_from_its_words(words: str, cooling: str) -> None:
    assert find_cooling(words) == cooling


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("cooling",), "passive", "cooling is 'passive'"),
        (("system_desc_id",), "", "system_desc_id is missing"),
        (("node_sets",), [], "node_sets is empty"),
        (("scale_out",), {}, "scale_out.present is missing"),
        (("scale_out",), {"present": True}, "and cabling, required_bandwidth_tbps, nics, switches is missing"),
        (("node_sets", 0, "power_method"), "guess", "no power_method"),
        (("node_sets", 0, "components"), None, "component_sum needs components"),
        (("node_sets", 0, "components", "scale_up_network"), None, "scale_up_network is missing"),
        (("node_sets", 0, "components", "combined_cpu_accelerator"), sourced(9000), "stands beside its parts"),
        (("node_sets", 0, "components", "cpu", "tdp_per_unit"), sourced(1, value_kw=1), "needs one of"),
        (
            ("node_sets", 0, "components", "cpu", "tdp_per_unit"),
            sourced(1, source="a friend"),
            "which is not an address",
        ),
        (
            ("node_sets", 0, "components", "cpu", "tdp_per_unit"),
            sourced(1, source_type="guess"),
            "source of a known type",
        ),
        (("node_sets", 0, "components", "cpu", "tdp_per_unit"), sourced(1, note="x"), "has note"),
        (("node_sets", 0, "components", "cpu", "tdp_per_unit"), None, "the rules have no figure"),
        (("provisioned_power_kw",), 9.0, "provisioned_power_kw is 9.0"),
        (("computed",), {"major_components_w": 6000}, "computed.major_components_w is 6000"),
        (("computed",), {"overhead_fraction": 0.3}, "computed.overhead_fraction is 0.3"),
    ],
)
def test_a_descriptor_that_determines_no_power_is_refused(place: tuple[Any, ...], value: Any, problem: str) -> None:
    document = copy.deepcopy(describe())
    target: Any = document
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    power = compute(document)
    assert power.kilowatts is None
    assert any(problem in found for found in power.problems), power.problems


def test_two_sets_of_one_name_and_joined_by_nothing_are_refused() -> None:
    twins = compute(describe(node_set(0), node_set(0)))
    assert "two node sets have one node_set_id" in twins.problems
    assert any("for 2 nodes" in problem for problem in twins.problems)
