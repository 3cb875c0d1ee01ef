"""LoadGen's version is a file of its commit, and its date the commit's: all logs of one commit state the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import Struct

from reconciler.check.demands import OURS
from reconciler.loadgen import keys
from reconciler.resource.rules import Premise, Severity, rule
from reconciler.tree.findings import Complaint, Place
from reconciler.tree.reading.values import find_at, read_value
from reconciler.tree.reading.view import CellView
from reconciler.tree.rule_engine import About
from reconciler.verify.runs import list_runs

_VERSION, _DATE = keys.LOADGEN_VERSION, keys.LOADGEN_GIT_COMMIT_DATE
_STATED = re.compile(r"(\S{1,40}) @ ([0-9a-f]{10,40})", re.ASCII)
_DIGITS = 10  # of a commit, as LoadGen prints it
# As git writes the date of a commit in strict ISO 8601: the build of LoadGen asks for that. One that is too old to know
# the format prints its letters.
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", re.ASCII)


class Revision(Struct, frozen=True):
    """LoadGen of one run's log; ``stated``: its version, and the date of its commit."""

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


@rule(
    "runs.revision",
    "one commit of LoadGen, stated in two ways",
    sources=("LoadGen", OURS),
    cause="revision",
    premises=(Premise("Both logs state a date as git writes it."),),
)
def verify_revisions(revisions: Iterable[Revision]) -> Iterator[tuple[About, Complaint]]:
    """The date of a commit is one, wherever LoadGen was built from it: 43 commits are named in 6,455 logs of v4.1 and
    v5.1, each with one date and one version. A value that is no date is not compared, since a git that does not know
    the format prints its letters. If two dates are equally frequent, the first counts as right. The version is read
    from a file, which may be changed and not committed: a warning. Logs that name no commit are left out.
    """
    commits: dict[str, list[Revision]] = {}
    for revision in revisions:
        commits.setdefault(revision.commit, []).append(revision)
    for commit, same in commits.items():
        for part, (name, severity) in enumerate((("version", Severity.WARNING), ("date", None))):
            named = [
                revision for revision in same if part == 0 or _INSTANT.fullmatch(_read_instant(revision.stated[1]))
            ]
            if not named:
                continue
            counts = Counter(_read_instant(revision.stated[part]) for revision in named)
            (usual, count), *others = counts.most_common()
            model = next(revision for revision in named if _read_instant(revision.stated[part]) == usual)
            for revision in named if others else ():
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
                    yield About(revision.submitter, revision.cell), complaint
