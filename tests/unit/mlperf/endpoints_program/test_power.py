"""The worked figures of the rules' power model, and what a descriptor must not do."""

from __future__ import annotations

import copy
from decimal import Decimal
from typing import Any

import pytest

from reconciler.rules.endpoints_program.power import (
    NodeSetPower,
    ProvisionedPower,
    compute_power,
    find_cooling,
    find_default,
    find_processor_default,
    find_switch_default,
)
from reconciler.rules.endpoints_program.rules import load_endpoints_rules

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
    absent = {"present": False}
    return {
        "system_desc_id": "box",
        "cooling": "air",
        "node_sets": list(sets) or [node_set()],
        "scale_out": absent,
        **changes,
    }


LACKING = node_set()
LACKING["components"]["cpu"] = {"count_per_node": 2}


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
    ("words", "cooling"),
    [
        ("liquid-cooled with air-cooled PSUs", "liquid"),
        ("Warm water, doors", "liquid"),
        ("Immersion", "liquid"),
        ("Air", "air"),
        ("passive", ""),
    ],
)
def test_cooling_is_read_from_its_words(words: str, cooling: str) -> None:
    assert find_cooling(words) == cooling


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        (("cooling",), "passive", "cooling is 'passive'"),
        (("system_desc_id",), "", "system_desc_id is missing"),
        (("node_sets",), [], "node_sets is empty"),
        (("node_sets",), 7, "node_sets is empty"),
        (("node_sets",), ["box", 7], "node_sets is empty"),
        (("declared_provisioned_power",), joules(9000), "declared_provisioned_power is an energy, watts are needed"),
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


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        pytest.param({}, [], id="honest"),
        pytest.param(
            {"provisioned_power_kw": 9.0}, ["provisioned_power_kw is 9.0, 9.45 follows from its parts"], id="lie"
        ),
        pytest.param({"provisioned_power_kw": 9.0, "system_desc_id": ""}, ["system_desc_id is missing"], id="problem"),
        pytest.param(
            {"provisioned_power_kw": 9.0, "node_sets": [LACKING]},
            ["node_sets[0].cpu.tdp_per_unit is missing, and the rules have no figure for it"],
            id="gap",
        ),
        pytest.param(
            {
                "computed": {"major_components_w": 6000},
                "node_sets": [LACKING],
                "declared_provisioned_power": sourced(9000),
            },
            [],
            id="gap beneath a declared power",
        ),
        pytest.param(
            {"computed": {"major_components_w": 6000}, "declared_provisioned_power": sourced(9000)},
            ["computed.major_components_w is 6000, 6300.0 follows from its parts"],
            id="lie beneath a declared power",
        ),
    ],
)
def test_stated_figures_are_compared_where_all_of_ours_are_whole(changes: dict[str, Any], problems: list[str]) -> None:
    assert compute(describe(**changes)).problems == problems


