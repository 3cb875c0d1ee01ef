"""A series of values as a plot: with plain characters for a terminal, or as SVG."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT, MOST = 8, 60
_WIDTH, _TALL, _LEFT = 720, 240, 90


@dataclass(frozen=True, slots=True)
class Point:
    """``good`` false: shown, but no result to publish. ``words``: what a reader sees on pointing at it."""

    value: float
    good: bool
    words: str


def plot_text(points: Sequence[Point], unit: str) -> str:
    """One column for each of the newest points: o for a good one, x for another. Empty for fewer than two."""
    shown = points[-MOST:]
    if len(shown) < 2:
        return ""
    low, high = min(p.value for p in shown), max(p.value for p in shown)
    span = high - low or 1.0
    rows = [[" "] * len(shown) for _ in range(HEIGHT)]
    for column, point in enumerate(shown):
        row = HEIGHT - 1 - round((point.value - low) / span * (HEIGHT - 1))
        rows[row][column] = "o" if point.good else "x"
    labels = {0: f"{high:,.6g}", HEIGHT - 1: f"{low:,.6g}"}
    width = max(map(len, labels.values()))
    lines = [f"{labels.get(number, ''):>{width}} | {' '.join(row)}".rstrip() for number, row in enumerate(rows)]
    return "\n".join([*lines, f"{'':>{width}} +-{'-' * (2 * len(shown))}  {unit}, oldest to newest"])


def plot_svg(points: Sequence[Point], title: str, unit: str) -> str:
    """A whole SVG file: no script, no style sheet, no font from elsewhere."""
    low, high = min(p.value for p in points), max(p.value for p in points)
    span = high - low or 1.0
    step = (_WIDTH - _LEFT - 20) / max(1, len(points) - 1)
    places = [(_LEFT + i * step, 30 + (high - p.value) / span * (_TALL - 60)) for i, p in enumerate(points)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    body = [f'<text x="{_LEFT}" y="16">{html.escape(title)} ({html.escape(unit)})</text>']
    for value, height in ((high, 30), (low, _TALL - 30)):
        body.append(f'<text x="{_LEFT - 8}" y="{height + 4}" text-anchor="end">{value:,.6g}</text>')
    body.append(f'<polyline points="{line}" fill="none" stroke="#888"/>')
    for (x, y), point in zip(places, points, strict=True):
        fill = "#1a7f37" if point.good else "#cf222e"
        mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}">'
        body.append(f"{mark}<title>{html.escape(point.words)}</title></circle>")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_TALL}" font-family="sans-serif"'
    return f'{head} font-size="12">{"".join(body)}</svg>\n'
