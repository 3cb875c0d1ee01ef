"""system_desc.json of a curve: its first point's copy, as the official checker validates it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.endpoints.check.structure import CurveView, complain, make_rule, tell_value
from reconciler.resource.quantities import is_whole
from reconciler.tree.findings import Complaint

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_NODE_TEXTS = ("host_memory_configuration", "host_network_card_count", "driver", "filesystem")
_TEXTS = ("system_name", "system_size", "shortened_system_name")
_COUNTS = ("max_supported_concurrency", "system_node_ensemble_count", "system_node_ensemble_total")
_AVAILABILITY = ("system_availability_status", "publication_status", "availability_status")
_PARALLEL = ("expert_parallel", "tensor_parallel", "pipeline_parallel", "data_parallel", "batch")


def check_description(view: CurveView) -> Iterator[Complaint]:
    point = next((point for point in view.folder.points if point.description.value is not None), None)
    document = point.description.value if point is not None else None
    if point is None or document is None:
        return
    for name, found, wanted in _wrong(document.values, view):
        yield complain(point.description.file, f"{name} {found}", wanted, line=document.lines.get(name, 0))


def _wrong(values: Mapping[str, object], view: CurveView) -> Iterator[tuple[str, str, str]]:
    for name in _TEXTS:
        if not isinstance(values.get(name), str):
            yield name, tell_value(values.get(name)), "text"
    for name in _COUNTS:
        if not is_whole(values.get(name)):
            yield name, tell_value(values.get(name)), "a whole number"
    short, most = values.get("shortened_system_name"), view.rules.number("most_short_name")
    if isinstance(short, str) and not (short.strip() and len(short) <= most):
        yield "shortened_system_name", f"{short!r} has {len(short)} characters", f"1 to {most}"
    division = values.get("division")
    if str(division).strip().lower() not in {name.lower() for name in view.rules.words("divisions")}:
        yield "division", tell_value(division), " or ".join(view.rules.words("divisions"))
    yield from _availability(values, view)
    least, most = 1, view.rules.number("most_ultra_low_concurrency")
    if "c_min_override" in values:
        lowest = values["c_min_override"]
        if not (is_whole(lowest) and least <= lowest <= most):
            yield "c_min_override", tell_value(lowest), f"{least} to {most}"
    for name in _PARALLEL:
        if values.get(name) is not None and not is_whole(values[name]):
            yield name, tell_value(values[name]), "a whole number"
    summary = values.get("config_summary")
    if (
        summary is not None
        and not isinstance(summary, Mapping)
        and not (isinstance(summary, str) and len(summary) >= 4)
    ):
        yield "config_summary", tell_value(summary), "at least four characters"
    nodes = values.get("node_types")
    if not isinstance(nodes, list):
        yield "node_types", tell_value(nodes), "a list"
    for node in nodes if isinstance(nodes, list) else ():
        yield from _node(node)


def _availability(values: Mapping[str, object], view: CurveView) -> Iterator[tuple[str, str, str]]:
    stated = {name: str(values[name]) for name in _AVAILABILITY if values.get(name) not in (None, "")}
    known = {name.lower(): name for name in view.rules.words("availabilities")}
    if len({value.strip().lower() for value in stated.values()}) > 1:
        yield _AVAILABILITY[0], f"is {' and '.join(stated.values())} under {len(stated)} names", "one of them"
        return
    status = known.get(next(iter(stated.values()), "").strip().lower())
    if status is None:
        yield _AVAILABILITY[0], tell_value(values.get(_AVAILABILITY[0])), " or ".join(known.values())
    if status == "Available" and not str(values.get("availability_url") or "").strip():
        yield "availability_url", "is missing", "where the system can be ordered, for an Available one"
    date = values.get("target_availability_date")
    if date not in (None, "") and not _is_date(date):
        yield "target_availability_date", tell_value(date), "YYYY-MM-DD"
    elif status == "Preview" and not str(date or "").strip():
        yield "target_availability_date", "is missing", "the date, for a Preview"


def _is_date(value: Any) -> bool:
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return False
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _node(node: Any) -> Iterator[tuple[str, str, str]]:
    if not isinstance(node, Mapping):
        yield "node_types", tell_value(node), "an object for each type of node"
        return
    for name in _NODE_TEXTS:
        if not isinstance(node.get(name), str):
            yield name, tell_value(node.get(name)), "text, for each type of node"
    cores = [node.get(name) for name in ("host_processor_core_count", "host_processor_vcpu_count")]
    if all(count is None for count in cores):
        yield "host_processor_core_count", "is missing", "cores or virtual CPUs, for each type of node"
    for count in cores:
        if count is not None and not is_whole(count):
            yield "host_processor_core_count", tell_value(count), "a whole number"


DESCRIPTION_RULES = ((make_rule("system-description-valid", "the system's description"), check_description),)
