"""Compute the provisioned power of a system and of a point from system_power.json (rules §4.5, appendices D and E).

Two terms get no overhead: the published power of nodes, which includes it, and scale-out switches, whose power is
measured at the wall. The rules' own figures replace values missing in the descriptor, which are marked as estimated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, TypeVar

from msgspec import Struct, field

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.resource.quantities import is_whole, parse_number
from reconciler.storage.documents import ResultDocument

T = TypeVar("T")
_ZERO = Decimal(0)
_KILO = Decimal(1000)
_CENTS = Decimal("0.01")
_WIDE = Context(prec=4000)  # even a wrong number in a descriptor can be shown
_SOURCE_TYPES = ("vendor_spec", "publication", "public_statement", "mlc_default")
_DEFAULT = "mlc_default"
_APPENDIX = ("D.1", "D.2", "D.3", "D.4")
_METHODS = ("component_sum", "published_system", "node_scaling")
_FABRIC = ("cabling", "required_bandwidth_tbps", "nics", "switches")
_VALUES = ("value_w", "value_kw", "value_pj")
_WATT_TOLERANCE, _KILOWATT_TOLERANCE = Decimal("0.5"), Decimal("0.005")
_NEAR = Decimal("0.000001")
_LIQUID = ("liquid", "water", "immersion")


class NodeSetPower(Struct, frozen=True):
    """A set of identical nodes. ``watts``: of all its nodes, without scale-out switches; ``accelerators``: per node,
    None if the descriptor does not state them."""

    ensemble: int
    nodes: int
    watts: Decimal
    accelerators: int | None


class ProvisionedPower(Struct):
    """``kilowatts``: None if the descriptor does not determine it, as ``problems`` explain; ``declared``: one figure
    for the system, which cannot be divided among sets; ``estimated``: values replaced by the rules' own figures."""

    sets: tuple[NodeSetPower, ...] = ()
    switches: Decimal = _ZERO
    kilowatts: Decimal | None = None
    declared: bool = False
    estimated: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def find_point_kilowatts(self, nodes: Mapping[int, int]) -> Decimal | None:
        """Find the power of a point that uses ``nodes`` of each ensemble, and all nodes of other ensembles."""
        if self.kilowatts is None or not self.sets:
            return self.kilowatts
        shares = [(item, Decimal(nodes.get(item.ensemble, item.nodes)) / item.nodes) for item in self.sets]
        if all(share == 1 for _, share in shares):
            return self.kilowatts
        if self.declared:
            return _round(self.kilowatts * max(share for _, share in shares))
        engaged = sum((item.nodes * share for item, share in shares), _ZERO)
        watts = sum((item.watts * share for item, share in shares), _ZERO)
        return _round((watts + self.switches * engaged / sum(item.nodes for item in self.sets)) / _KILO)

    @property
    def accelerators(self) -> int | None:
        """Return the number of accelerators in the system, None if a set does not state it."""
        known = [item.nodes * item.accelerators for item in self.sets if item.accelerators is not None]
        return sum(known) if len(known) == len(self.sets) else None


def _round(value: Decimal) -> Decimal:
    return value.quantize(_CENTS, ROUND_HALF_EVEN, _WIDE)


def find_cooling(words: str) -> str:
    """Return the "liquid" or "air" that a system description mentions, "" for neither."""
    text = words.lower()
    if any(word in text for word in _LIQUID):
        return "liquid"
    return "air" if "air" in text else ""


def compute_power(
    document: Mapping[str, Any], rules: CurveRules, cores: Mapping[int, int], accelerators: Mapping[int, int]
) -> ProvisionedPower:
    """Compute a system's power. ``cores`` and ``accelerators``: per node by ensemble, from the system description."""
    power = ProvisionedPower()
    sums = _Sums(power, rules)
    overheads = rules.values.overhead
    cooling = document.get("cooling")
    if not isinstance(cooling, str) or cooling not in overheads:
        power.problems.append(f"cooling is {cooling!r}, expected {' or '.join(overheads)}")
    overhead = overheads.get(str(cooling), _ZERO)
    if not document.get("system_desc_id"):
        power.problems.append("system_desc_id is missing")
    listed = document.get("node_sets")
    sets = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    if not sets:
        power.problems.append("node_sets is empty")
    ids = [item.get("node_set_id") for item in sets]
    if len(set(map(str, ids))) != len(ids):
        power.problems.append("two node sets have one node_set_id")
    major, published, made = _ZERO, _ZERO, []
    nic = sums.sum_scale_out(document.get("scale_out"), sets)
    for item in sets:
        own, stated, nodes = sums.sum_node_set(item, cores)
        own += nodes * nic if sums.carries_nics(item, document.get("scale_out")) else 0
        major, published = major + own, published + stated
        ensemble = _read_whole(item.get("system_node_ensemble_id"))
        counted = _read_count(ResultDocument(item).get_nested("components", "accelerator", "count_per_node"))
        each = accelerators.get(ensemble) if counted is None else counted
        made.append(NodeSetPower(ensemble, nodes, (1 + overhead) * own + stated, each))
    power.sets = tuple(made)
    figures = {
        "major_components_w": major,
        "other_components_w": overhead * major,
        "published_node_power_w": published,
        "scale_out_switch_power_w": power.switches,
    }
    figures["total_system_power_w"] = sum(figures.values(), _ZERO)
    total = figures["total_system_power_w"]
    declared = document.get("declared_provisioned_power")
    if declared is not None:
        # The declared figure takes precedence over missing and estimated parts.
        power.declared, power.estimated = True, []
        total = sums.find_watts("declared_provisioned_power", declared) or _ZERO
    else:
        power.problems += sums.gaps
    if not power.problems and not sums.gaps:  # otherwise the sum is incomplete
        power.problems += _find_disagreements(document, figures, overhead, total)
    if not power.problems:
        power.kilowatts = _round(total / _KILO)
    return power


