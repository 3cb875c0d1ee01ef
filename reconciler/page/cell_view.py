"""One cell: what it measured, how it comes about, why it is or is not made again."""

from __future__ import annotations

from typing import Any

from reconciler.page.charts import draw_charts
from reconciler.page.matrix_view import find_curve_name, mark_condition, render_measured, split_cell
from reconciler.render.documents import Document
from reconciler.resource.quantities import show_rate, show_size
from reconciler.resource.wording import shorten_value, show_value

_SHOWN_RUNS = 200


def arrange_cell(document: Document) -> Document:
    status, performance = document["status"], document["performance"] or {}
    runs = document["runs"]
    return {
        "title": document["cell"],
        "cell": document["cell"],
        "parts": split_cell(document["cell"]),
        "curve": find_curve_name(document["cell"]),
        "point": _point(performance.get("point") or {}, document["settings"]),
        "looked": document["looked"],
        "specs": document["specs"],
        "conditions": [_condition(condition) for condition in status["conditions"]],
        "metric": render_measured(status["metric"]),
        "accuracy": render_measured(status["accuracy"]),
        "efficiency": render_measured(status["efficiency"]),
        "validity": status["validity"],
        "marks": status["marks"],
        "settings": [_setting(name, value) for name, value in document["settings"].items()],
        "why": _why(document["why"]),
        "runs": [_run(run) for run in reversed(runs[-_SHOWN_RUNS:])],
        "left_out": max(0, len(runs) - _SHOWN_RUNS),
        "charts": draw_charts(document),
        "reasons": performance.get("reasons", []),
        "margins": performance.get("margins", []),
        "measured": performance.get("started", ""),
        "telemetry": [_reading(name, value) for name, value in (performance.get("telemetry") or {}).items()],
        "made": [_made(item) for item in document["made"]],
        "compliance": [_judged(item) for item in document["compliance"]],
        "resources": document["resources"],
        "logs": document["logs"],
        "tree": document["tree"],
    }


_FIGURES = {
    "concurrency": "Requests at a time",
    "tps_per_user": "Tokens/s per user",
    "ttft_p90_ms": "TTFT P90 in ms",
    "seconds": "Duration in s",
    "issued": "Samples issued",
    "completed": "Samples completed",
}


def _point(point: Document, settings: Document) -> list[tuple[str, str]]:
    """Figures of a point of a curve; none of another cell."""
    if not point:
        return []
    region = str(settings.get("point.region", {}).get("value") or "").replace("_", " ")
    shown = [(title, show_rate(float(point[name]))) for name, title in _FIGURES.items() if name in point]
    return [*([("Region", region)] if region else []), *shown]


def _condition(condition: Document) -> Document:
    return {**condition, **mark_condition(condition)}


def _setting(name: str, value: Document) -> Document:
    return {
        "name": name,
        "value": show_value(name, value["value"]),
        "origin": value["origin"],
        "commit": value["commit"],
    }


def _why(why: Document) -> Document:
    """List the resources to be made again first, then what was compared and found equal."""
    due = [resource for resource in why["resources"] if resource["action"] != "NoOp" or resource["blocked"]]
    return {
        "in_sync": why["in_sync"],
        "chain": why["chain"],
        "findings": why["findings"],
        "acceptances": why["acceptances"],
        "due": [{**resource, "changed": [_change(c) for c in resource["changed"]]} for resource in due],
        "equal": [_compared(resource) for resource in why["resources"] if resource not in due],
    }


def _change(change: Document) -> Document:
    before, after = (shorten_value(show_value(change["name"], change[side])) for side in ("before", "after"))
    return {**change, "before": before, "after": after}


def _compared(resource: Document) -> Document:
    inputs = [{**i, "value": shorten_value(show_value(i["name"], i["value"]))} for i in resource["inputs"]]
    return {**resource, "inputs": inputs}


def _run(run: Document) -> Document:
    return {**run, "result": render_measured(run["metric"]), "started": run["started"][:19].replace("T", " ")}


def _made(item: Document) -> Document:
    inputs = [{**i, "value": shorten_value(show_value(i["name"], i["value"]))} for i in item["inputs"]]
    return {**item, "inputs": inputs, "values": [(name, _value(value)) for name, value in item["values"].items()]}


def _judged(item: Document) -> Document:
    return {**item, "values": [(name, _value(value)) for name, value in item["values"].items()]}


def _reading(name: str, value: Any) -> tuple[str, str]:
    """ "mean 66.4, from 0 to 99.7" of a series; one value as it is."""
    if isinstance(value, dict) and {"min", "mean", "max"} <= value.keys():
        show = show_size if name.endswith("bytes") else show_rate
        low, mean, high = (show(value[side]) for side in ("min", "mean", "max"))
        return name, f"mean {mean}, from {low} to {high}"
    return name, _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_value, value)) if isinstance(value, list) else str(value)
