"""The worked figures of the rules' power model, and what a descriptor must not do."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from reconciler.endpoints.rules.curve_rules import load_endpoints_rules
from reconciler.endpoints.rules.power import (
    NodeSetPower,
    ProvisionedPower,
    compute_power,
    find_default,
    find_processor_default,
    find_switch_default,
)

_RULES = load_endpoints_rules()


def sourced(watts: float, **changes: Any) -> dict[str, Any]:
    return {"value_w": watts, "source_type": "vendor_spec", "source": "https://acme.example/spec", **changes}


def joules(amount: float, **changes: Any) -> dict[str, Any]:
    return {"value_pj": amount, "source_type": "vendor_spec", "source": "http://acme.example/link", **changes}


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
    stated = {"system_desc_id": "box", "cooling": "air", "node_sets": list(sets) or [node_set()]}
    return {**stated, "scale_out": {"present": False}, **changes}


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
    power = compute(networked(switches=[{**FABRIC["switches"][0], "bandwidth_tbps": 25.6}]))
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


SET, PARTS = ("node_sets", 0), ("node_sets", 0, "components")
PROCESSOR, LINK = (*PARTS, "cpu", "tdp_per_unit"), (*PARTS, "scale_up_network")
FABRIC: dict[str, Any] = {
    "present": True,
    "cabling": "passive",
    "required_bandwidth_tbps": 1.6,
    "nics": {"count_per_node": 4, "bandwidth_per_nic_gbps": 200, "counted": True, "tdp_per_nic": sourced(50)},
    "switches": [{"model": "X", "count": 1, "bandwidth_tbps": 1.6, "power_per_switch": sourced(900)}],
}


def networked(**changes: Any) -> dict[str, Any]:
    """Two nodes of four cards each."""
    return describe(node_set(nodes=2), scale_out={**copy.deepcopy(FABRIC), **changes})


def put(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    target: Any = made
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    return made


COMBINED = {"combined_cpu_accelerator": sourced(6000), "scale_up_network": {"method": "none"}}


def published(method: str, **changes: Any) -> dict[str, Any]:
    return describe(node_set(power_method=method, components=None, **changes))


CPU, RATED = (*PARTS, "cpu"), published("published_system", published_power=sourced(9000))
BY_BANDWIDTH = {"method": "bandwidth_estimate", "aggregate_bandwidth_tbps": 5}


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (describe(cooling="passive"), "cooling"),
        (describe(system_desc_id=""), "system_desc_id"),
        *((put(describe(), ("node_sets",), value), "node_sets") for value in ([], 7, ["box", 7])),
        (describe(declared_provisioned_power=joules(9000)), "declared_provisioned_power"),
        (describe(scale_out={}), "scale_out.present"),
        (describe(scale_out={"present": True}), "cabling, required_bandwidth_tbps, nics, switches"),
        (put(describe(), (*SET, "power_method"), "guess"), "power_method"),
        (put(describe(), PARTS, None), "components"),
        (put(describe(), LINK, None), "scale_up_network"),
        (put(describe(), (*PARTS, "combined_cpu_accelerator"), sourced(9000)), "combined_cpu_accelerator"),
        *(
            (put(describe(), PROCESSOR, value), "cpu.tdp_per_unit")
            for value in (
                *(None, 350, joules(5), sourced(-1), sourced(1, value_kw=1), sourced(1, value_w="many")),
                *(sourced(1, source="a friend"), sourced(1, source_type="guess"), sourced(1, source=7)),
                *(sourced(1, note="x"), sourced(1, source_type="mlc_default", source="D.5")),
            )
        ),
        (put(describe(), (*SET, "nodes_provisioned"), 0), "nodes_provisioned"),
        (put(describe(), CPU, None), "cpu and accelerator"),
        (put(describe(), (*PARTS, "accelerator"), None), "cpu and accelerator"),
        *((put(describe(), (*CPU, "count_per_node"), value), "cpu.count_per_node") for value in (None, -1)),
        *(
            (put(describe(), PARTS, {**COMBINED, part: {"tdp_per_unit": sourced(1)}}), "combined_cpu_accelerator")
            for part in ("cpu", "accelerator")
        ),
        (published("published_system", published_power=joules(5)), "node_sets[0].published_power"),
        *((published(method), "published_power") for method in ("published_system", "node_scaling")),
        (published("node_scaling", published_power=sourced(9), nodes_in_published_rack=1), "nodes_in_published_rack"),
        (put(describe(), LINK, {"method": "declared_tdp", "tdp_per_switch": sourced(5)}), "switch_count"),
        (
            put(describe(), LINK, {"method": "bandwidth_estimate", "energy_per_bit_pj": joules(5)}),
            "aggregate_bandwidth_tbps",
        ),
        (put(describe(), LINK, BY_BANDWIDTH), "energy_per_bit_pj"),
        (put(describe(), LINK, {**BY_BANDWIDTH, "energy_per_bit_pj": sourced(1)}), "energy_per_bit_pj"),
        *((networked(**{name: None}), name) for name in ("cabling", "required_bandwidth_tbps", "nics", "switches")),
        (networked(nics="four"), "scale_out.present"),
        (networked(nics={**FABRIC["nics"], "counted": False}), "scale_out.nics.counted"),
        (put(RATED, ("scale_out",), FABRIC), "scale_out.nics.counted"),
        (networked(required_bandwidth_tbps=1.59), "scale_out.required_bandwidth_tbps"),
        (networked(switches=[{"count": 1, "bandwidth_tbps": 1.5, "power_per_switch": sourced(900)}]), "1.5 of 1.6"),
        (networked(switches=[{"count": 1, "bandwidth_tbps": 1.6}]), "scale_out.switches[0]"),
        *(
            (put(document, ("computed",), {name: value}), f"computed.{name}")
            for document, name, value in (
                *((describe(), "major_components_w", 6000), (describe(), "overhead_fraction", 0.3)),
                *((describe(), "other_components_w", 3151), (describe(), "published_node_power_w", 1)),
                *((networked(), "scale_out_switch_power_w", 899), (describe(), "total_system_power_w", 9449)),
            )
        ),
        *((put(describe(), ("provisioned_power_kw",), value), "provisioned_power_kw") for value in (9.0, 9.44)),
    ],
)
def test_a_descriptor_with_a_mistake_has_no_power_and_names_its_place(document: dict[str, Any], named: str) -> None:
    power = compute(document)
    assert power.kilowatts is None
    assert [found for found in power.problems if named in found], power.problems


SHARE = {"count_per_node": 4, "bandwidth_per_nic_gbps": 200, "counted": True}
SWITCH = {"method": "declared_tdp", "tdp_per_switch": sourced(100)}
NARROW = {**FABRIC, "required_bandwidth_tbps": 0.8}


@pytest.mark.parametrize(
    ("document", "kilowatts", "estimated", "warnings"),
    [
        # 1.5 x (6300 + 25 x 8 x 5) and 1.5 x (6300 + 2 x 100)
        (
            put(describe(), LINK, {**BY_BANDWIDTH, "aggregate_bandwidth_tbps": 25, "energy_per_bit_pj": joules(5)}),
            *("10.95", [], 0),
        ),
        (put(describe(), LINK, {**SWITCH, "switch_count": 2}), "9.75", [], 0),
        (put(describe(), LINK, {**SWITCH, "switch_count": 0}), "9.45", [], 0),
        # one part in place of both: 1.5 x 6000
        (put(describe(), PARTS, COMBINED), "9.00", [], 0),
        (put(describe(), PARTS, {**COMBINED, "cpu": {"count_per_node": 2}, "accelerator": {}}), "9.00", [], 0),
        # 1.5 x (8 x 700) and the rules' own figure, said to be one
        (put(describe(), (*CPU, "count_per_node"), 0), "8.40", [], 0),
        (
            put(describe(), PROCESSOR, sourced(500, source_type="mlc_default", source="D.2")),
            *("9.90", ["node_sets[0].cpu.tdp_per_unit (D.2)"], 0),
        ),
        (put(describe(), PROCESSOR, sourced(0, value_kw=0.5, value_w=None)), "9.90", [], 0),
        (put(describe(), PROCESSOR, sourced(0)), "8.40", [], 0),
        # 1.5 x (2 x 6300 + 2 x 4 x 75) + 900: a card's own figure is that of the rules
        (networked(nics=SHARE), "20.70", ["scale_out.nics.tdp_per_nic (D.4)"], 0),
        (
            networked(switches=[{"model": "SN5610", "count": 2, "bandwidth_tbps": 0.8}]),
            *("21.30", ["scale_out.switches[0] (D.4)"], 0),
        ),
        (networked(required_bandwidth_tbps=1.6), "20.40", [], 0),
        (
            networked(required_bandwidth_tbps=1.7, switches=[{**FABRIC["switches"][0], "bandwidth_tbps": 1.7}]),
            *("20.40", [], 1),
        ),
        (put(describe(), ("scale_out",), FABRIC), "10.65", [], 2),  # a single node, and more than its cards carry
        # cards that a published power leaves out: 9000 + 1.5 x 4 x 50 + 900
        (
            put(RATED, ("scale_out",), {**NARROW, "nics": {**FABRIC["nics"], "excluded_from_published_power": True}}),
            *("10.20", [], 1),
        ),
        (put(RATED, ("scale_out",), {**NARROW, "nics": {**FABRIC["nics"], "counted": False}}), "9.90", [], 1),
        # within half a watt, and five watts of the whole
        (put(describe(), ("computed",), {"major_components_w": 6300.5, "overhead_fraction": 0.5}), "9.45", [], 0),
        (put(describe(), ("provisioned_power_kw",), 9.455), "9.45", [], 0),
        (put(describe(), ("computed",), {"overhead_fraction": 0.500001}), "9.45", [], 0),
        (put(put(describe(), PROCESSOR, None), ("declared_provisioned_power",), sourced(9000)), "9.00", [], 0),
    ],
)
def test_each_way_to_state_a_part_gives_its_watts(
    document: dict[str, Any], kilowatts: str, estimated: list[str], warnings: int
) -> None:
    power = compute(document)
    assert power.problems == []
    assert (str(power.kilowatts), power.estimated, len(power.warnings)) == (kilowatts, estimated, warnings)


def mixed() -> dict[str, Any]:
    """Four nodes of their parts and two of a published power, of which the first alone have network cards."""
    published_set = node_set(5, 2, power_method="published_system", published_power=sourced(9000), components=None)
    parts = {**copy.deepcopy(FABRIC), "required_bandwidth_tbps": 4.8}
    parts["switches"][0]["bandwidth_tbps"] = 4.8
    return describe(node_set(3, 4), published_set, scale_out=parts)


def test_each_set_of_nodes_has_the_watts_of_all_its_nodes() -> None:
    power = compute_power(mixed(), _RULES, {}, {5: 0})
    assert power.problems == []
    # 1.5 x 4 x (6300 + 4 x 50), and 2 x 9000 as published
    assert power.sets == (NodeSetPower(3, 4, Decimal(39_000), 8), NodeSetPower(5, 2, Decimal(18_000), 0))
    assert (power.switches, power.kilowatts, power.declared) == (Decimal(900), Decimal("57.90"), False)
    assert power.accelerators == 4 * 8


def test_a_point_of_a_system_without_sets_has_the_power_of_the_system() -> None:
    assert ProvisionedPower(kilowatts=Decimal(5)).find_point_kilowatts({0: 1}) == 5
    assert compute(describe(system_desc_id="")).find_point_kilowatts({0: 1}) is None
