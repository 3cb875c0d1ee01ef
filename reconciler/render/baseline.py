"""An earlier report of verify-tree, whose findings are known: what is new since its authors changed the tree."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from reconciler.errors import ReconcilerError
from reconciler.storage.json_files import read_json
from reconciler.storage.untrusted_files import LARGEST
from reconciler.tree.findings import TreeFinding, TreeReport

# Fields that make it the same finding in another report: not its line, which moves.
_FIELDS = ("rule", "submitter", "cell", "file", "found", "wanted")
Known = frozenset[tuple[str, ...]]


def read_baseline(file: Path) -> Known:
    """The findings of a report that `verify-tree --json` printed. ReconcilerError when the file is anything else."""
    try:
        document = read_json(file, LARGEST)
        return frozenset(tuple(str(part[name]) for name in _FIELDS) for part in document["findings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReconcilerError(
            f"{file} is not a report of verify-tree: {error}", fix="write one: reconcile verify-tree PATH --json > FILE"
        ) from error


def leave_out_known(report: TreeReport, known: Known) -> TreeReport:
    return replace(report, findings=tuple(item for item in report.findings if _identify(item) not in known))


def _identify(finding: TreeFinding) -> tuple[str, ...]:
    complaint = finding.complaint
    texts = (complaint.place.file, complaint.found, complaint.wanted)
    return (finding.rule.id, finding.submitter, finding.cell, *texts)
