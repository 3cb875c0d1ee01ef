"""Findings for the review of a round: a CSV for spreadsheets, and objections in Markdown, one file per submitter."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

from reconciler.quantities import show_count
from reconciler.render.findings import SEVERITIES, render_finding_part, sort_findings
from reconciler.tree.findings import Severity, TreeFinding, TreeReport

_COLUMNS = (
    *("submitter", "cell", "severity", "rule", "title", "file", "line", "found", "wanted", "other", "cause", "fix"),
    *("sources", "origin"),
)
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_findings_csv(report: TreeReport, by: str = "submitter") -> str:
    """A row per finding. What a tree's author could have written into it is no formula for a spreadsheet."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for finding in sort_findings(report.findings, by):
        part = render_finding_part(finding)
        part["sources"] = "; ".join(part["sources"])
        writer.writerow({name: _cell(part[name]) for name in _COLUMNS})
    return stream.getvalue()


def _cell(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def render_objections(report: TreeReport) -> Mapping[str, str]:
    """{file name: Markdown} with every error and warning, for submitters that have any."""
    groups: dict[str, list[TreeFinding]] = {}
    for finding in report.findings:
        if finding.severity is not Severity.NOTE and finding.submitter:
            groups.setdefault(finding.submitter, []).append(finding)
    names = {name: _file_name(name) for name in groups}
    return {f"{names[name]}.md": _objection(name, report, groups[name]) for name in sorted(groups)}


def _objection(submitter: str, report: TreeReport, findings: Sequence[TreeFinding]) -> str:
    results = sum(facts.submitter == submitter for facts in report.facts)
    cells = {finding.cell for finding in findings}
    counted = [(severity, sum(f.severity is severity for f in findings)) for severity in SEVERITIES]
    counts = ", ".join(show_count(number, severity.value) for severity, number in counted if number)
    head = [
        f"# {_text(submitter)}",
        "",
        f"MLPerf Inference {' and '.join(report.rounds)}: {counts} in {show_count(len(cells), 'place')}, "
        f"of {show_count(results, 'result')} examined.",
        "",
    ]
    return "\n".join([*head, *(line for kind in _kinds(findings) for line in _section(kind, findings))]) + "\n"


def _kinds(findings: Sequence[TreeFinding]) -> list[str]:
    return sorted({finding.rule.kind for finding in findings})


def _section(kind: str, findings: Sequence[TreeFinding]) -> list[str]:
    lines = [f"## {kind}", ""]
    chosen = [f for f in sort_findings(findings, "cell") if f.rule.kind == kind]
    for cell in dict.fromkeys(finding.cell for finding in chosen):
        lines += [f"### {_text(cell or 'the tree')}", ""]
        for finding in chosen:
            if finding.cell == cell:
                lines += _item(finding)
        lines.append("")
    return lines


def _item(finding: TreeFinding) -> list[str]:
    complaint = finding.complaint
    other = f" in {_code(str(complaint.other))}" if complaint.other else ""
    lines = [
        f"- **{finding.severity.value}**: {_text(complaint.found)} in {_code(str(complaint.place))}",
        f"  - but: {_text(complaint.wanted)}{other}",
    ]
    lines += [f"  - likely cause: {_text(complaint.cause)}"] if complaint.cause else []
    lines.append(f"  - rule `{finding.rule.id}` ({finding.rule.title}): {', '.join(finding.rule.sources)}")
    return lines


def _text(text: str) -> str:
    """Nothing that someone wrote into a tree becomes markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"


def _file_name(submitter: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", submitter).strip(".") or "submitter"
