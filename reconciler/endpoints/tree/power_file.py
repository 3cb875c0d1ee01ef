"""system_power.json, derived from what the spec says of a system: its parts with their rated power, or one figure that
was published (rules §4.5.2, appendix E)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.endpoints.rules.power import find_cooling
from reconciler.errors import ReconcilerError
from reconciler.resource.quantities import parse_decimal, read_count

# Fields of a system's description that are of its power alone, and not shown in system_desc.json.
POWER_FIELDS = frozenset(
    {
        *("host_processor_tdp_w", "host_processor_tdp_source", "accelerator_tdp_w", "accelerator_tdp_source"),
        *("scale_up_switch_count", "scale_up_switch_w", "scale_up_switch_source"),
        *("published_node_power_w", "published_node_power_source", "provisioned_power_kw", "provisioned_power_source"),
    }
)


def make_power(system: str, description: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """``nodes``: the fields of each type of node, of which there is a set each; one set of equal nodes where nothing
    says more. What is not declared is left out, so that the checkers fill it with the rules' own figures, and the
    result is marked as estimated. Cooling that nobody names counts as air, which takes the greater overhead; so does
    one type of node that is cooled by air."""
    sets = nodes or (description,)
    cooling = {find_cooling(str(node.get("cooling", ""))) or "air" for node in sets}
    total = read_count(description.get("system_node_ensemble_total"), 1) if len(sets) == 1 else 1
    power: dict[str, Any] = {
        "system_desc_id": system,
        "cooling": "air" if "air" in cooling else min(cooling),
        "node_sets": [_make_set(number, node, total) for number, node in enumerate(sets)],
        "scale_out": {"present": False},
    }
    declared = _sourced(description, "provisioned_power_kw", "provisioned_power_source")
    return {**power, "declared_provisioned_power": declared} if declared else power


def _make_set(number: int, node: Mapping[str, Any], usual: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "node_set_id": number,
        "system_node_ensemble_id": read_count(node.get("system_node_ensemble_id"), 1),
        "nodes_provisioned": read_count(node.get("number_of_nodes"), usual),
    }
    published = _sourced(node, "published_node_power_w", "published_node_power_source")
    if published:
        return {**found, "power_method": "published_system", "published_power": published}
    return {**found, "power_method": "component_sum", "components": _components(node)}


def _components(description: Mapping[str, Any]) -> dict[str, Any]:
    switches = read_count(description.get("scale_up_switch_count"), 0)
    network: dict[str, Any] = {"method": "none"}
    if switches:
        network = {"method": "declared_tdp", "switch_count": switches}
        network |= _optional("tdp_per_switch", _sourced(description, "scale_up_switch_w", "scale_up_switch_source"))
    return {
        "cpu": _units(description, "host_processor_model_name", "host_processors_per_node", "host_processor_tdp", 1),
        "accelerator": _units(description, "accelerator_model_name", "accelerators_per_node", "accelerator_tdp", 0),
        "scale_up_network": network,
    }


def _units(description: Mapping[str, Any], model: str, count: str, rated: str, usual: int) -> dict[str, Any]:
    number = read_count(description.get(count), usual)
    block: dict[str, Any] = {"model": str(description.get(model, "")), "count_per_node": number}
    if not number:  # nothing is there, so that nobody has to say what it draws
        return {**block, "tdp_per_unit": {"value_w": 0, "source_type": "mlc_default", "source": "D.3"}}
    return block | _optional("tdp_per_unit", _sourced(description, f"{rated}_w", f"{rated}_source"))


def _optional(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value} if value else {}


def _sourced(description: Mapping[str, Any], value: str, source: str) -> dict[str, Any]:
    """A figure and the public page that says it."""
    stated = description.get(value)
    if stated in (None, ""):
        return {}
    unit = "value_kw" if value.endswith("_kw") else "value_w"
    number = parse_decimal(stated)
    if number is None:
        raise ReconcilerError(f"{value} is {stated!r}", fix="write a number")
    whole = int(number) if number == number.to_integral_value() else float(number)
    return {unit: whole, "source_type": "vendor_spec", "source": str(description.get(source, ""))}
