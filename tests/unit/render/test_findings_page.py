"""The page of findings: the same bytes for the same findings."""

from __future__ import annotations

import re

from reconciler.render.findings_page import render_findings_page
from reconciler.resource.rules import Rule
from reconciler.tree.findings import Complaint, Place, TreeFinding, TreeReport

RULE = Rule("log.consistency", "a log that contradicts itself", ("ours",))
NAMES = ("delta", "alpha", "echo", "bravo", "charlie")


def test_submitters_with_equally_many_findings_stand_by_name() -> None:
    found = [
        TreeFinding(RULE, name, f"closed/{name}", Complaint(Place("a.txt"), "1", "2")) for name in (*NAMES, "echo")
    ]
    report = TreeReport(root="tree", rounds=("v5.1",), layouts=("v6",), facts=(), findings=tuple(found))
    plot = render_findings_page(report, "Findings").partition("findings by submitter")[2].partition("</svg>")[0]
    assert re.findall(r">(\w+)</text><rect", plot) == ["echo", "alpha", "bravo", "charlie", "delta"]
