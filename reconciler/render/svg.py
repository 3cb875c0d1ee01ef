"""Small plots as SVG for a one-file report, whose style sheet colours them: no script, no external font."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from reconciler.storage.escaping import escape_html

WIDTH = 720


class Bars(Struct, frozen=True):
    """``parts``: for each row the lengths of its parts, by the classes that define their colours."""

    rows: Sequence[str]
    parts: Sequence[Sequence[tuple[str, int]]]


def draw_bars(plot: Bars, title: str) -> str:
    """Draw horizontal bars of counts, a row per name, with the total at the end."""
    left, height = 190, 22
    longest = max((sum(n for _, n in row) for row in plot.parts), default=0) or 1
    scale = (WIDTH - left - 60) / longest
    body = []
    for index, (name, row) in enumerate(zip(plot.rows, plot.parts, strict=True)):
        y, x = 8 + index * height, float(left)
        body.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape_html(_short(name))}</text>')
        for kind, number in row:
            body.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{number * scale:.1f}" height="16"/>')
            x += number * scale
        body.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{sum(n for _, n in row):,}</text>')
    return _svg(title, 16 + height * len(plot.rows), body)


def draw_scatter(points: Sequence[tuple[float, float, str, str]], title: str, across: str, up: str) -> str:
    """Draw points (x, y, class, words) on logarithmic axes with the diagonal of equal values."""
    chosen = [point for point in points if point[0] > 0 and point[1] > 0]
    if not chosen:
        return ""
    size, left, bottom = 420.0, 70.0, 40.0
    values = [math.log10(value) for x, y, _, _ in chosen for value in (x, y)]
    low, high = math.floor(min(values)), math.ceil(max(values))
    span = max(1, high - low)

    def at(value: float) -> float:
        return (math.log10(value) - low) / span * (size - 20)

    body = _axes(low, span, left, size, across, up)
    body.append(f'<line class="even" x1="{left}" y1="{size}" x2="{left + size - 20}" y2="20"/>')
    for x, y, kind, words in chosen:
        centre = f'cx="{left + at(x):.1f}" cy="{size - at(y):.1f}"'
        body.append(f'<circle class="{kind}" {centre} r="4"><title>{escape_html(words)}</title></circle>')
    return _svg(title, int(size + bottom), body, width=int(left + size))


def _axes(low: int, span: int, left: float, size: float, across: str, up: str) -> list[str]:
    body = []
    for step in range(0, span + 1, 1 + span // 7):
        offset = step / span * (size - 20)
        label = f"{10.0 ** (low + step):g}"
        body.append(f'<line class="grid" x1="{left + offset:.1f}" y1="{size}" x2="{left + offset:.1f}" y2="20"/>')
        y = f"{size - offset:.1f}"
        body.append(f'<line class="grid" x1="{left}" y1="{y}" x2="{left + size - 20}" y2="{y}"/>')
        body.append(f'<text x="{left + offset:.1f}" y="{size + 15}" text-anchor="middle">{label}</text>')
        body.append(f'<text x="{left - 6}" y="{size - offset + 4:.1f}" text-anchor="end">{label}</text>')
    body.append(f'<text x="{left + size / 2:.0f}" y="{size + 33}" text-anchor="middle">{escape_html(across)}</text>')
    middle = f"{size / 2:.0f}"
    turned = f'transform="rotate(-90 14 {middle})" x="14" y="{middle}"'
    body.append(f'<text {turned} text-anchor="middle">{escape_html(up)}</text>')
    return body


def _svg(title: str, height: int, body: Sequence[str], width: int = WIDTH) -> str:
    head = f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    return f"{head}<title>{escape_html(title)}</title>{''.join(body)}</svg>"


def _short(name: str) -> str:
    return name if len(name) <= 26 else f"{name[:25]}…"
