"""The pass in progress: running steps, coming steps, ended steps."""

from __future__ import annotations

import itertools
from typing import Any

from reconciler.page.charts import name_reading
from reconciler.render.documents import Document
from reconciler.resource.quantities import show_duration, show_rate, show_size

_QUEUED = 12
_WIDE, _TALL = 240.0, 40.0  # of a small curve


def arrange_live(document: Document) -> Document:
    queue = document["next"]
    left = [step["seconds"] for step in queue] + [attempt["left"] for attempt in document["attempts"]]
    return {
        **document,
        "attempts": [_arrange_attempt(attempt) for attempt in document["attempts"]],
        "jobs": [
            {**job, "said": ", ".join(filter(None, [job["state"], _show_samples(job), job["note"]]))}
            for job in document["jobs"]
        ],
        "queue": [{**step, "about": _show_time(step["seconds"])} for step in queue[:_QUEUED]],
        "queued": len(queue),
        "left": _show_time(sum(seconds or 0.0 for seconds in left)),
    }


def _show_samples(item: Document) -> str:
    of = f" of {item['expected']:,}" if item["expected"] else ""
    return f"{item['done']:,}{of}" if item["done"] or item["expected"] else ""


def _show_time(seconds: float | None) -> str:
    return f"about {show_duration(seconds)}" if seconds else ""


def _arrange_attempt(attempt: Document) -> Document:
    return {
        **attempt,
        "samples": _show_samples(attempt),
        "percent": round(100 * attempt["fraction"]) if attempt["fraction"] is not None else None,
        "speed": f"{show_rate(attempt['rate'])}/s" if attempt["rate"] is not None else "",
        "remaining": show_duration(attempt["left"]) if attempt["left"] is not None else "",
        "lasted": show_duration(round(attempt["seconds"], 1)),
        "least": show_duration(attempt["minimum"]) if attempt["minimum"] else "",
        "curves": _arrange_curves(attempt["readings"]),
    }


def _arrange_curves(readings: list[Document]) -> list[Document]:
    """Return the latest value of each reading, and its history as the points of a small curve."""
    found = []
    for name in dict.fromkeys(name for row in readings for name in row if name != "seconds"):
        points = [(row["seconds"], row[name]) for row in readings if name in row]
        if name == "done":
            pairs = [(one, other) for one, other in itertools.pairwise(points) if other[0] > one[0]]
            points = [(other[0], (other[1] - one[1]) / (other[0] - one[0])) for one, other in pairs]
        if points:
            words, unit = ("throughput", "samples/s") if name == "done" else name_reading(name)
            value = show_size(int(points[-1][1])) if name.endswith("bytes") else show_rate(points[-1][1])
            found.append({"name": words, "value": f"{value} {unit}".rstrip(), "points": _scale(points)})
    return found


def _scale(points: list[tuple[float, float]]) -> str:
    """Scale to a polyline of ``_WIDE`` x ``_TALL``, from zero up."""
    first, last = points[0][0], points[-1][0]
    most = max((value for _, value in points), default=0.0) or 1.0
    span: Any = last - first or 1.0
    places = ((_WIDE * (x - first) / span, _TALL - (_TALL - 2) * max(0.0, y) / most - 1) for x, y in points)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
