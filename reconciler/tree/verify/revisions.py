"""LoadGen's version is a file of its commit, and its date the commit's: all logs of one commit state the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconciler.tree.check.demands import OURS
from reconciler.tree.findings import Complaint, Place, Rule, Severity, TreeFinding
from reconciler.tree.reading.values import find_at, read_value
from reconciler.tree.reading.view import CellView
from reconciler.tree.verify.runs import list_runs

REVISION = Rule("runs.revision", "one commit of LoadGen, told in two ways", ("LoadGen", OURS))
_VERSION, _DATE = "loadgen_version", "loadgen_git_commit_date"
_STATED = re.compile(r"(\S{1,40}) @ ([0-9a-f]{10,40})", re.ASCII)
_DIGITS = 10  # of a commit, as LoadGen prints it


class Revision(Struct, frozen=True):
    """What the log of one run says of its LoadGen; ``stated``: its version, and the date of its commit."""

    submitter: str
    cell: str
    commit: str
    stated: tuple[str, str]
    places: tuple[Place, Place]


def list_revisions(view: CellView) -> Iterator[Revision]:
    """Nothing of a log without a commit, as of a LoadGen that was built outside a repository."""
    for run in list_runs(view):
        version, date = (read_value(run.log, key) for key in (_VERSION, _DATE))
        found = _STATED.fullmatch(version) if isinstance(version, str) else None
        if found and isinstance(date, str):
            cell = view.files.submitter.submitter, str(view.cell)
            places = find_at(run.log, _VERSION), find_at(run.log, _DATE)
            yield Revision(*cell, found[2][:_DIGITS], (found[1], date), places)


def _read_instant(date: str) -> str:
    """git writes UTC as Z or as +00:00, and its version decides which."""
    return f"{date.removesuffix('Z')}+00:00" if date.endswith("Z") else date


def verify_revisions(revisions: Iterable[Revision]) -> Iterator[TreeFinding]:
    """Each log that does not state what most logs of its commit do; of two that are equally many, what came first is
    taken for right. The number may be that of a file that was changed and not committed, so that it is a warning."""
    commits: dict[str, list[Revision]] = {}
    for revision in revisions:
        commits.setdefault(revision.commit, []).append(revision)
    for commit, same in commits.items():
        for part, (name, severity) in enumerate((("version", Severity.WARNING), ("date", None))):
            counts = Counter(_read_instant(revision.stated[part]) for revision in same)
            (usual, count), *others = counts.most_common()
            model = next(revision for revision in same if _read_instant(revision.stated[part]) == usual)
            for revision in same if others else ():
                if _read_instant(revision.stated[part]) != usual:
                    logs = "another log" if count == 1 else f"{count} other logs"
                    complaint = Complaint(
                        revision.places[part],
                        f"{name} {revision.stated[part]} of LoadGen's commit {commit}",
                        f"{usual}, as {logs} of this commit",
                        cause="a log that was edited, or a LoadGen whose files or history were",
                        other=model.places[part],
                        severity=severity,
                    )
                    yield TreeFinding(REVISION, revision.submitter, revision.cell, complaint)
