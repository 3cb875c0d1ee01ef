"""Findings about a tree as text and JSON: grouped by submitter and kind, worst first."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from reconciler.check.causes import CauseGroup, find_cause, group_by_cause, rank_cause
from reconciler.render.colour import Paint, Tone
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.storage.escaping import escape_line, escape_markdown, quote_code
from reconciler.tree.findings import Gap, OfficialRun, TreeFinding, TreeReport

# Causes before lines: the most likely cause, the cells that share it, and the files that could not be compared.

_CELLS = 4  # cells of one submitter listed per cause
TONES = {Severity.ERROR: Tone.BAD, Severity.WARNING: Tone.DOUBT, Severity.NOTE: Tone.FAINT}


def render_causes_text(report: TreeReport, limit: int | None, paint: Paint) -> list[str]:
    """Render a heading per cause, worst first; below it each submitter with its cells and one finding as evidence."""
    groups = group_by_cause(report.findings, report.facts)
    by_cause = (list(members) for _, members in groupby(groups, key=lambda group: (group.cause.id, group.severity)))
    lines: list[str] = []
    for number, members in enumerate(by_cause, start=1):
        first = members[0]
        cells = sum(len(member.cells) for member in members)
        findings = sum(len(member.findings) for member in members)
        counts = ", ".join(map(show_count, (len(members), cells, findings), ("submitter", "cell", "finding")))
        severity = paint(first.severity.value, TONES[first.severity])
        lines.append(f"{number:3}. {severity}: {paint(first.title, Tone.HEADING)} ({counts})")
        for member in members:
            lines += _render_submitter(member, limit)
        lines.append(f"     rule: {first.cause.rule}")
        lines.append(f"     settled by: {first.cause.settled_by}")
    return lines


def _render_submitter(group: CauseGroup, limit: int | None) -> list[str]:
    shown = group.cells[:limit]
    more = len(group.cells) - len(shown)
    names = ", ".join(cell.shown for cell in shown if cell.shown)
    names += f" and {more:,} more" if more else ""
    lines = [f"     {group.submitter or 'the tree'}{names and f': {names}'}"]
    complaint = group.findings[0].complaint
    other = f" ({complaint.other})" if complaint.other else ""
    lines.append(f"       {complaint.place}: {complaint.found}; expected {complaint.wanted}{other}")
    lines += [f"       a question: {complaint.doubt}"] if complaint.doubt else []
    lines += [f"       likely: {complaint.cause}"] if complaint.cause else []
    return lines


def render_gaps_text(gaps: Sequence[Gap], paint: Paint) -> list[str]:
    """Render the number of results that could not be compared, per reason, since the absence of findings for them means
    nothing."""
    if not gaps:
        return []
    blind = {(gap.submitter, gap.cell) for gap in gaps if gap.blind}
    cells = {(gap.submitter, gap.cell) for gap in gaps}
    head = f"Partly compared: {show_count(len(cells), 'result')}"
    head += f"; in {len(blind):,} of them, a run could not be compared at all" if blind else ""
    counted = Counter((gap.blind, gap.reason) for gap in gaps)
    order = sorted(counted.items(), key=lambda item: (not item[0][0], -item[1], item[0][1]))
    tone = Tone.DOUBT if blind else Tone.FAINT
    return [paint(f"{head}.", tone), *(f"  {number:,} x {reason}" for (_, reason), number in order)]


def render_causes_part(report: TreeReport) -> list[dict[str, Any]]:
    """Return each cause of each submitter for JSON, worst first, with its cells folded."""
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
    """Return the number of files per reason, and the individual files, for JSON."""
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


LIMIT = 20  # findings of one kind shown per submitter
SEVERITIES = tuple(Severity)
_ORDERS: dict[str, Callable[[TreeFinding], Any]] = {
    "submitter": lambda f: (f.submitter.lower(), f.rule.kind, SEVERITIES.index(f.severity)),
    "kind": lambda f: (f.rule.kind, f.submitter.lower(), SEVERITIES.index(f.severity)),
    "severity": lambda f: (SEVERITIES.index(f.severity), f.submitter.lower(), f.rule.kind),
    "cell": lambda f: (f.submitter.lower(), f.cell, SEVERITIES.index(f.severity)),
}
ORDERS = tuple(_ORDERS)


def sort_findings(findings: Sequence[TreeFinding], by: str) -> list[TreeFinding]:
    """Sort by one of ORDERS; equal findings stay in the order in which they were found."""
    return sorted(findings, key=_ORDERS[by])


def render_verified_text(report: TreeReport, *, by: str, every: bool, paint: Paint) -> str:
    """Render causes first, then what could not be compared. ``every``: all cells of each cause, and all findings
    below."""
    lines = [*render_causes_text(report, None if every else _CELLS, paint), *render_gaps_text(report.gaps, paint)]
    if every and report.findings:
        lines += ["", render_findings_text(report, by=by, limit=None, paint=paint)]
    else:
        lines.append(summarise_findings(report, paint))
        lines += [paint("--all lists every finding with its lines.", Tone.FAINT)] if report.findings else []
    return "\n".join(lines)


def render_findings_text(report: TreeReport, *, by: str, limit: int | None, paint: Paint) -> str:
    """Render a heading per group, each finding with its place, and the counts. ``limit``: findings shown per group."""
    lines: list[str] = []
    groups: dict[str, list[TreeFinding]] = {}
    for finding in sort_findings(report.findings, by):
        groups.setdefault(_choose_heading(finding, by), []).append(finding)
    for heading, group in groups.items():
        lines.append(paint(f"{heading}: {_show_counts(group)}", Tone.HEADING))
        for finding in group[:limit]:
            lines += _render_finding(finding, paint)
        if limit is not None and len(group) > limit:
            lines.append(f"  … and {len(group) - limit:,} more; --all shows them")
    for run in report.official:
        lines += _render_official(run, paint)
    return "\n".join([*lines, summarise_findings(report, paint)])


def _choose_heading(finding: TreeFinding, by: str) -> str:
    submitter, kind = escape_line(finding.submitter or "the tree"), finding.rule.kind
    match by:
        case "kind":
            return f"{kind}, {submitter}"
        case "severity":
            return f"{finding.severity.value}, {submitter}"
        case "cell":
            return f"{submitter}, {escape_line(finding.cell)}"
    return f"{submitter}, {kind}"


def _render_finding(finding: TreeFinding, paint: Paint) -> list[str]:
    complaint = finding.complaint
    head = paint(finding.severity.value, TONES[finding.severity])
    lines = [f"  {head} {escape_line(finding.cell or 'tree')}  {paint(f'[{finding.rule.id}]', Tone.FAINT)}"]
    lines.append(f"    {escape_line(str(complaint.place))}: {escape_line(complaint.found)}")
    where = f" ({escape_line(str(complaint.other))})" if complaint.other else ""
    lines.append(f"    {'but' if complaint.other else 'expected'}: {escape_line(complaint.wanted)}{where}")
    lines += [f"    a question: {escape_line(complaint.doubt)}"] if complaint.doubt else []
    lines += [f"    likely: {escape_line(complaint.cause)}"] if complaint.cause else []
    lines += [f"    fix: {escape_line(complaint.fix)}"] if complaint.fix else []
    lines += [f"    spec: {escape_line(finding.origin)}"] if finding.origin else []
    return lines


def _render_official(run: OfficialRun, paint: Paint) -> list[str]:
    tone = Tone.GOOD if run.verdict == "looks OK" else Tone.BAD
    commit = f" (commit {run.commit[:10]})" if run.commit else " (no git checkout: commit unknown)"
    lines = [f"{run.name}{commit}: {paint(run.verdict, tone)}; its output: {run.output}"]
    lines += [f"  cause: {run.cause}"] if run.cause else []
    lines += [f"  {text}" for text in run.unmapped[:LIMIT]]
    return lines


def summarise_findings(report: TreeReport, paint: Paint) -> str:
    what = f"{show_count(len(report.facts), 'result')} of {' and '.join(report.rounds) or 'no round'}"
    blind = {(gap.submitter, gap.cell) for gap in report.gaps if gap.blind}
    if blind:
        what += f", {len(blind):,} of them not wholly"
    if not report.findings:
        return paint(f"{what}: nothing found.", Tone.GOOD if report.clean else Tone.DOUBT)
    tone = Tone.GOOD if report.clean else Tone.BAD
    return paint(f"{what}: {_show_counts(report.findings)}.", tone)


def _show_counts(findings: Sequence[TreeFinding]) -> str:
    counted = Counter(finding.severity for finding in findings)
    return ", ".join(show_count(counted[severity], severity.value) for severity in SEVERITIES if counted[severity])


def render_findings_part(report: TreeReport, by: str = "submitter") -> dict[str, Any]:
    """Return every result considered, including clean ones, and every finding, for ``render_document``."""
    members = (member for finding in report.findings for member in finding.members or (finding,))
    found = Counter((member.submitter, member.cell) for member in members)
    return {
        "root": report.root,
        "rounds": report.rounds,
        "layouts": report.layouts,
        "clean": report.clean,
        "counts": {severity.value: report.count(severity) for severity in SEVERITIES},
        "results": [
            {
                "submitter": facts.submitter,
                "cell": facts.cell,
                "benchmark": facts.official,
                "round": facts.round,
                "harness": facts.harness,
                "metric": facts.metric,
                "unit": facts.unit,
                "target": facts.target,
                "conf_target": facts.conf_target,
                "validity": facts.validity,
                "findings": found[facts.submitter, facts.cell],
            }
            for facts in report.facts
        ],
        "causes": render_causes_part(report),
        "gaps": render_gaps_part(report.gaps),
        "findings": [render_finding_part(finding) for finding in sort_findings(report.findings, by)],
        "official": report.official,
    }


def render_finding_part(finding: TreeFinding) -> dict[str, Any]:
    """Return a finding for JSON. ``members``: the individual findings that a question summarises."""
    complaint = finding.complaint
    return {
        "cause_id": find_cause(finding).id,
        "rule": finding.rule.id,
        "title": finding.rule.title,
        "sources": finding.rule.sources,
        "severity": finding.severity.value,
        "submitter": finding.submitter,
        "cell": finding.cell,
        "file": complaint.place.file,
        "line": complaint.place.line,
        "found": complaint.found,
        "wanted": complaint.wanted,
        "other": str(complaint.other) if complaint.other else "",
        "cause": complaint.cause,
        "doubt": complaint.doubt,
        "fix": complaint.fix,
        "origin": finding.origin,
        "members": [render_finding_part(member) for member in finding.members],
    }


# Findings for the review of a round: a CSV for spreadsheets, and objections in Markdown, one file per submitter.

_COLUMNS = (
    *("cause_id", "cause_title", "submitter", "cell", "severity", "rule", "title", "file", "line", "found", "wanted"),
    *("other", "cause", "doubt", "fix", "sources", "origin"),
)
# A spreadsheet interprets a cell with this prefix as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are full-width
_LONGEST_NAME = 100  # characters of a file name; file systems allow 255 bytes with the suffix


def render_findings_csv(report: TreeReport, by: str) -> str:
    """Render a row per finding, grouped by cause, worst first; ``by`` orders them within their cause. Text from a tree
    never becomes a spreadsheet formula."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    ordered = sort_findings(report.findings, by)
    ranked = sorted(ordered, key=lambda finding: (finding.severity is Severity.NOTE, rank_cause(find_cause(finding))))
    for finding in ranked:
        part = render_finding_part(finding)
        part["sources"] = "; ".join(part["sources"])
        part["cause_title"] = find_cause(finding).title
        writer.writerow({name: _escape_cell(part[name]) for name in _COLUMNS})
    return stream.getvalue()


