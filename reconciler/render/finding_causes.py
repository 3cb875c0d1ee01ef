"""Causes before lines: what most likely happened, whose cells share it, and what could not be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from reconciler.check.grouping import CauseGroup, FoldedCell, group_by_cause
from reconciler.render.colour import Paint, Tone, show_plain
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.tree.findings import Gap, TreeReport

_CELLS = 4  # cells of one submitter that a cause lists
TONES = {Severity.ERROR: Tone.BAD, Severity.WARNING: Tone.DOUBT, Severity.NOTE: Tone.FAINT}


def render_causes_text(report: TreeReport, *, limit: int | None = _CELLS, paint: Paint = show_plain) -> list[str]:
    """A heading per cause, worst first; under it each submitter with its cells and one finding as evidence."""
    groups = group_by_cause(report.findings, report.facts)
    lines: list[str] = []
    for number, members in enumerate(_by_cause(groups), start=1):
        first = members[0]
        cells = sum(len(member.cells) for member in members)
        findings = sum(len(member.findings) for member in members)
        lines.append(
            f"{number:3}. {paint(first.severity.value, TONES[first.severity])} {paint(first.title, Tone.HEADING)}"
            f": {show_count(len(members), 'submitter')}, {show_count(cells, 'cell')}, {show_count(findings, 'finding')}"
        )
        for member in members:
            lines += _submitter(member, limit)
        lines.append(f"     rule: {first.cause.rule}")
        lines.append(f"     settled by: {first.cause.settled_by}")
    return lines


def _by_cause(groups: Sequence[CauseGroup]) -> Iterator[list[CauseGroup]]:
    for _, members in groupby(groups, key=lambda group: (group.cause.id, group.severity is Severity.NOTE)):
        yield list(members)


def _submitter(group: CauseGroup, limit: int | None) -> list[str]:
    shown = group.cells[:limit]
    more = len(group.cells) - len(shown)
    lines = [f"     {group.submitter or 'the tree'}: {_names(shown)}{f' and {more:,} more' if more else ''}"]
    complaint = group.findings[0].complaint
    other = f" ({complaint.other})" if complaint.other else ""
    lines.append(f"       {complaint.place}: {complaint.found}; expected {complaint.wanted}{other}")
    lines += [f"       a question: {complaint.doubt}"] if complaint.doubt else []
    lines += [f"       likely: {complaint.cause}"] if complaint.cause else []
    return lines


def _names(cells: Sequence[FoldedCell]) -> str:
    return ", ".join(cell.shown or "the tree" for cell in cells)


def render_gaps_text(gaps: Sequence[Gap], paint: Paint = show_plain) -> list[str]:
    """How many results could not be compared, per reason: their silence says nothing."""
    if not gaps:
        return []
    blind = {(gap.submitter, gap.cell) for gap in gaps if gap.blind}
    cells = {(gap.submitter, gap.cell) for gap in gaps}
    head = f"Not compared: something of {show_count(len(cells), 'result')}"
    head += f", of {len(blind):,} at least one run as a whole" if blind else ""
    counted = Counter((gap.blind, gap.reason) for gap in gaps)
    order = sorted(counted.items(), key=lambda item: (not item[0][0], -item[1], item[0][1]))
    tone = Tone.DOUBT if blind else Tone.FAINT
    return [paint(f"{head}.", tone), *(f"  {number:,} times: {reason}" for (_, reason), number in order)]


def render_causes_part(report: TreeReport) -> list[dict[str, Any]]:
    """For JSON: each cause of each submitter, worst first, with its cells as they are folded."""
    return [
        {
            "cause": group.cause.id,
            "title": group.title,
            "severity": group.severity.value,
            "submitter": group.submitter,
            "cells": [cell.shown for cell in group.cells],
            "results": sum(len(cell.cells) for cell in group.cells),
            "findings": len(group.findings),
            "rule": group.cause.rule,
            "settled_by": group.cause.settled_by,
        }
        for group in group_by_cause(report.findings, report.facts)
    ]


def render_gaps_part(gaps: Sequence[Gap]) -> dict[str, Any]:
    """For JSON: the number of files per reason, and each file."""
    return {
        "reasons": dict(Counter(gap.reason for gap in gaps).most_common()),
        "files": [
            {
                "submitter": gap.submitter,
                "cell": gap.cell,
                "file": gap.place.file,
                "line": gap.place.line,
                "reason": gap.reason,
                "whole_run": gap.blind,
            }
            for gap in gaps
        ],
    }
