"""Findings about folders that this user may not list, in place of all that follows from not seeing what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from reconciler.resource.kinds import DIVISIONS
from reconciler.resource.rules import Rule
from reconciler.tree.findings import Complaint, Place, TreeFinding

UNREADABLE = Rule("tree.readable", "every file and folder can be read", ("ours",))
_OF_CELLS = ("results", "measurements", "compliance")


def report_closed_folders(
    closed: Iterable[Path], roots: Sequence[tuple[Path, str]], findings: Iterable[TreeFinding]
) -> tuple[TreeFinding, ...]:
    """``findings`` without those about what is in a closed folder, then one for each such folder. ``roots``: the top of
    each tree, and how what is in it is shown. The submitter is not blamed: it may be open to everybody else."""
    unreadable = [_report(path, roots) for path in sorted(closed)]
    hidden = tuple(f"{finding.complaint.place.file}/" for finding in unreadable)
    kept = (finding for finding in findings if not f"{finding.complaint.place.file}/".startswith(hidden))
    return (*kept, *unreadable)


def _report(path: Path, roots: Sequence[tuple[Path, str]]) -> TreeFinding:
    top, before = next(((top, shown) for top, shown in roots if path.is_relative_to(top)), (Path(), ""))
    inside = path.relative_to(top) if path.is_relative_to(top) else path
    shown = f"{before}{inside}"
    complaint = Complaint(
        Place(shown),
        "this user may not read it, so that nothing is known of what it holds",
        "what can be read",
        fix="have its owner run `chmod -R a+rX` on it, or run this as a user who may read it",
    )
    division, *rest = inside.parts or ("",)
    of_cell = rest[2:5] if rest[1:2] and rest[1] in _OF_CELLS else []
    return TreeFinding(UNREADABLE, "", "/".join((division, *of_cell)) if division in DIVISIONS else "", complaint)