def _escape_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    return f"'{escape_line(value)}" if value.startswith(_FORMULA) else escape_line(value)


def render_objections(report: TreeReport, by: str = "") -> Mapping[str, str]:
    """Return {file name: Markdown} with a section per cause of errors and warnings, for each submitter with any.
    ``by``: the objector, tagged as the submission rules require (filing objections); submitters do not object to their
    own results."""
    groups: dict[str, list[CauseGroup]] = {}
    for group in group_by_cause(report.findings, report.facts):
        if group.severity is not Severity.NOTE and group.submitter and group.submitter != by:
            groups.setdefault(group.submitter, []).append(group)
    names = _name_files(groups)
    return {f"{names[name]}.md": _render_objection(name, report, groups[name], by) for name in sorted(groups)}


def _render_objection(submitter: str, report: TreeReport, groups: Sequence[CauseGroup], by: str) -> str:
    results = sum(facts.submitter == submitter for facts in report.facts)
    cells = {cell for group in groups for folded in group.cells for cell in folded.cells}
    head = [
        f"# {escape_markdown(submitter)}",
        "",
        f"MLPerf Inference {' and '.join(report.rounds)}: {show_count(len(groups), 'objection')} to "
        f"{show_count(len(cells), 'place')}, of {show_count(results, 'result')} examined.",
        "",
        *([f"Tags: {quote_code(f'by {by}')}, {quote_code(f'against {submitter}')}", ""] if by else []),
    ]
    return "\n".join([*head, *(line for group in groups for line in _render_section(group))]) + "\n"