SET, PARTS = ("node_sets", 0), ("node_sets", 0, "components")
PROCESSOR, LINK = (*PARTS, "cpu", "tdp_per_unit"), (*PARTS, "scale_up_network")
OF_LINK = "node_sets[0].scale_up_network"
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


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (put(describe(), PROCESSOR, 350), "node_sets[0].cpu.tdp_per_unit is not a value with a source"),
        (put(describe(), PROCESSOR, joules(5)), "node_sets[0].cpu.tdp_per_unit is an energy, watts are needed"),
        (
            put(describe(), PROCESSOR, sourced(-1)),
            "node_sets[0].cpu.tdp_per_unit needs one of value_w, value_kw, value_pj",
        ),
        (
            put(describe(), PROCESSOR, sourced(1, source_type="mlc_default", source="D.5")),
            "node_sets[0].cpu.tdp_per_unit is from 'D.5', not from D.1, D.2, D.3, D.4",
        ),
        (put(describe(), (*SET, "nodes_provisioned"), 0), "has no nodes_provisioned above 0 or no power_method"),
        (put(describe(), (*PARTS, "cpu"), None), "cpu and accelerator are needed, or combined_cpu_accelerator"),
        (put(describe(), (*PARTS, "accelerator"), None), "cpu and accelerator are needed, or combined_cpu_accelerator"),
        (put(describe(), (*PARTS, "cpu", "count_per_node"), None), "node_sets[0].cpu.count_per_node is missing"),
        (put(describe(), (*PARTS, "cpu", "count_per_node"), -1), "node_sets[0].cpu.count_per_node is missing"),
        (
            put(describe(), PROCESSOR, sourced(1, value_w="many")),
            "node_sets[0].cpu.tdp_per_unit needs one of value_w, value_kw, value_pj",
        ),
        (put(describe(), PROCESSOR, sourced(1, source=7)), "node_sets[0].cpu.tdp_per_unit has no source of a known"),
        (
            put(describe(), PARTS, {**COMBINED, "cpu": {"tdp_per_unit": sourced(1)}}),
            "node_sets[0]: combined_cpu_accelerator stands beside its parts",
        ),
        (
            put(describe(), PARTS, {**COMBINED, "accelerator": {"tdp_per_unit": sourced(1)}}),
            "node_sets[0]: combined_cpu_accelerator stands beside its parts",
        ),
        (
            published("published_system", published_power=joules(5)),
            "node_sets[0].published_power is an energy, watts are needed",
        ),
        (published("published_system"), "node_sets[0]: published_system needs published_power"),
        (published("node_scaling"), "node_sets[0]: node_scaling needs published_power"),
        (
            published("node_scaling", published_power=sourced(9000), nodes_in_published_rack=1),
            "node_sets[0]: node_scaling needs nodes_in_published_rack above 1",
        ),
        (
            put(describe(), LINK, {"method": "declared_tdp", "tdp_per_switch": sourced(5)}),
            f"{OF_LINK}: declared_tdp needs switch_count",
        ),
        (
            put(describe(), LINK, {"method": "bandwidth_estimate", "energy_per_bit_pj": joules(5)}),
            f"{OF_LINK}: bandwidth_estimate needs aggregate_bandwidth_tbps",
        ),
        (
            put(describe(), LINK, {"method": "bandwidth_estimate", "aggregate_bandwidth_tbps": 5}),
            f"{OF_LINK}.energy_per_bit_pj is missing",
        ),
        (
            put(
                describe(),
                LINK,
                {"method": "bandwidth_estimate", "aggregate_bandwidth_tbps": 5, "energy_per_bit_pj": sourced(1)},
            ),
            f"{OF_LINK}.energy_per_bit_pj needs value_pj",
        ),
        (networked(cabling=None), "scale_out.present is true, and cabling is missing"),
        (networked(required_bandwidth_tbps=None), "scale_out.present is true, and required_bandwidth_tbps is missing"),
        (networked(nics=None), "scale_out.present is true, and nics is missing"),
        (networked(switches=None), "scale_out.present is true, and switches is missing"),
        (networked(nics="four"), "scale_out.present is true, and its parts is missing"),
        (
            networked(nics={**FABRIC["nics"], "counted": False}),
            "scale_out.nics.counted is false, and nothing else counts them",
        ),
        (
            put(published("published_system", published_power=sourced(9000)), ("scale_out",), FABRIC),
            "scale_out.nics.counted is true beside a published power, which has them in it",
        ),
        (
            networked(required_bandwidth_tbps=1.59),
            "scale_out.required_bandwidth_tbps is 1.59, the cards carry 1.6",
        ),
        (
            networked(switches=[{"count": 1, "bandwidth_tbps": 1.5, "power_per_switch": sourced(900)}]),
            "scale-out switches offer 1.5 Tb/s of 1.6",
        ),
        (
            networked(switches=[{"count": 1, "bandwidth_tbps": 1.6}]),
            "scale_out.switches[0] is missing, and the rules have no figure for it",
        ),
        (
            put(describe(), ("computed",), {"other_components_w": 3151}),
            "computed.other_components_w is 3151, 3150.0 follows from its parts",
        ),
        (
            put(describe(), ("computed",), {"published_node_power_w": 1}),
            "computed.published_node_power_w is 1, 0.0 follows from its parts",
        ),
        (
            put(networked(), ("computed",), {"scale_out_switch_power_w": 899}),
            "computed.scale_out_switch_power_w is 899, 900.0 follows from its parts",
        ),
        (
            put(describe(), ("computed",), {"total_system_power_w": 9449}),
            "computed.total_system_power_w is 9449, 9450.0 follows from its parts",
        ),
        (put(describe(), ("provisioned_power_kw",), 9.44), "provisioned_power_kw is 9.44, 9.45 follows from its parts"),
    ],
)
def test_each_part_of_a_descriptor_is_refused_in_words_of_its_own(document: dict[str, Any], problem: str) -> None:
    power = compute(document)
    assert power.kilowatts is None
    assert [found for found in power.problems if problem in found], power.problems


