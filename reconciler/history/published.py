"""Published files of a commit against each other: the rendered tree, checked with the rules for anyone's tree.

A record and its log may be forged so that they fit; a summary, a user.conf or another run's log shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from reconciler.diff.claims import Claim, Proof
from reconciler.history.logs import Logs
from reconciler.resource.rules import Severity
from reconciler.tree.content import Content, LogRef
from reconciler.tree.findings import TreeFinding
from reconciler.tree.reading.in_memory_tree import use_in_memory_tree
from reconciler.verify.engine import verify_tree

WHERE = "submission"


def find_contradictions(
    files: Mapping[str, Content], logs: Logs, round_name: str, cells: Mapping[str, str]
) -> Iterator[Claim]:
    """One claim for each contradiction. A log that is not in the commit as recorded is left out: its own claim says
    so. ``cells``: each as its folders are named -> its name."""
    with use_in_memory_tree(dict(_list_contents(files, logs))) as root:
        report = verify_tree(root, round_name=round_name)
    for finding in report.findings:
        if finding.severity is Severity.ERROR:
            where = cells.get(finding.cell, WHERE)
            yield Claim(where, f"published files: {finding.rule.id}", Proof.CONTRADICTED, _text(finding))


def _text(finding: TreeFinding) -> str:
    complaint = finding.complaint
    detail = f" ({complaint.other})" if complaint.other else ""
    return f"{complaint.place}: {complaint.found}; wanted: {complaint.wanted}{detail}"


def _list_contents(files: Mapping[str, Content], logs: Logs) -> Iterator[tuple[str, Callable[[], bytes]]]:
    logs.check(content.sha256 for content in files.values() if isinstance(content, LogRef))
    for path, content in files.items():
        if not isinstance(content, LogRef):
            yield path, partial(bytes, content)
        elif logs.checked[content.sha256] is Proof.PROVEN:
            yield path, partial(logs.read_proven, content.sha256)