def _find_disagreements(
    document: Mapping[str, Any], figures: Mapping[str, Decimal], overhead: Decimal, total: Decimal
) -> Iterator[str]:
    """Compare the stated figures with the computed ones."""
    computed = document.get("computed")
    stated = computed if isinstance(computed, Mapping) else {}
    for name, figure in figures.items():
        theirs = parse_number(stated.get(name))
        if theirs is not None and abs(theirs - figure) > _WATT_TOLERANCE:
            yield f"computed.{name} is {theirs}, but its parts add up to {figure:.1f}"
    fraction = parse_number(stated.get("overhead_fraction"))
    if fraction is not None and abs(fraction - overhead) > _NEAR:
        yield f"computed.overhead_fraction is {fraction}, but {overhead} for this cooling"
    kilowatts = parse_number(document.get("provisioned_power_kw"))
    if kilowatts is not None and abs(kilowatts - _round(total / _KILO)) > _KILOWATT_TOLERANCE:
        yield f"provisioned_power_kw is {kilowatts}, but its parts add up to {_round(total / _KILO)}"


class _Sums(Struct):
    """Add up watts. A figure without any source becomes a gap."""

    power: ProvisionedPower
    rules: CurveRules
    gaps: list[str] = field(default_factory=list)

    def find_watts(self, label: str, value: Any, default: tuple[Decimal, str] | None = None) -> Decimal | None:
        """Return the watts of a value with a source, or the rules' own figure."""
        if value is None:
            if default is None:
                self.gaps.append(f"{label} is missing, and the rules have no figure for it")
                return None
            self.power.estimated.append(f"{label} ({default[1]})")
            return default[0]
        number = self.read_sourced(label, value)
        if number is None:
            return None
        name, amount = number
        if name == "value_pj":
            self.power.problems.append(f"{label} is an energy, expected watts")
            return None
        if value.get("source_type") == _DEFAULT:
            self.power.estimated.append(f"{label} ({value.get('source')})")
        return amount * _KILO if name == "value_kw" else amount

    def read_sourced(self, label: str, value: Any) -> tuple[str, Decimal] | None:
        """Return (unit, amount) of a value with its source."""
        if not isinstance(value, Mapping):
            self.power.problems.append(f"{label} needs a value and its source")
            return None
        extra = set(value) - {*_VALUES, "source_type", "source"}
        if extra:
            self.power.problems.append(f"{label} has unknown fields: {', '.join(sorted(map(str, extra)))}")
        amounts = [(name, parse_number(value[name])) for name in _VALUES if value.get(name) is not None]
        kind, source = value.get("source_type"), value.get("source")
        if len(amounts) != 1 or amounts[0][1] is None or amounts[0][1] < 0:
            self.power.problems.append(f"{label} needs one of {', '.join(_VALUES)}")
            return None
        if kind not in _SOURCE_TYPES or not isinstance(source, str):
            self.power.problems.append(f"{label} has no source of a known type")
        elif kind == _DEFAULT and source not in _APPENDIX:
            self.power.problems.append(f"the source of {label}, {source!r}, is not one of {', '.join(_APPENDIX)}")
        elif kind != _DEFAULT and not source.startswith(("https://", "http://")):
            self.power.problems.append(f"the source of {label}, {source!r}, is not an address")
        return amounts[0][0], amounts[0][1]

    def sum_node_set(self, item: Mapping[str, Any], cores: Mapping[int, int]) -> tuple[Decimal, Decimal, int]:
        """Return (watts that get the overhead, published watts, number of nodes)."""
        label = f"node_sets[{item.get('node_set_id')}]"
        nodes, method = _read_whole(item.get("nodes_provisioned")), item.get("power_method")
        nothing = (_ZERO, _ZERO, nodes)
        if nodes < 1 or method not in _METHODS:
            self.power.problems.append(f"{label} needs power_method, and nodes_provisioned above 0")
            return nothing
        if method == "component_sum":
            parts = item.get("components")
            if not isinstance(parts, Mapping):
                self.power.problems.append(f"{label}: component_sum needs components")
                return nothing
            each = self.sum_node(parts, cores.get(_read_whole(item.get("system_node_ensemble_id"))), label)
            return (nodes * each if each is not None else _ZERO), _ZERO, nodes
        if item.get("published_power") is None:
            self.power.problems.append(f"{label}: {method} needs published_power")
            return nothing
        published = self.find_watts(f"{label}.published_power", item["published_power"])
        if published is None:
            return nothing
        if method == "published_system":
            return _ZERO, nodes * published, nodes
        rack = _read_whole(item.get("nodes_in_published_rack"))
        if rack <= nodes:
            self.power.problems.append(f"{label}: node_scaling needs nodes_in_published_rack above {nodes}")
            return nothing
        return _ZERO, published * nodes / rack, nodes

    def sum_node(self, parts: Mapping[str, Any], cores: int | None, label: str) -> Decimal | None:
        """Return the watts of one node's processors, accelerators and scale-up network."""
        processor, accelerator = parts.get("cpu"), parts.get("accelerator")
        combined = parts.get("combined_cpu_accelerator")
        found: list[Decimal | None]
        if combined is not None:
            if any(ResultDocument(parts).get_nested(part, "tdp_per_unit") for part in ("cpu", "accelerator")):
                self.power.problems.append(f"{label}: combined_cpu_accelerator excludes cpu and accelerator")
            found = [self.find_watts(f"{label}.combined_cpu_accelerator", combined)]
        elif not isinstance(processor, Mapping) or not isinstance(accelerator, Mapping):
            self.power.problems.append(f"{label} needs cpu and accelerator, or combined_cpu_accelerator")
            return None
        else:
            usual = find_processor_default(processor.get("model"), cores, self.rules)
            found = [
                self.sum_units(f"{label}.cpu", processor, usual),
                self.sum_units(f"{label}.accelerator", accelerator, find_default(accelerator.get("model"), self.rules)),
            ]
        found.append(self.sum_scale_up(parts.get("scale_up_network"), f"{label}.scale_up_network"))
        known = [watts for watts in found if watts is not None]
        return sum(known, _ZERO) if len(known) == len(found) else None

    def sum_units(self, label: str, block: Mapping[str, Any], default: tuple[Decimal, str] | None) -> Decimal | None:
        count = _read_count(block.get("count_per_node"))
        if count is None:
            self.power.problems.append(f"{label}.count_per_node is missing")
        each = self.find_watts(f"{label}.tdp_per_unit", block.get("tdp_per_unit"), default)
        return None if count is None or each is None else count * each

    def sum_scale_up(self, block: Any, label: str) -> Decimal | None:
        """Return the watts of the scale-up network. Its bandwidth is in terabytes per second, as in the rules'
        examples, despite the field's name."""
        method = block.get("method") if isinstance(block, Mapping) else None
        if method == "none":
            return _ZERO
        if method == "declared_tdp":
            count = _read_count(block.get("switch_count"))
            each = self.find_watts(f"{label}.tdp_per_switch", block.get("tdp_per_switch"))
            if count is None:
                self.power.problems.append(f"{label}: declared_tdp needs switch_count")
                return None
            return None if each is None else count * each
        if method == "bandwidth_estimate":
            bandwidth, energy = parse_number(block.get("aggregate_bandwidth_tbps")), block.get("energy_per_bit_pj")
            if bandwidth is None:
                self.power.problems.append(f"{label}: bandwidth_estimate needs aggregate_bandwidth_tbps")
                return None
            if energy is None:
                self.gaps.append(f"{label}.energy_per_bit_pj is missing")
                return None
            found = self.read_sourced(f"{label}.energy_per_bit_pj", energy)
            if found is None or found[0] != "value_pj":
                self.power.problems.append(f"{label}.energy_per_bit_pj needs value_pj")
                return None
            return bandwidth * 8 * found[1]
        self.power.problems.append(f"{label} is missing; use `method: none` if there is no switch")
        return None

    def carries_nics(self, item: Mapping[str, Any], fabric: Any) -> bool:
        nics = fabric.get("nics") if isinstance(fabric, Mapping) and fabric.get("present") is True else None
        if not isinstance(nics, Mapping) or nics.get("counted") is not True:
            return False
        return item.get("power_method") == "component_sum" or bool(nics.get("excluded_from_published_power"))

    def sum_scale_out(self, fabric: Any, sets: list[Mapping[str, Any]]) -> Decimal:
        """Return the watts of a node's network cards. Switches are added to the whole system's."""
        nodes = sum(_read_whole(item.get("nodes_provisioned")) for item in sets)
        if not isinstance(fabric, Mapping) or not isinstance(fabric.get("present"), bool):
            self.power.problems.append("scale_out.present is missing")
            return _ZERO
        if not fabric["present"]:
            if nodes > 1:
                method = ("components", "scale_up_network", "method")
                unconnected = all(ResultDocument(item).get_nested(*method) == "none" for item in sets)
                text = f"scale_out.present is false for {nodes} nodes"
                (self.power.problems if unconnected else self.power.warnings).append(text)
            return _ZERO
        if nodes == 1:
            self.power.warnings.append("scale_out.present is true for a single node")
        missing = [name for name in _FABRIC if fabric.get(name) is None]
        nics, switches = fabric.get("nics"), fabric.get("switches")
        if missing or not isinstance(nics, Mapping) or not isinstance(switches, list):
            absent = ", ".join(missing) or "nics or switches"
            self.power.problems.append(f"scale_out.present is true, but {absent} is missing")
            return _ZERO
        formula = any(item.get("power_method") == "component_sum" for item in sets)
        counted, excluded = nics.get("counted") is True, nics.get("excluded_from_published_power")
        if counted and not formula and not excluded:
            self.power.problems.append("scale_out.nics.counted is true, but the published power includes the cards")
        if not counted and formula:
            self.power.problems.append("scale_out.nics.counted is false, but no other value includes the cards")
        default = (self.rules.values.nic_watts, "D.4")
        each = self.find_watts("scale_out.nics.tdp_per_nic", nics.get("tdp_per_nic"), default) if counted else None
        self._check_bandwidth(fabric, nics, switches, nodes)
        return _ZERO if each is None else _read_whole(nics.get("count_per_node")) * each

    def _check_bandwidth(
        self, fabric: Mapping[str, Any], nics: Mapping[str, Any], switches: list[Any], nodes: int
    ) -> None:
        speed = parse_number(nics.get("bandwidth_per_nic_gbps")) or _ZERO
        needed = nodes * _read_whole(nics.get("count_per_node")) * speed / _KILO
        stated = parse_number(fabric.get("required_bandwidth_tbps")) or _ZERO
        if abs(stated - needed) > _NEAR:
            text = f"scale_out.required_bandwidth_tbps is {stated}, but the cards have {needed} Tb/s"
            (self.power.problems if stated < needed else self.power.warnings).append(text)
        offered = _ZERO
        for number, switch in enumerate(item for item in switches if isinstance(item, Mapping)):
            count = _read_whole(switch.get("count"))
            default = find_switch_default(switch.get("model"), fabric.get("cabling"), self.rules)
            watts = self.find_watts(f"scale_out.switches[{number}]", switch.get("power_per_switch"), default)
            self.power.switches += count * (watts or 0)
            offered += count * (parse_number(switch.get("bandwidth_tbps")) or 0)
        if offered < max(stated, needed) - _NEAR:
            self.power.problems.append(f"scale-out switches have {offered} of {max(stated, needed)} Tb/s")