SHARE = {"count_per_node": 4, "bandwidth_per_nic_gbps": 200, "counted": True}
ADDRESS = {"source_type": "vendor_spec", "source": "https://acme.example/spec"}


@pytest.mark.parametrize(
    ("document", "kilowatts", "estimated", "warnings"),
    [
        # 1.5 x (6300 + 25 x 8 x 5) and 1.5 x (6300 + 2 x 100)
        (
            put(
                describe(),
                LINK,
                {"method": "bandwidth_estimate", "aggregate_bandwidth_tbps": 25, "energy_per_bit_pj": joules(5)},
            ),
            "10.95",
            [],
            [],
        ),
        (
            put(describe(), LINK, {"method": "declared_tdp", "switch_count": 2, "tdp_per_switch": sourced(100)}),
            "9.75",
            [],
            [],
        ),
        (
            put(describe(), LINK, {"method": "declared_tdp", "switch_count": 0, "tdp_per_switch": sourced(100)}),
            "9.45",
            [],
            [],
        ),
        # one part in place of both: 1.5 x 6000
        (put(describe(), PARTS, COMBINED), "9.00", [], []),
        (put(describe(), PARTS, {**COMBINED, "cpu": {"count_per_node": 2}, "accelerator": {}}), "9.00", [], []),
        # 1.5 x (8 x 700) and the rules' own figure, said to be one
        (put(describe(), (*PARTS, "cpu", "count_per_node"), 0), "8.40", [], []),
        (
            put(describe(), PROCESSOR, sourced(500, source_type="mlc_default", source="D.2")),
            "9.90",
            ["node_sets[0].cpu.tdp_per_unit (D.2)"],
            [],
        ),
        (put(describe(), PROCESSOR, {"value_kw": 0.5, **ADDRESS}), "9.90", [], []),
        (put(describe(), PROCESSOR, sourced(0)), "8.40", [], []),
        # 1.5 x (2 x 6300 + 2 x 4 x 75) + 900: a card's own figure is that of the rules
        (networked(nics=SHARE), "20.70", ["scale_out.nics.tdp_per_nic (D.4)"], []),
        (
            networked(switches=[{"model": "SN5610", "count": 2, "bandwidth_tbps": 0.8}]),
            "21.30",
            ["scale_out.switches[0] (D.4)"],
            [],
        ),
        (networked(required_bandwidth_tbps=1.6), "20.40", [], []),
        (
            networked(
                required_bandwidth_tbps=1.7,
                switches=[{"count": 1, "bandwidth_tbps": 1.7, "power_per_switch": sourced(900)}],
            ),
            "20.40",
            [],
            ["scale_out.required_bandwidth_tbps is 1.7, the cards carry 1.6"],
        ),
        (
            put(describe(), ("scale_out",), FABRIC),
            "10.65",
            [],
            [
                "scale_out.present is true for a single node",
                "scale_out.required_bandwidth_tbps is 1.6, the cards carry 0.8",
            ],
        ),
        # cards that a published power leaves out: 9000 + 1.5 x 4 x 50 + 900
        (
            put(
                published("published_system", published_power=sourced(9000)),
                ("scale_out",),
                {
                    **FABRIC,
                    "required_bandwidth_tbps": 0.8,
                    "nics": {**FABRIC["nics"], "excluded_from_published_power": True},
                },
            ),
            "10.20",
            [],
            ["scale_out.present is true for a single node"],
        ),
        (
            put(
                published("published_system", published_power=sourced(9000)),
                ("scale_out",),
                {**FABRIC, "required_bandwidth_tbps": 0.8, "nics": {**FABRIC["nics"], "counted": False}},
            ),
            "9.90",
            [],
            ["scale_out.present is true for a single node"],
        ),
        # within half a watt, and five watts of the whole
        (put(describe(), ("computed",), {"major_components_w": 6300.5, "overhead_fraction": 0.5}), "9.45", [], []),
        (put(describe(), ("provisioned_power_kw",), 9.455), "9.45", [], []),
        (put(describe(), ("computed",), {"overhead_fraction": 0.500001}), "9.45", [], []),
        (put(put(describe(), PROCESSOR, None), ("declared_provisioned_power",), sourced(9000)), "9.00", [], []),
    ],
)
def test_each_way_to_state_a_part_gives_its_watts(
    document: dict[str, Any], kilowatts: str, estimated: list[str], warnings: list[str]
) -> None:
    power = compute(document)
    assert power.problems == []
    assert (str(power.kilowatts), power.estimated, power.warnings) == (kilowatts, estimated, warnings)


