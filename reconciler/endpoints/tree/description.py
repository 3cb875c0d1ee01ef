"""system_desc.json of a point and system_power.json of a system (rules §8.2, appendix E)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from reconciler.endpoints.tree.content import CurveContent, PointContent

# In the order of the rules' template.
_SYSTEM = (
    *("division", "system_name", "shortened_system_name", "system_availability_status", "availability_url"),
    *("target_availability_date", "system_size", "system_node_ensemble_count", "system_node_ensemble_total"),
    *("max_supported_concurrency", "c_min_override", "endpoint_url", "serving_framework", "node_types", "node_config"),
    *("disaggregated", "expert_parallel", "tensor_parallel", "pipeline_parallel", "data_parallel", "batch"),
    *("config_summary", "config_summary_notes", "tps_utilization"),
)
_PARALLEL = ("disaggregated", "tensor_parallel", "pipeline_parallel", "expert_parallel", "data_parallel")
_DIGITS = Decimal("0.000001")


def collect_description(point: PointContent, curve: CurveContent, peak: Decimal) -> dict[str, Any]:
    """``peak``: the most output tokens a second of any point of the curve. Fields that the rules do not name come
    last, by name."""
    deployment = dict(point.deployment)
    values: dict[str, Any] = {
        **curve.description,
        **deployment,
        "division": curve.division,
        "max_supported_concurrency": curve.max_concurrency,
        "tps_utilization": compute_utilization(point, peak),
    }
    if curve.min_concurrency is not None:
        values["c_min_override"] = curve.min_concurrency
    values.setdefault("config_summary", summarise_deployment(values))
    known = [name for name in _SYSTEM if values.get(name) not in (None, "")]
    return {name: values[name] for name in [*known, *sorted(set(values) - set(_SYSTEM))]}


def compute_utilization(point: PointContent, peak: Decimal) -> float:
    share = point.measured.system_tps / peak if peak else Decimal(0)
    return float(share.quantize(_DIGITS))


def summarise_deployment(values: Mapping[str, Any]) -> str:
    """Of the fields that are more than 1, with the notes: one of at least four characters, as the checker asks."""
    parts = [f"{name}={int(values[name])}" for name in _PARALLEL if _more_than_one(values.get(name))]
    notes = str(values.get("config_summary_notes") or "").strip()
    return "; ".join([*parts, *([notes] if notes else [])]) or "one replica, not partitioned"


def _more_than_one(value: object) -> bool:
    return value is True or (isinstance(value, int) and value > 1)
