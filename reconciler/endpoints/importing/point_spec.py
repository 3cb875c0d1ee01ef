"""What the spec of an adopted Endpoints submission says of a point: its settings, and what its documents tell of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from reconciler.endpoints.rules.curve_rules import CurveRules
from reconciler.endpoints.tree.content import WarmupContent
from reconciler.endpoints.tree.description import summarise_deployment
from reconciler.endpoints.tree.point_file import show_warmup
from reconciler.importing.run_reader import TakenCell
from reconciler.loadgen import keys
from reconciler.resource.quantities import is_whole, parse_number

# Of a point.yaml what a rendering takes from elsewhere than `disclosure`, and what it does not show.
_DISCLOSED = (
    *("model_precision", "link_to_model", "link_to_model_transformation", "model_notes"),
    *("dataset_name", "dataset_type", "dataset_link", "target_cohort"),
)
# Of a system_desc.json what follows from the rest of the spec, or is computed.
FOLLOWING = (
    *("division", "system_availability_status", "max_supported_concurrency", "node_types", "tps_utilization"),
    *("submitter", "status", "system_type", "c_min_override"),
)
ENSEMBLE = "system_node_ensemble_id"
_SHORTFALL = {"dp_actual": "replicas", "dp_formula": "fitting", "reason": "reason"}
_TIMES = (keys.MIN_DURATION, keys.MAX_DURATION)
_MICROSECONDS = 10**6


def describe_point(
    item: TakenCell, stated: Mapping[str, object], concurrency: int, rules: CurveRules
) -> dict[str, Any]:
    """By flat name. ``stated``: what its point.yaml and system_desc.json say of it."""
    return {**_spell(item), **_disclose(stated, rules), **_tell_warmup(stated, item, concurrency)}


def _spell(item: TakenCell) -> dict[str, Any]:
    """The settings of a point as a spec writes them, by flat name."""
    found: dict[str, Any] = {}
    for name, value in item.settings.items():
        if name in _TIMES:
            found[name] = f"{value} ms" if value else 0
        elif name == keys.TARGET_QPS:
            found[name] = f"{value} /s"
        else:
            found[name] = value
    if model := item.harness.get("model_name"):
        found["client.model_name"] = model
    return make_exact(found)


def _disclose(stated: Mapping[str, object], rules: CurveRules) -> dict[str, Any]:
    names = (*_DISCLOSED, *(name for name in rules.words("per_point_description") if name not in FOLLOWING))
    found = {n: stated[n] for n in names if is_scalar(stated.get(n)) and stated[n] != ""}
    if found.get("config_summary") == summarise_deployment(found):
        del found["config_summary"]
    drafted = stated.get("speculative_decoding")
    told = {f"disclosure.{name}": value for name, value in found.items()}
    for name, value in drafted.items() if isinstance(drafted, Mapping) else ():
        told |= {f"speculative_decoding.{name}": value} if is_scalar(value) else {}
    return make_exact(told) | _use_nodes(stated)


def _use_nodes(stated: Mapping[str, object]) -> dict[str, Any]:
    """How many nodes a point engages, and why fewer replicas ran than fit."""
    found: dict[str, Any] = {}
    used, short = stated.get("nodes_used"), stated.get("dp_shortfall")
    for item in used if isinstance(used, list) else ():
        if isinstance(item, Mapping) and is_whole(item.get("nodes")):
            found[f"nodes_used.{name_node(item.get(ENSEMBLE))}"] = item["nodes"]
    if isinstance(short, Mapping):
        given = {ours: short.get(theirs) for theirs, ours in _SHORTFALL.items()}
        found |= {f"dp_shortfall.{name}": value for name, value in given.items() if is_scalar(value)}
    return found


def _tell_warmup(stated: Mapping[str, object], item: TakenCell, concurrency: int) -> dict[str, Any]:
    """What a rendering would not say by itself of what happened before a point's run."""
    block, told = stated.get("warmup"), item.settings.get("client.warmup")
    known = show_warmup(WarmupContent.of_client(int(told), concurrency) if told else WarmupContent())
    found: dict[str, Any] = {}
    for name, value in block.items() if isinstance(block, Mapping) else ():
        seconds = parse_number(value) if name == "duration_s" else None
        if value == known.get(name):
            continue
        if seconds is not None and seconds >= 0:
            found["warmup.duration"] = f"{round(seconds * _MICROSECONDS)} us"
        elif name in _TOLD and _TOLD[name](value):
            found[f"warmup.{name}"] = value
    return found


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# Of the warm-up of a point.yaml what a spec can declare, beside its duration.
_TOLD: Mapping[str, Callable[[object], bool]] = {
    "requests_issued": _is_count,
    "requests_completed": _is_count,
    "concurrency": _is_count,
    "data_source": _is_text,
    "link_logs": _is_text,
    "logs_retained": lambda value: isinstance(value, bool),
    "initialization_steps": lambda value: isinstance(value, list) and bool(value) and all(map(_is_text, value)),
}


def make_exact(values: Mapping[str, object]) -> dict[str, Any]:
    """Fractions as decimals, which a spec keeps digit by digit."""
    return {name: Decimal(str(value)) if isinstance(value, float) else value for name, value in values.items()}


def is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def name_node(identity: object) -> str:
    """A type of node has a number in a submission, and a name in a spec."""
    return f"type-{identity}"
