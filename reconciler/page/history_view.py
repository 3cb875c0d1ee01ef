"""A result over commits with the changes between them, and a comparison of two sides."""

from __future__ import annotations

import math

from reconciler.page.charts import chart_history
from reconciler.page.matrix_view import show_measured, split_cell
from reconciler.render.documents import Document
from reconciler.resource.quantities import join_listing, show_rate
from reconciler.resource.wording import shorten_value, show_value


def arrange_history(document: Document) -> Document:
    steps = [_arrange_step(step) for step in reversed(document["steps"])]
    return {
        "cell": document["cell"],
        "chart": chart_history(document),
        "results": [{**r, "result": show_measured(r)} for r in reversed(document["results"])],
        "steps": steps,
        "opened": next((step for step in steps if step["what"].startswith("Run ")), None),
    }


def _arrange_step(step: Document) -> Document:
    return {
        "what": step["after"]["what"],
        "started": step["after"]["started"],
        "before": show_measured(step["before"]),
        "after": show_measured(step["after"]),
        "change": _show_change(step["change"], step["after"]["unit"]),
        "causes": [_arrange_cause(cause) for cause in step["causes"]],
    }


def _arrange_cause(cause: Document) -> Document:
    before, after = (shorten_value(show_value(cause["name"], cause[side])) for side in ("before", "after"))
    by = cause["by"]
    return {**cause, "before": before, "after": after, "commit": f"{by['commit'][:7]} {by['subject']}" if by else ""}


def arrange_recent(document: Document) -> list[Document]:
    """Return the newest results of all cells, each with the change from the one before it."""
    return [
        {**row, "result": show_measured(row), "change": _show_change(row["change"], row["unit"])}
        for row in document["results"]
    ]


def _show_change(change: float | None, unit: str) -> str:
    """Return "+5.0 % better". For a latency, less is better."""
    if change is None:
        return ""
    shown = f"{100 * change:+.1f} %".replace("-0.0", "+0.0")
    if shown == "+0.0 %" or not (_is_latency(unit) or unit.endswith("/s")):
        return shown
    return f"{shown} {'better' if (change > 0) != _is_latency(unit) else 'worse'}"


def arrange_comparison(document: Document) -> Document:
    """Arrange a comparison. ``reach``: the factor at both ends of the logarithmic scale, for worse and better."""
    ratios = [pair["ratio"] for pair in document["pairs"] if pair["ratio"]]
    reach = max([1.25, *(max(ratio, 1 / ratio) for ratio in ratios if ratio > 0)])
    return {
        "names": document["names"],
        "reach": _show_ratio(reach).rstrip("0").rstrip("."),
        "pairs": [_arrange_pair(pair, reach, document["names"]) for pair in document["pairs"]],
        "alone": [
            *((f"Stale in {name}", cells) for name, cells in document["stale"].items() if cells),
            *((f"Only in {name}", cells) for name, cells in document["alone"].items() if cells),
        ],
        "invalid": document["invalid"],
        "curves": [_arrange_curves(pair, document["names"]) for pair in document["curves"]],
    }


def _arrange_curves(pair: Document, names: list[str]) -> Document:
    """Compare two curves: the maximum of each, and the points of each that the other beats."""
    sides = zip(names, pair["points"], pair["beaten"], pair["peaks"], strict=True)
    return {
        "curves": list(dict.fromkeys(pair["curves"])),
        "sides": [
            {
                "name": name,
                "points": count,
                "beaten": join_listing(map(str, beaten), most=12) if beaten else "none",
                "peak": show_rate(float(peak)),
            }
            for name, count, beaten, peak in sides
        ],
    }


def _arrange_pair(pair: Document, reach: float, names: list[str]) -> Document:
    """Arrange a pair. ``bar``: points to the right if the other side is better; for a latency, lower is better."""
    ratio, per_accelerator = pair["ratio"], pair["per_accelerator"]
    better = -1 if _is_latency(pair["one"]["unit"]) else 1
    return {
        "cell": _name_both(pair["one"]["cell"], pair["other"]["cell"], names),
        "cells": (pair["one"]["cell"], pair["other"]["cell"]),
        "one": _show_side(pair["one"]),
        "other": _show_side(pair["other"]),
        "ratio": _show_ratio(ratio) if ratio is not None else "",
        "per_accelerator": _show_ratio(per_accelerator) if per_accelerator is not None else "",
        "bar": round(50 * better * math.log(ratio) / math.log(reach), 1) + 0.0 if ratio and ratio > 0 else None,
    }


def _name_both(one: str, other: str, names: list[str]) -> str:
    """Name what two cells have in common, and how they differ, except for the difference that is being compared."""
    pairs = [(a, b) for a, b in zip(split_cell(one), split_cell(other), strict=True) if [a, b] != names or a == b]
    return " / ".join(a if a == b else f"{a} → {b}" for a, b in pairs)


def _is_latency(unit: str) -> bool:
    return unit in ("s", "ms", "us", "ns")


def _show_ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < 10 else show_rate(ratio)


def _show_side(side: Document) -> str:
    count = f" on {side['count']}" if side["count"] else ""
    invalid = " INVALID" if side["validity"] == "INVALID" else ""
    return f"{show_measured(side)}{count}{invalid}"
