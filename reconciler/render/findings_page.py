"""Findings about a tree as one standalone HTML page: plots, a table per submitter, no script."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from reconciler.check.causes import CauseGroup, group_by_cause
from reconciler.render.findings import SEVERITIES, render_finding_part, sort_findings
from reconciler.render.html import make_environment, read_static
from reconciler.render.svg import Bars, draw_bars, draw_scatter
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.storage.escaping import escape_hidden
from reconciler.tree.findings import Facts, TreeFinding, TreeReport

_MOST = 40  # bars per plot
_AGREE = 0.002
_ORDER = "severity"  # of findings
_RATES = ("Server", "Interactive", "Offline")  # the scenarios whose target is a rate
_EDGES = (0.0, 0.5, 0.8, 0.85, 0.9, 0.94, 0.98, 1.02, 1.06, 1.1, 1.15, 1.2, 1.5, 2.0)


def render_findings_page(report: TreeReport, title: str) -> str:
    """Render a complete page in UTF-8. All text from a tree is escaped."""
    style = (read_static("page.css") + read_static("report.css")).decode()
    groups = group_by_cause(report.findings, report.facts)
    page = (
        make_environment()
        .get_template("report.html")
        .render(
            title=title,
            root=report.root,
            rounds=" and ".join(report.rounds),
            style=Markup(style),  # noqa: S704 (our own file)
            tiles=_tiles(report),
            severities=[severity.value for severity in SEVERITIES],
            groups=[_group(group) for group in groups],
            submitters=list(_submitters(report)),
            gaps=Counter(gap.reason for gap in report.gaps).most_common(),
            plots=[(name, Markup(plot)) for name, plot in _plots(report) if plot],  # noqa: S704 (escapes by itself)
        )
    )
    return escape_hidden(page)


def _group(group: CauseGroup) -> dict[str, Any]:
    return {
        "title": group.cause.title,
        "severity": group.severity.value,
        "submitter": group.submitter,
        "counts": f"{show_count(len(group.cells), 'cell')}, {show_count(len(group.findings), 'finding')}",
        "cells": [cell.shown or "the tree" for cell in group.cells],
        "rule": group.cause.rule,
        "settled_by": group.cause.settled_by,
        "findings": [_row(finding) for finding in sort_findings(group.findings, _ORDER)],
    }


def _submitters(report: TreeReport) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for finding in sort_findings(report.findings, _ORDER):
        groups.setdefault(finding.submitter or "the tree", []).append(_row(finding))
    for name in sorted(groups, key=str.lower):
        yield name, groups[name]


def _row(finding: TreeFinding) -> dict[str, Any]:
    return {**render_finding_part(finding), "place": str(finding.complaint.place)}


def _tiles(report: TreeReport) -> list[tuple[str, str]]:
    compared, differing = _compared(report.facts)
    share = f" ({100 * differing / compared:.0f} %)" if compared else ""
    return [
        (f"{len(report.facts):,}", "results examined"),
        (f"{len({f.submitter for f in report.facts}):,}", "submitters"),
        *((f"{report.count(severity):,}", f"{severity.value}s") for severity in SEVERITIES),
        (f"{differing:,}{share}", f"of {compared:,} targets in user.conf differ from the log"),
    ]


def _compared(facts: Sequence[Facts]) -> tuple[int, int]:
    ratios = list(_ratios(facts))
    return len(ratios), sum(abs(ratio - 1) > _AGREE for _, ratio in ratios)


def _ratios(facts: Sequence[Facts]) -> Iterator[tuple[Facts, float]]:
    for item in facts:
        if item.target and item.conf_target and item.target > 0 and item.conf_target > 0:
            yield item, item.conf_target / item.target


def _plots(report: TreeReport) -> list[tuple[str, str]]:
    plots = [("Findings by submitter", _by_submitter(report)), ("Findings by kind", _by_kind(report))]
    ratios = list(_ratios(report.facts))
    off = [ratio for _, ratio in ratios if abs(ratio - 1) > _AGREE]
    points = [
        (f.target or 0.0, f.conf_target or 0.0, "good" if abs(r - 1) <= _AGREE else "error", _words(f, r))
        for f, r in ratios
        if f.cell.rpartition("/")[2] in _RATES
    ]
    axes = "target_qps in the log", "target_qps in user.conf"
    plots.append(("Target in user.conf against the log", draw_scatter(points, "targets", *axes)))
    if off:
        counts = Counter(bisect_right(_EDGES[1:-1], ratio) for ratio in off)
        rows = [f"{low:g} to {high:g}" for low, high in pairwise(_EDGES)]
        parts = [[("plain", counts[number])] for number in range(len(rows))]
        bars = draw_bars(Bars(rows, parts), "target in user.conf / target in the log, where they differ")
        plots.append(("How far user.conf is off: its target / that in the log", bars))
    return plots


def _words(facts: Facts, ratio: float) -> str:
    return f"{facts.submitter} {facts.cell}: {facts.conf_target:g} against {facts.target:g} ({ratio:.3f})"


def _by_submitter(report: TreeReport) -> str:
    return _draw_counts([(f.submitter or "the tree", f.severity) for f in report.findings], "findings by submitter")


def _by_kind(report: TreeReport) -> str:
    return _draw_counts([(f.rule.kind, f.severity) for f in report.findings], "findings by kind")


def _draw_counts(found: Iterable[tuple[str, Severity]], title: str) -> str:
    """Draw bars of the names with the most findings, ties by name, so that a report always has the same bytes."""
    counted = Counter(found)
    totals = Counter({name: sum(counted[name, s] for s in SEVERITIES) for name, _ in counted})
    names = sorted(totals, key=lambda name: (-totals[name], name))[:_MOST]
    parts = [[(severity.value, counted[name, severity]) for severity in SEVERITIES] for name in names]
    return draw_bars(Bars(names, parts), title) if names else ""