@pytest.mark.parametrize("source", ["D.1", "D.2", "D.3", "D.4"])
def test_figures_of_every_appendix_of_the_rules_are_taken(source: str) -> None:
    power = compute(put(describe(), PROCESSOR, sourced(350, source_type="mlc_default", source=source)))
    assert (str(power.kilowatts), power.estimated) == ("9.45", [f"node_sets[0].cpu.tdp_per_unit ({source})"])


@pytest.mark.parametrize("kind", ["vendor_spec", "publication", "public_statement"])
def test_figures_of_others_have_an_address(kind: str) -> None:
    assert compute(put(describe(), PROCESSOR, sourced(350, source_type=kind))).problems == []
    (problem,) = compute(put(describe(), PROCESSOR, sourced(350, source_type=kind, source="D.2"))).problems
    assert problem.endswith("is from 'D.2', which is not an address")


def test_accelerators_are_those_of_the_descriptor_or_of_the_system_description() -> None:
    two = describe(node_set(0, 3), node_set(1, 2), scale_out={**FABRIC, "required_bandwidth_tbps": 4})
    assert compute_power(two, _RULES, {}, {}).accelerators == 3 * 8 + 2 * 8
    del two["node_sets"][1]["components"]["accelerator"]["count_per_node"]
    assert compute_power(two, _RULES, {}, {}).accelerators is None
    assert compute_power(two, _RULES, {}, {1: 4}).accelerators == 3 * 8 + 2 * 4
    assert compute_power(two, _RULES, {}, {0: 4}).accelerators is None


@pytest.mark.parametrize(
    ("model", "cores", "watts"),
    [
        ("Xeon 8592+", 64, 350),
        ("Xeon 8592+", 65, 500),
        ("EPYC 9575F 64-core", None, 350),
        ("EPYC 9755 128 Core", None, 500),
        ("EPYC 9755 128 Core", 64, 350),  # the system description says so
        ("NVIDIA Grace", 128, 300),
        ("NVIDIA Grace", 129, None),
        ("Epyclike", 64, None),
        (None, 64, None),
    ],
)
def test_a_processors_figure_goes_by_its_architecture_and_cores(
    model: str | None, cores: int | None, watts: int | None
) -> None:
    found = None if watts is None else (Decimal(watts), "D.2")
    assert find_processor_default(model, cores, _RULES) == found
    estimated = put(describe(node_set(3)), (*PARTS, "cpu"), {"count_per_node": 2, "model": model})
    power = compute_power(estimated, _RULES, {} if cores is None else {3: cores}, {})
    assert (power.kilowatts is None) == (watts is None)


