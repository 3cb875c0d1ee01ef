"""Findings about a tree as one standalone HTML page: plots, a table per submitter, no script."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from reconciler.check.causes import CauseGroup, group_by_cause
from reconciler.render.findings import SEVERITIES, render_finding_part, sort_findings
from reconciler.render.html import make_environment, read_static
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.storage.escaping import escape_hidden, escape_html
from reconciler.tree.findings import Facts, TreeFinding, TreeReport

_MOST = 40  # bars per plot
_AGREE = 0.002
_ORDER = "severity"  # order of the findings
_RATES = ("Server", "Interactive", "Offline")  # the scenarios whose target is a rate
_EDGES = (0.0, 0.5, 0.8, 0.85, 0.9, 0.94, 0.98, 1.02, 1.06, 1.1, 1.15, 1.2, 1.5, 2.0)


def render_findings_page(report: TreeReport, title: str) -> str:
    """Render a complete page in UTF-8. All text from a tree is escaped."""
    style = (read_static("page.css") + read_static("report.css")).decode()
    groups = group_by_cause(report.findings, report.facts)
    by_submitter: dict[str, list[dict[str, Any]]] = {}
    for finding in sort_findings(report.findings, _ORDER):
        by_submitter.setdefault(finding.submitter or "the tree", []).append(_render_row(finding))
    page = (
        make_environment()
        .get_template("report.html")
        .render(
            title=title,
            root=report.root,
            rounds=" and ".join(report.rounds),
            style=Markup(style),  # noqa: S704 (our own file)
            tiles=_list_tiles(report),
            severities=[severity.value for severity in SEVERITIES],
            groups=[_render_group(group) for group in groups],
            submitters=sorted(by_submitter.items(), key=lambda item: item[0].lower()),
            gaps=Counter(gap.reason for gap in report.gaps).most_common(),
            plots=[(name, Markup(plot)) for name, plot in _draw_plots(report) if plot],  # noqa: S704 (escapes by itself)
        )
    )
    return escape_hidden(page)


def _render_group(group: CauseGroup) -> dict[str, Any]:
    return {
        "title": group.cause.title,
        "severity": group.severity.value,
        "submitter": group.submitter,
        "counts": f"{show_count(len(group.cells), 'cell')}, {show_count(len(group.findings), 'finding')}",
        "cells": [cell.shown or "the tree" for cell in group.cells],
        "rule": group.cause.rule,
        "settled_by": group.cause.settled_by,
        "findings": [_render_row(finding) for finding in sort_findings(group.findings, _ORDER)],
    }


def _render_row(finding: TreeFinding) -> dict[str, Any]:
    return {**render_finding_part(finding), "place": str(finding.complaint.place)}


def _list_tiles(report: TreeReport) -> list[tuple[str, str]]:
    ratios = [ratio for _, ratio in _list_ratios(report.facts)]
    compared, differing = len(ratios), sum(abs(ratio - 1) > _AGREE for ratio in ratios)
    share = f" ({100 * differing / compared:.0f} %)" if compared else ""
    return [
        (f"{len(report.facts):,}", "results examined"),
        (f"{len({f.submitter for f in report.facts}):,}", "submitters"),
        *((f"{report.count(severity):,}", f"{severity.value}s") for severity in SEVERITIES),
        (f"{differing:,}{share}", f"of {compared:,} targets in user.conf differ from the log"),
    ]


def _list_ratios(facts: Sequence[Facts]) -> Iterator[tuple[Facts, float]]:
    for item in facts:
        if item.target and item.conf_target and item.target > 0 and item.conf_target > 0:
            yield item, item.conf_target / item.target


def _draw_plots(report: TreeReport) -> list[tuple[str, str]]:
    by_submitter = [(f.submitter or "the tree", f.severity) for f in report.findings]
    by_kind = [(f.rule.kind, f.severity) for f in report.findings]
    plots = [
        ("Findings by submitter", _draw_counts(by_submitter, "findings by submitter")),
        ("Findings by kind", _draw_counts(by_kind, "findings by kind")),
    ]
    ratios = list(_list_ratios(report.facts))
    off = [ratio for _, ratio in ratios if abs(ratio - 1) > _AGREE]
    points = [
        (f.target or 0.0, f.conf_target or 0.0, "good" if abs(r - 1) <= _AGREE else "error", _describe_point(f, r))
        for f, r in ratios
        if f.cell.rpartition("/")[2] in _RATES
    ]
    axes = "target_qps in the log", "target_qps in user.conf"
    plots.append(("Target in user.conf against the log", draw_scatter(points, "targets", *axes)))
    if off:
        counts = Counter(bisect_right(_EDGES[1:-1], ratio) for ratio in off)
        rows = {f"{low:g} to {high:g}": [("plain", counts[n])] for n, (low, high) in enumerate(pairwise(_EDGES))}
        bars = draw_bars(rows, "target in user.conf / target in the log, where they differ")
        plots.append(("How far user.conf is off: its target / that in the log", bars))
    return plots


def _describe_point(facts: Facts, ratio: float) -> str:
    return f"{facts.submitter} {facts.cell}: {facts.conf_target:g} against {facts.target:g} ({ratio:.3f})"


def _draw_counts(found: Iterable[tuple[str, Severity]], title: str) -> str:
    """Draw bars of the names with the most findings, ties by name, so that a report always has the same bytes."""
    counted = Counter(found)
    totals = Counter({name: sum(counted[name, s] for s in SEVERITIES) for name, _ in counted})
    names = sorted(totals, key=lambda name: (-totals[name], name))[:_MOST]
    rows = {name: [(severity.value, counted[name, severity]) for severity in SEVERITIES] for name in names}
    return draw_bars(rows, title) if names else ""


WIDTH = 720


def draw_bars(rows: Mapping[str, Sequence[tuple[str, int]]], title: str) -> str:
    """Draw horizontal bars of counts, a row per name, with the total at the end. A row has the lengths of its parts by
    the class that defines their colour."""
    left, height = 190, 22
    longest = max((sum(n for _, n in row) for row in rows.values()), default=0) or 1
    scale = (WIDTH - left - 60) / longest
    body = []
    for index, (name, row) in enumerate(rows.items()):
        y, x = 8 + index * height, float(left)
        shown = name if len(name) <= 26 else f"{name[:25]}…"
        body.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape_html(shown)}</text>')
        for kind, number in row:
            body.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{number * scale:.1f}" height="16"/>')
            x += number * scale
        body.append(f'<text x="{x + 6:.1f}" y="{y + 13}">{sum(n for _, n in row):,}</text>')
    return _make_svg(title, 16 + height * len(rows), body)


def draw_scatter(points: Sequence[tuple[float, float, str, str]], title: str, across: str, up: str) -> str:
    """Draw points (x, y, class, words) on logarithmic axes with the diagonal of equal values."""
    chosen = [point for point in points if point[0] > 0 and point[1] > 0]
    if not chosen:
        return ""
    size, left, bottom = 420.0, 70.0, 40.0
    values = [math.log10(value) for x, y, _, _ in chosen for value in (x, y)]
    low, high = math.floor(min(values)), math.ceil(max(values))
    span = max(1, high - low)

    def scale(value: float) -> float:
        return (math.log10(value) - low) / span * (size - 20)

    body = _draw_axes(low, span, left, size, across, up)
    body.append(f'<line class="even" x1="{left}" y1="{size}" x2="{left + size - 20}" y2="20"/>')
    for x, y, kind, words in chosen:
        centre = f'cx="{left + scale(x):.1f}" cy="{size - scale(y):.1f}"'
        body.append(f'<circle class="{kind}" {centre} r="4"><title>{escape_html(words)}</title></circle>')
    return _make_svg(title, int(size + bottom), body, width=int(left + size))


def _draw_axes(low: int, span: int, left: float, size: float, across: str, up: str) -> list[str]:
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


def _make_svg(title: str, height: int, body: Sequence[str], width: int = WIDTH) -> str:
    head = f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    return f"{head}<title>{escape_html(title)}</title>{''.join(body)}</svg>"
