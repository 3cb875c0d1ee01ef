"""point.yaml and system_desc.json: the disclosures of a point, derived from the run that they describe (rules §8.2,
§8.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from reconciler.endpoints.rules.curve_rules import MODEL_SEED, CurveRules
from reconciler.endpoints.rules.judge import classify_window, find_least_seconds
from reconciler.endpoints.rules.point import Warmup
from reconciler.endpoints.rules.regions import CHOICE, Regions
from reconciler.endpoints.tree.content import DEDICATED, DOCUMENTS, SOURCES, CurveContent, PointContent
from reconciler.resource.records import REHEARSAL

# YAML in block style, which every reader parses into the same values.

# Words that every YAML reader, of version 1.1 or 1.2, parses as text.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9 _/.+-]*[A-Za-z0-9_/+-]|[A-Za-z]")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


def write_yaml(values: Mapping[str, Any]) -> bytes:
    """Write a mapping of scalars, mappings and lists in its order. Raises TypeError for anything else."""
    return "".join(f"{line}\n" for line in _format_mapping(values, "")).encode()


def _format_mapping(values: Mapping[Any, Any], indent: str) -> Iterator[str]:
    for name, value in values.items():
        yield from _format_entry(f"{indent}{_format_scalar(str(name))}:", value, indent)


def _format_entry(head: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from _format_mapping(value, f"{indent}  ")
    elif isinstance(value, (list, tuple)) and value:
        yield head
        yield from _format_items(value, f"{indent}  ")
    else:
        yield f"{head} {_format_scalar(value)}"


def _format_items(values: list[Any] | tuple[Any, ...], indent: str) -> Iterator[str]:
    for value in values:
        if isinstance(value, Mapping) and value:
            lines = list(_format_mapping(value, f"{indent}  "))
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]
        else:
            yield f"{indent}- {_format_scalar(value)}"


def _format_scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, float):
        return json.dumps(value)
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else json.dumps(value, ensure_ascii=True)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


_MICROSECONDS = 10**6
# Disclosed by the spec, in the order of the rules.
DISCLOSED = (
    *("model_precision", "link_to_model", "link_to_model_transformation", "model_notes"),
    *("dataset_name", "dataset_type", "dataset_link"),
)


def collect_point_fields(
    point: PointContent, curve: CurveContent, regions: Regions, rules: CurveRules
) -> dict[str, Any]:
    """Collect the fields of point.yaml."""
    facts, concurrency = point.facts, point.measured.concurrency
    fields: dict[str, Any] = {
        "concurrency": concurrency,
        "region": CHOICE if point.offline == DEDICATED else regions.find(concurrency),
        "dataset": curve.dataset,
        "division": curve.division,
        "max_supported_concurrency": curve.max_concurrency,
        "model_name": curve.model,
    }
    per_point = rules.values.per_point_description
    disclosed = {**curve.disclosed, **{n: value for n, value in facts.disclosed.items() if n not in per_point}}
    fields.update((name, disclosed[name]) for name in DISCLOSED if disclosed.get(name) not in (None, ""))
    fields["shared_src"] = f"{SOURCES}/{curve.implementation}"
    fields["shared_docs"] = DOCUMENTS
    fields["seed_set"] = curve.seed_set
    fields["target_cohort"] = curve.target_cohort
    if point.offline:
        fields["offline"] = point.offline
    fields["runtime_settings"] = _collect_runtime_settings(point, curve, rules)
    fields["warmup"] = show_warmup(point.measured.warmup, facts.warmup)
    window = _describe_window(point, regions, rules)
    if window:
        fields["steady_state"] = window
    if facts.speculative:
        fields["speculative_decoding"] = dict(facts.speculative)
    if point.nodes:
        used = sorted(point.nodes.items())
        fields["nodes_used"] = [{"system_node_ensemble_id": ensemble, "nodes": count} for ensemble, count in used]
    if short := facts.shortfall:
        counts = {"dp_actual": int(str(short["replicas"])), "dp_formula": int(str(short["fitting"]))}
        fields["dp_shortfall"] = {**counts, "reason": str(short["reason"])}
    if curve.rehearsal:
        fields[REHEARSAL] = True
    return fields


def _collect_runtime_settings(point: PointContent, curve: CurveContent, rules: CurveRules) -> dict[str, Any]:
    """List the settings of this run, from the configuration that the client resolved. A seed that the client's
    configuration cannot hold is taken from the seed set."""
    measured = point.measured
    settings: dict[str, Any] = {"load_pattern": measured.load_pattern, "min_duration_ms": measured.min_duration_ms}
    if measured.samples_asked:
        settings["min_sample_count"] = measured.samples_asked
    settings["stream_all_chunks"] = measured.stream_all_chunks
    settings["streaming"] = measured.streaming
    seeds = rules.seed_sets.get(curve.seed_set)
    unsaid = {MODEL_SEED: seeds.seeds[MODEL_SEED]} if seeds is not None else {}
    settings["runtime"] = {**unsaid, **measured.seeds}
    if measured.warmup is not None:
        settings["warmup"] = {"salt": measured.warmup.salt}
    return settings


def show_warmup(client: Warmup | None, declared: Mapping[str, object]) -> dict[str, Any]:
    """Show the events before a run. What a spec declares takes precedence over the client's own warm-up."""
    fields: dict[str, Any] = {
        "duration_s": int(str(declared.get("duration", 0))) / _MICROSECONDS,
        "requests_issued": client.requests if client else 0,
        "requests_completed": 0,
        "data_source": "performance dataset, salted" if client else "none",
        "concurrency": client.concurrency if client else 0,
        "initialization_steps": [],
        "logs_retained": False,
        "link_logs": "",
    }
    fields |= {name: value for name, value in declared.items() if name != "duration"}
    if "logs_retained" not in declared:
        fields["logs_retained"] = bool(fields["link_logs"]) or not fields["requests_issued"]
    return fields if fields["link_logs"] else {n: value for n, value in fields.items() if n != "link_logs"}


