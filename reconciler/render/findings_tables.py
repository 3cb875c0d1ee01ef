"""Findings for the review of a round: a CSV for spreadsheets, and objections in Markdown, one file per submitter."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence

from reconciler.check.causes import CauseGroup, find_cause, group_by_cause, rank_cause
from reconciler.render.findings import render_finding_part, sort_findings
from reconciler.resource.quantities import show_count
from reconciler.resource.rules import Severity
from reconciler.storage.escaping import escape_line, escape_markdown, quote_code
from reconciler.tree.findings import TreeFinding, TreeReport

_COLUMNS = (
    *("cause_id", "cause_title", "submitter", "cell", "severity", "rule", "title", "file", "line", "found", "wanted"),
    *("other", "cause", "doubt", "fix", "sources", "origin"),
)
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are full-width
_LONGEST_NAME = 100  # of a file; disks take 255 bytes with what is added


def render_findings_csv(report: TreeReport, by: str = "submitter") -> str:
    """A row per finding, those of one cause together, worst first; ``by`` orders them within their cause. What a tree's
    author could have written into it is not a formula for a spreadsheet."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    ordered = sort_findings(report.findings, by)
    ranked = sorted(ordered, key=lambda finding: (finding.severity is Severity.NOTE, rank_cause(find_cause(finding))))
    for finding in ranked:
        part = render_finding_part(finding)
        part["sources"] = "; ".join(part["sources"])
        part["cause_title"] = find_cause(finding).title
        writer.writerow({name: _cell(part[name]) for name in _COLUMNS})
    return stream.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    return f"'{escape_line(value)}" if value.startswith(_FORMULA) else escape_line(value)


def render_objections(report: TreeReport, by: str = "") -> Mapping[str, str]:
    """{file name: Markdown} with a section per cause of errors and warnings, for submitters that have any. ``by``: who
    objects, which is tagged as the submission rules ask (filing objections); submitters do not object to their own
    results."""
    groups: dict[str, list[CauseGroup]] = {}
    for group in group_by_cause(report.findings, report.facts):
        if group.severity is not Severity.NOTE and group.submitter and group.submitter != by:
            groups.setdefault(group.submitter, []).append(group)
    names = _name_files(groups)
    return {f"{names[name]}.md": _objection(name, report, groups[name], by) for name in sorted(groups)}


def _objection(submitter: str, report: TreeReport, groups: Sequence[CauseGroup], by: str) -> str:
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
    return "\n".join([*head, *(line for group in groups for line in _section(group))]) + "\n"


def _section(group: CauseGroup) -> list[str]:
    """One paragraph that can be sent as it is, and the lines of every cell below it."""
    complaint = group.findings[0].complaint
    other = f" ({quote_code(str(complaint.other))})" if complaint.other else ""
    cells = ", ".join(escape_markdown(cell.shown or "the tree") for cell in group.cells)
    likely = f" Likely: {escape_markdown(complaint.cause)}." if complaint.cause else ""
    lines = [
        f"## {escape_markdown(_begin(group.cause.title))}",
        "",
        f"In {show_count(len(group.cells), 'place')} ({cells}) {escape_markdown(group.cause.title)}: for one, "
        f"at {quote_code(str(complaint.place))}: {escape_markdown(complaint.found)}; expected: "
        f"{escape_markdown(complaint.wanted)}{other}.{likely} "
        f"Rule: {escape_markdown(group.cause.rule)}. It would be settled by {escape_markdown(group.cause.settled_by)}.",
        "",
    ]
    for finding in sort_findings(group.findings, "cell"):
        lines += _item(finding)
    return [*lines, ""]


def _begin(title: str) -> str:
    """A file keeps its name."""
    return title if "." in title.partition(" ")[0] else title[:1].upper() + title[1:]


def _item(finding: TreeFinding) -> list[str]:
    complaint = finding.complaint
    other = f" in {quote_code(str(complaint.other))}" if complaint.other else ""
    lines = [
        f"- {escape_markdown(finding.cell or 'the tree')}, **{finding.severity.value}** (`{finding.rule.id}`): "
        f"{escape_markdown(complaint.found)} in {quote_code(str(complaint.place))}; "
        f"expected: {escape_markdown(complaint.wanted)}{other}",
    ]
    lines += [f"  - likely cause: {escape_markdown(complaint.cause)}"] if complaint.cause else []
    return lines


def _name_files(submitters: Iterable[str]) -> dict[str, str]:
    """Each its own, also where a disk takes upper and lower case for the same: nobody's name hides what is objected to
    another. Whose name is one of a file keeps it."""
    files: dict[str, str] = {}
    taken: set[str] = set()
    for submitter in sorted(submitters, key=lambda name: (_file_name(name) != name, name)):
        stem = _file_name(submitter)
        names = (stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 3)))
        files[submitter] = next(name for name in names if name.casefold() not in taken)
        taken.add(files[submitter].casefold())
    return files


def _file_name(submitter: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", submitter).strip(".")[:_LONGEST_NAME] or "submitter"