def find_default(model: Any, rules: CurveRules) -> tuple[Decimal, str] | None:
    """Find the default of a listed accelerator. Longer names match first."""
    watts = _find_listed(model, rules.values.accelerator_watts)
    return None if watts is None else (watts, "D.3")


def find_switch_default(model: Any, cabling: Any, rules: CurveRules) -> tuple[Decimal, str] | None:
    watts = (_find_listed(model, rules.values.switch_watts) or {}).get(str(cabling))
    return None if watts is None else (watts, "D.4")


def _find_listed(model: Any, listed: Mapping[str, T]) -> T | None:
    name = re.sub(r"[^a-z0-9]", "", str(model or "").lower())
    return next((found for known, found in listed.items() if known in name), None)


def find_processor_default(model: Any, cores: int | None, rules: CurveRules) -> tuple[Decimal, str] | None:
    """Find the default of a processor by the architecture in its name."""
    text = str(model or "").lower()
    if cores is None and (named := re.search(r"(\d+)[\s-]*core", text)):
        cores = int(named[1])
    if cores is None:
        return None
    for entry in rules.values.processor_watts:
        words = "|".join(entry.words)
        if re.search(rf"\b({words})\b", text):
            return next(((Decimal(watts), "D.2") for most, watts in entry.watts if most is None or cores <= most), None)
    return None


def _read_whole(value: Any) -> int:
    return value if is_whole(value) else 0


def _read_count(value: Any) -> int | None:
    return value if is_whole(value) and value >= 0 else None