def _describe_window(point: PointContent, regions: Regions, rules: CurveRules) -> Mapping[str, Any]:
    """Return nothing if the client did not look for a steady state, or if the rules define none."""
    found = point.measured.window
    if found is None or point.offline == DEDICATED:
        return {}
    status, verdict = classify_window(found, find_least_seconds(point.measured, rules, regions), rules)
    steady = found.found and found.super_passes > 0
    window: dict[str, Any] = {"super_pass_start": found.first, "super_pass_end": found.last} if steady else {}
    window |= {"super_pass_size": found.super_pass_size, "n_samples": found.samples}
    if found.seconds is not None:
        window["duration_s"] = Decimal(found.seconds)
    fields: dict[str, Any] = {"status": status, "verdict": verdict, "window": window}
    if found.states:
        fields["state"] = dict(sorted(found.states.items()))
    if found.anomaly:
        fields["anomaly"] = found.anomaly
    return fields


# system_desc.json of a point (rules §8.2), in the order of the rules' template.

_OF_DESCRIPTION = (
    *("division", "system_name", "shortened_system_name", "system_availability_status", "availability_url"),
    *("target_availability_date", "system_size", "system_node_ensemble_count", "system_node_ensemble_total"),
    *("max_supported_concurrency", "c_min_override", "endpoint_url", "serving_framework", "node_types", "node_config"),
    *("disaggregated", "expert_parallel", "tensor_parallel", "pipeline_parallel", "data_parallel", "batch"),
    *("config_summary", "config_summary_notes", "tps_utilization"),
)
_PARALLEL = ("disaggregated", "tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel")
_DIGITS = Decimal("0.000001")


def collect_description(point: PointContent, curve: CurveContent, peak: Decimal, rules: CurveRules) -> dict[str, Any]:
    """Collect the fields of system_desc.json; those that the rules do not name come last, by name. ``peak``: the
    maximum output tokens per second of any point of the curve."""
    share = point.measured.system_tps / peak if peak else Decimal(0)
    disclosed, per_point = point.facts.disclosed, rules.values.per_point_description
    values: dict[str, Any] = {
        **curve.description,
        **{name: value for name, value in disclosed.items() if name in per_point},
        "division": curve.division,
        "max_supported_concurrency": curve.max_concurrency,
        "tps_utilization": float(share.quantize(_DIGITS)),
    }
    if curve.min_concurrency is not None:
        values["c_min_override"] = curve.min_concurrency
    values.setdefault("config_summary", summarise_deployment(values))
    known = [name for name in _OF_DESCRIPTION if values.get(name) not in (None, "")]
    return {name: values[name] for name in [*known, *sorted(set(values) - set(_OF_DESCRIPTION))]}


def summarise_deployment(values: Mapping[str, Any]) -> str:
    """Summarise the fields that are greater than 1, with the notes, in at least four characters, as the checker
    requires."""
    parts = [f"{name}={int(values[name])}" for name in _PARALLEL if _is_above_one(values.get(name))]
    notes = str(values.get("config_summary_notes") or "").strip()
    return "; ".join([*parts, *([notes] if notes else [])]) or "one replica, not partitioned"


def _is_above_one(value: object) -> bool:
    return value is True or (isinstance(value, int) and value > 1)
