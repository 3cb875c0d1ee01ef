"""The view of one cell: its measurements, its inputs, and why it is or is not out of date."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from reconciler.page.charts import describe_changes, draw_charts, name_reading, overlay
from reconciler.page.matrix_view import (
    NOTHING,
    STATES,
    UnderWay,
    compare_published,
    find_curve_name,
    find_state,
    mark_condition,
    show_headroom,
    show_measured,
    split_cell,
)
from reconciler.render.causes import find_obstacle, word_reason
from reconciler.render.documents import Document
from reconciler.resource.kinds import find_upstream
from reconciler.resource.quantities import show_rate, show_size
from reconciler.resource.records import LATE_QUERIES, show_late_room
from reconciler.resource.wording import shorten_value, show_value

_SHOWN_RUNS = 200


def arrange_cell(document: Document, under_way: UnderWay = NOTHING, compared: Document | None = None) -> Document:
    """Arrange the view. ``compared``: another performance run of the cell, whose curves are drawn over those of the run
    that counts."""
    status, performance = document["status"], document["performance"] or {}
    runs = document["runs"]
    state = find_state(status, under_way)
    charts = draw_charts(document)
    if compared is not None:
        names = (_name_run(performance), _name_run(compared))
        charts = overlay(charts, draw_charts({"runs": [], "performance": compared}), names)
    return {
        "title": document["cell"],
        "parts": split_cell(document["cell"]),
        "curve": find_curve_name(document["cell"]),
        "point": _list_figures(performance.get("point") or {}, document["settings"]),
        "state": state,
        "means": STATES[state],
        "since": performance.get("started", "") if state in ("ready", "invalid") else "",
        "conditions": [mark_condition(condition) | condition for condition in status["conditions"]],
        "said": list(dict.fromkeys(mark_condition(c)["said"] for c in status["conditions"] if c["status"] != "True")),
        **{name: show_measured(status[name]) for name in ("metric", "accuracy", "efficiency")},
        "published": compare_published({**status, **document}),
        "validity": status["validity"] if status["metric"] else performance.get("validity", ""),
        "marks": status["marks"],
        "settings": [
            {**setting, "name": name, "value": show_value(name, setting["value"])}
            for name, setting in document["settings"].items()
        ],
        "why": _arrange_why(document["why"]),
        "runs": [_arrange_run(run) for run in reversed(runs[-_SHOWN_RUNS:])],
        "left_out": max(0, len(runs) - _SHOWN_RUNS),
        "charts": [chart for chart in charts if chart.has_course or chart.summary],
        "others": list_comparable_runs(document),
        "other": _name_run(compared) if compared is not None else "",
        "counts": performance.get("counts", False),
        "last": show_measured(performance.get("metric")),
        "reasons": performance.get("reasons", []),
        "margins": [_arrange_margin(margin) for margin in performance.get("margins", [])],
        "measured": performance.get("started", ""),
        "telemetry": [_show_reading(name, value) for name, value in (performance.get("telemetry") or {}).items()],
        "made": [_shorten_inputs(_show_values(item)) for item in document["made"]],
        "compliance": [_show_values(item) for item in document["compliance"]],
        **{name: document[name] for name in ("resources", "logs", "tree", "cell", "looked", "specs")},
    }


_MOST_COMPARED = 8


def list_comparable_runs(document: Document) -> list[str]:
    """List the records of the newest performance runs that can be drawn over the one that is shown."""
    runs = (run for run in reversed(document["runs"]) if run["performance"] and run["metric"])
    shown = (document["performance"] or {}).get("record")
    return [run["record"] for run in runs if run["record"] != shown][:_MOST_COMPARED]


def _name_run(run: Document) -> str:
    return str(run.get("started", ""))[:16].replace("T", " ")


_FIGURES = {
    "concurrency": "Requests at a time",
    "tps_per_user": "Tokens/s per user",
    "ttft_p90_ms": "TTFT P90 in ms",
    "seconds": "Duration in s",
    "issued": "Samples issued",
    "completed": "Samples completed",
}


def _list_figures(point: Document, settings: Document) -> list[tuple[str, str]]:
    """List the figures of a point of a curve; none for other cells."""
    if not point:
        return []
    region = str(settings.get("point.region", {}).get("value") or "").replace("_", " ")
    shown = [(title, show_rate(float(point[name]))) for name, title in _FIGURES.items() if name in point]
    return [*([("Region", region)] if region else []), *shown]


def _arrange_why(why: Document) -> Document:
    """List each changed input once, then what runs again, and what was compared and found equal."""
    due = [resource for resource in why["resources"] if resource["action"] != "NoOp" or resource["blocked"]]
    changed = {c["name"]: _arrange_change(c) for r in due for c in r["changed"] if find_upstream(c["origin"]) is None}
    return {
        **{name: why[name] for name in ("in_sync", "chain", "findings", "acceptances")},
        "changed": list(changed.values()),
        "blocked": list(dict.fromkeys(find_obstacle(resource["blocked"]) for resource in due if resource["blocked"])),
        "due": [{**resource, "reason": resource["reason"] and word_reason(resource["reason"])} for resource in due],
        "equal": [_shorten_inputs(resource) for resource in why["resources"] if resource not in due],
    }


def _arrange_change(change: Document) -> Document:
    before, after = (shorten_value(show_value(change["name"], change[side])) for side in ("before", "after"))
    return {**change, "before": before, "after": after}


def _shorten_inputs(resource: Document) -> Document:
    inputs = [{**i, "value": shorten_value(show_value(i["name"], i["value"]))} for i in resource["inputs"]]
    return {**resource, "inputs": inputs}


def _arrange_run(run: Document) -> Document:
    shown = {"result": show_measured(run["metric"]), "started": run["started"][:19].replace("T", " ")}
    return {**run, **shown, "changed": describe_changes(run)}


def _show_values(item: Document) -> Document:
    return {**item, "values": [(name, _show(value)) for name, value in item["values"].items()]}


def _show_reading(name: str, value: Any) -> tuple[str, str]:
    """Return "mean 66.4 %, from 0 to 99.7" for a series; a single value unchanged."""
    words, unit = name_reading(name)
    if isinstance(value, dict) and {"min", "mean", "max"} <= value.keys():
        show = show_size if name.endswith("bytes") else show_rate
        low, mean, high = (show(value[side]) for side in ("min", "mean", "max"))
        return words, f"mean {mean} {unit}".rstrip() + f", from {low} to {high}"
    return words, f"{_show(value)} {unit}".rstrip()


def _arrange_margin(margin: Document) -> Document:
    """Show the figures with their unit, exactly, since a rounded one may look like its limit."""
    late = margin["unit"] == LATE_QUERIES
    unit = "" if margin["unit"] == margin["name"] else " late" if late else f" {margin['unit']}"
    measured, limit = (f"{Decimal(margin[side]):,}{unit}" for side in ("measured", "limit"))
    room = margin["headroom"] and show_headroom(float(margin["headroom"]))
    return {
        **margin,
        "measured": measured,
        "limit": limit,
        "room": show_late_room(margin["measured"], margin["limit"]) if late else room,
    }


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_show, value)) if isinstance(value, list) else str(value)
