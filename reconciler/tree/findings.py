"""Results of checking and verifying a tree: findings, and the facts about each result that reports show."""

from __future__ import annotations

from msgspec import Struct, field

from reconciler.resource.rules import Rule, Severity


class Place(Struct, frozen=True):
    """File below the tree's root and 1-based line; line 0 means the whole file."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Complaint(Struct, frozen=True):
    """Violation found by a rule. ``other``: the second place, with the contradicting value. ``mechanism``: id of the
    cause that groups the finding, "" for the rule's. ``doubt``: why a premise of the rule is not shown, which makes it
    a question. ``aspect``: distinguishes it from the rule's other findings when similar ones are counted, such as a
    log's key. ``common``: explanation by a shared tool or machine; if several results of a submitter have it, they
    become one question."""

    place: Place
    found: str
    wanted: str
    cause: str = ""
    fix: str = ""
    other: Place | None = None
    severity: Severity | None = None  # for cases that are less serious than their rule says
    mechanism: str = ""
    doubt: str = ""
    aspect: str = ""
    common: str = ""


class TreeFinding(Struct, frozen=True):
    """Complaint with its rule and its cell: division/system/benchmark/scenario, or as much of that as applies.
    ``origin``: the cell's line in the spec, if there is a spec. ``members``: the findings that it summarises, because
    they are so many that the submitter is probably not the cause."""

    rule: Rule
    submitter: str
    cell: str
    complaint: Complaint
    origin: str = ""
    members: tuple[TreeFinding, ...] = ()

    @property
    def severity(self) -> Severity:
        """Severity of the finding: a question if a premise is not shown, whatever the rule's severity."""
        return Severity.NOTE if self.complaint.doubt else self.complaint.severity or self.rule.severity

    @property
    def division(self) -> str:
        return self.cell.partition("/")[0]


class Facts(Struct, frozen=True):
    """Numbers of a result: ``metric`` in ``unit``, ``target`` from the log, ``conf_target`` from user.conf.
    ``digests``: of its logs, by run. ``began``: seconds since 1970, UTC."""

    submitter: str
    cell: str
    official: str
    round: str
    harness: str = "loadgen"
    metric: float | None = None
    unit: str = ""
    target: float | None = None
    conf_target: float | None = None
    validity: str = ""
    began: float | None = None
    digests: tuple[tuple[str, str], ...] = ()


class OfficialRun(Struct, frozen=True):
    """Run of an official checker: the checker, its commit, how it ended, and where its output was saved.

    ``verdict``: "looks OK", "has errors" or "crashed"; ``cause``: why it crashed, if known.
    """

    name: str
    commit: str
    status: int
    verdict: str
    cause: str = ""
    output: str = ""
    unmapped: tuple[str, ...] = ()


class Gap(Struct, frozen=True):
    """Comparison that was not possible, and why. ``blind``: none of the run's data could be compared, so the absence of
    findings means nothing."""

    submitter: str
    cell: str
    place: Place
    reason: str
    blind: bool = False


class TreeReport(Struct, frozen=True):
    """Report on a tree. ``root``: as the user typed it; ``rounds`` and ``layouts`` found; all findings in a fixed
    order."""

    root: str
    rounds: tuple[str, ...]
    layouts: tuple[str, ...]
    facts: tuple[Facts, ...]
    findings: tuple[TreeFinding, ...]
    official: tuple[OfficialRun, ...] = field(default=())
    gaps: tuple[Gap, ...] = ()

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def clean(self) -> bool:
        """True if there are no errors or warnings, no official checker failed or found errors, and no run was
        unreadable."""
        good = all(run.verdict == "looks OK" for run in self.official) and not any(gap.blind for gap in self.gaps)
        return good and all(finding.severity is Severity.NOTE for finding in self.findings)
