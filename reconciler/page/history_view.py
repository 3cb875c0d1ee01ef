"""A result over commits with the changes between them, and a comparison of two sides."""

from __future__ import annotations

import math

from reconciler.page.charts import chart_history
from reconciler.page.matrix_view import show_measured
from reconciler.render.documents import Document
from reconciler.resource.quantities import join_listing, show_rate
from reconciler.resource.wording import shorten_value, show_value


def arrange_history(document: Document) -> Document:
    return {
        "cell": document["cell"],
        "chart": chart_history(document),
        "results": [{**r, "result": show_measured(r)} for r in reversed(document["results"])],
        "steps": [_step(step) for step in reversed(document["steps"])],
    }


def _step(step: Document) -> Document:
    return {
        "what": step["after"]["what"],
        "started": step["after"]["started"],
        "before": show_measured(step["before"]),
        "after": show_measured(step["after"]),
        "change": _show_change(step["change"]),
        "causes": [_cause(cause) for cause in step["causes"]],
    }


def _cause(cause: Document) -> Document:
    before, after = (shorten_value(show_value(cause["name"], cause[side])) for side in ("before", "after"))
    by = cause["by"]
    return {**cause, "before": before, "after": after, "commit": f"{by['commit'][:7]} {by['subject']}" if by else ""}


def arrange_recent(document: Document) -> list[Document]:
    """Return the newest results of all cells, each with the change from the one before it."""
    return [{**row, "result": show_measured(row), "change": _show_change(row["change"])} for row in document["results"]]


def _show_change(change: float | None) -> str:
    return "" if change is None else f"{change:+.1%}".replace("-0.0%", "+0.0%")


def arrange_comparison(document: Document) -> Document:
    """Arrange a comparison. ``reach``: the logarithmic scale of ratios runs from its inverse to it, with 1 in the
    middle."""
    ratios = [pair["ratio"] for pair in document["pairs"] if pair["ratio"]]
    reach = max([1.25, *(max(ratio, 1 / ratio) for ratio in ratios if ratio > 0)])
    return {
        "names": document["names"],
        "reach": f"{reach:.3g}",
        "least": f"{1 / reach:.3g}",
        "pairs": [_pair(pair, reach) for pair in document["pairs"]],
        "alone": [(name, cells) for name, cells in document["alone"].items() if cells],
        "curves": [_curves(pair, document["names"]) for pair in document["curves"]],
    }


def _curves(pair: Document, names: list[str]) -> Document:
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


def _pair(pair: Document, reach: float) -> Document:
    ratio, per_accelerator = pair["ratio"], pair["per_accelerator"]
    return {
        "cells": list(dict.fromkeys((pair["one"]["cell"], pair["other"]["cell"]))),
        "one": _side(pair["one"]),
        "other": _side(pair["other"]),
        "ratio": f"{ratio:.3f}" if ratio is not None else "",
        "per_accelerator": f"{per_accelerator:.3f}" if per_accelerator is not None else "",
        "bar": round(50 * math.log(ratio) / math.log(reach), 1) if ratio and ratio > 0 else None,
    }


def _side(side: Document) -> str:
    count = f" on {side['count']}" if side["count"] else ""
    invalid = " INVALID" if side["validity"] == "INVALID" else ""
    return f"{show_measured(side)}{count}{invalid}"
