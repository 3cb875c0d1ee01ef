"""Findings of `check` and `verify-tree`, by cause and one by one."""

from __future__ import annotations

from reconciler.render.documents import Document

_MOST = 3000  # findings that are shown


def arrange_findings(document: Document) -> Document:
    found = document["findings"]
    return {
        "rounds": " and ".join(document["rounds"]),
        "clean": document["clean"],
        "counts": [(name, number) for name, number in document["counts"].items() if number],
        "looked_at": len(document["results"]),
        "causes": document["causes"],
        "findings": [_finding(finding) for finding in found[:_MOST]],
        "left_out": max(0, len(found) - _MOST),
        "gaps": list(document["gaps"]["reasons"].items()),
        "severities": list(dict.fromkeys(f["severity"] for f in found)),
        "submitters": sorted({f["submitter"] for f in found if f["submitter"]}),
        "rules": sorted({f["rule"] for f in found}),
    }


def _finding(finding: Document) -> Document:
    place = f"{finding['file']}:{finding['line']}" if finding["line"] else finding["file"]
    return {**finding, "place": place, "subject": finding["cell"] or "the tree"}