def _render_section(group: CauseGroup) -> list[str]:
    """Render one paragraph that can be sent unchanged, and the lines of every cell below it."""
    complaint = group.findings[0].complaint
    other = f" ({quote_code(str(complaint.other))})" if complaint.other else ""
    cells = ", ".join(escape_markdown(cell.shown or "the tree") for cell in group.cells)
    likely = f" Likely: {escape_markdown(complaint.cause)}." if complaint.cause else ""
    lines = [
        f"## {escape_markdown(_capitalise(group.cause.title))}",
        "",
        f"In {show_count(len(group.cells), 'place')} ({cells}) {escape_markdown(group.cause.title)}: for one, "
        f"at {quote_code(str(complaint.place))}: {escape_markdown(complaint.found)}; expected: "
        f"{escape_markdown(complaint.wanted)}{other}.{likely} "
        f"Rule: {escape_markdown(group.cause.rule)}. It would be settled by {escape_markdown(group.cause.settled_by)}.",
        "",
    ]
    for finding in sort_findings(group.findings, "cell"):
        lines += _render_item(finding)
    return [*lines, ""]


def _capitalise(title: str) -> str:
    """Capitalise a title, unless it begins with a file name."""
    return title if "." in title.partition(" ")[0] else title[:1].upper() + title[1:]


