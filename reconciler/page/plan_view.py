"""Preview of a pass, and of merging one commit into another."""

from __future__ import annotations

from collections import Counter

from reconciler.render.documents import Document
from reconciler.resource.quantities import show_duration
from reconciler.resource.wording import shorten_value, show_value

_MOST = 500  # steps that are shown


def arrange_plan(document: Document, impact: Document | None) -> Document:
    steps = document["steps"]
    known = [step["seconds"] for step in steps if step["seconds"] is not None and not step["blocked"]]
    return {
        "title": "Plan",
        "looked": document["looked"],
        "in_sync": document["in_sync"],
        "counts": sorted(Counter(step["action"] for step in steps).items()),
        "unchanged": document["unchanged"],
        "expected": show_duration(sum(known)) if known else "",
        "steps": [_step(step) for step in steps[:_MOST]],
        "left_out": max(0, len(steps) - _MOST),
        "drifts": document["drifts"],
        "findings": document["findings"],
        "undeclared": document["undeclared"],
        "impact": _impact(impact) if impact is not None else None,
    }


def _step(step: Document) -> Document:
    kind, _, rest = step["address"].partition(":")
    return {
        **step,
        "kind": kind,
        "about": show_duration(step["seconds"]) if step["seconds"] is not None else "",
        "changes": [_change(item) for item in step["inputs"]],
        "what": rest,
    }


def _change(item: Document) -> str:
    before, after = (shorten_value(show_value(item["name"], item[side])) for side in ("before", "after"))
    return f"{item['name']} {before} → {after}"


def _impact(document: Document) -> Document:
    shown = [cell for cell in document["cells"] if cell["effect"] != "unaffected"]
    return {
        **document,
        "shown": [{**c, "causes": [_cause(x) for x in c["causes"]], "about": _about(c["seconds"])} for c in shown],
        "unaffected": len(document["cells"]) - len(shown),
    }


def _cause(cause: Document) -> str:
    where = f"{cause['file']}:{cause['line']}" if cause["line"] else cause["file"]
    return f"{_change(cause)}  {where}"


def _about(seconds: float | None) -> str:
    return show_duration(seconds) if seconds else ""