def test_two_sets_of_one_name_and_joined_by_nothing_are_refused() -> None:
    twins = compute(describe(node_set(0), node_set(0)))
    assert "two node sets have one node_set_id" in twins.problems
    assert any("for 2 nodes" in problem for problem in twins.problems)


@pytest.mark.parametrize("watts", [{}, {"declared_provisioned_power": sourced(12_000)}], ids=["computed", "declared"])
def test_figures_are_held_against_parts_alone_of_which_all_are_known(watts: dict[str, Any]) -> None:
    """A declared power needs no parts, and what stands in their place is not denied by what is left of them."""
    computed = {"computed": {"major_components_w": 1}, **watts}
    denied = "computed.major_components_w is 1, 6300.0 follows from its parts"
    assert compute(describe(**computed)).problems == [denied]
    nameless = compute(describe(system_desc_id="", **computed))
    assert nameless.kilowatts is None
    assert nameless.problems == ["system_desc_id is missing"]
    gap = put(describe(**computed), (*PARTS, "cpu", "tdp_per_unit"), None)
    assert not any("follows from its parts" in found for found in compute(gap).problems)
    assert compute(gap).kilowatts == (Decimal("12.00") if watts else None)


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
    assert power.sets == (
        NodeSetPower(3, 3, 4, Decimal(39_000), 8),
        NodeSetPower(5, 5, 2, Decimal(18_000), 0),
    )
    assert (power.switches, power.kilowatts, power.declared) == (Decimal(900), Decimal("57.90"), False)
    assert power.accelerators == 4 * 8


@pytest.mark.parametrize(
    ("nodes", "kilowatts"),
    [
        ({}, "57.90"),
        ({3: 4, 5: 2}, "57.90"),
        ({3: 2}, "38.10"),  # 19500 + 18000 + 900 x 4 / 6
        ({3: 1, 5: 1}, "19.05"),  # 9750 + 9000 + 900 x 2 / 6
        ({3: 8, 5: 4}, "115.80"),  # whoever claims more nodes than there are pays for them
    ],
    ids=str,
)
def test_a_point_has_the_watts_of_its_nodes_and_their_share_of_the_switches(
    nodes: dict[int, int], kilowatts: str
) -> None:
    assert compute_power(mixed(), _RULES, {}, {}).find_point_kilowatts(nodes) == Decimal(kilowatts)


def test_a_point_of_a_system_without_sets_has_the_power_of_the_system() -> None:
    assert ProvisionedPower(kilowatts=Decimal(5)).find_point_kilowatts({0: 1}) == 5
    assert compute(describe(system_desc_id="")).find_point_kilowatts({0: 1}) is None


@pytest.mark.parametrize(("stated", "count"), [(0, 0), (3, 3), (-1, 8), (None, 8), (2.5, 8)], ids=str)
def test_accelerators_that_a_set_does_not_count_are_those_of_its_system(stated: Any, count: int) -> None:
    parts = {"accelerator": {"count_per_node": stated}}
    told = describe(node_set(power_method="published_system", published_power=sourced(9000), components=parts))
    assert compute_power(told, _RULES, {}, {0: 8}).accelerators == count


def test_a_set_of_which_a_part_is_not_known_has_no_watts() -> None:
    power = compute(describe(LACKING, declared_provisioned_power=sourced(9000)))
    assert (power.problems, [item.watts for item in power.sets]) == ([], [0])