def _render_item(finding: TreeFinding) -> list[str]:
    complaint = finding.complaint
    other = f" in {quote_code(str(complaint.other))}" if complaint.other else ""
    lines = [
        f"- {escape_markdown(finding.cell or 'the tree')}, **{finding.severity.value}** (`{finding.rule.id}`): "
        f"{escape_markdown(complaint.found)} in {quote_code(str(complaint.place))}; "
        f"expected: {escape_markdown(complaint.wanted)}{other}"
    ]
    lines += [f"  - likely cause: {escape_markdown(complaint.cause)}"] if complaint.cause else []
    return lines


def _name_files(submitters: Iterable[str]) -> dict[str, str]:
    """Give each submitter a separate file, even on case-insensitive file systems, so that no name hides another's
    objections. A submitter whose name is a valid file name keeps it."""
    files: dict[str, str] = {}
    taken: set[str] = set()
    for submitter in sorted(submitters, key=lambda name: (_make_file_name(name) != name, name)):
        stem = _make_file_name(submitter)
        names = (stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 3)))
        files[submitter] = next(name for name in names if name.casefold() not in taken)
        taken.add(files[submitter].casefold())
    return files


def _make_file_name(submitter: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", submitter).strip(".")[:_LONGEST_NAME] or "submitter"
