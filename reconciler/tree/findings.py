"""Results of checking and verifying a tree: findings, and the facts of each result that reports show."""

from __future__ import annotations

from msgspec import Struct, field

from reconciler.resource.rules import Rule, Severity


class Place(Struct, frozen=True):
    """A file below the tree's root, and its 1-based line; 0: the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Complaint(Struct, frozen=True):
    """Violation that a rule found. ``other``: the second place, with the contradicting value. ``mechanism``: the id of
    the cause that the findings are grouped by, "" for that of the rule. ``doubt``: why a premise of the rule is not
    shown; then it is a question. ``aspect``: what distinguishes it from other findings of its rule when those alike are
    counted, as the key of a log. ``common``: how a tool or a machine would explain it, where several results of a
    submitter have it; then they are one question."""

    place: Place
    found: str
    wanted: str
    cause: str = ""
    fix: str = ""
    other: Place | None = None
    severity: Severity | None = None  # where one case is milder than its rule
    mechanism: str = ""
    doubt: str = ""
    aspect: str = ""
    common: str = ""


class TreeFinding(Struct, frozen=True):
    """A complaint with its rule and the cell it is about: division/system/benchmark/scenario, or as much of that as
    applies. ``origin``: the spec line of the cell, where there is a spec. ``members``: those that it sums up, because
    they are so many that their cause is probably not the submitter's."""

    rule: Rule
    submitter: str
    cell: str
    complaint: Complaint
    origin: str = ""
    members: tuple[TreeFinding, ...] = ()

    @property
    def severity(self) -> Severity:
        """A question where a premise is not shown, whatever the rule says."""
        return Severity.NOTE if self.complaint.doubt else self.complaint.severity or self.rule.severity

    @property
    def division(self) -> str:
        return self.cell.partition("/")[0]


class Facts(Struct, frozen=True):
    """A result in numbers: ``metric`` in ``unit``, ``target`` as the log has it, ``conf_target`` as user.conf says.
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
    """One official checker: what it is, the commit it came from, how it ended, and where its output was saved.

    ``verdict``: "looks OK", "has errors" or "crashed"; ``cause``: why it crashed, as far as it can be seen.
    """

    name: str
    commit: str
    status: int
    verdict: str
    cause: str = ""
    output: str = ""
    unmapped: tuple[str, ...] = ()


class Gap(Struct, frozen=True):
    """Comparison that was not possible, and why. ``blind``: nothing of a run could be compared, so that its silence
    says nothing."""

    submitter: str
    cell: str
    place: Place
    reason: str
    blind: bool = False


class TreeReport(Struct, frozen=True):
    """``root`` as the user typed it; ``rounds`` and ``layouts`` that were seen; every finding in a fixed order."""

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
        """No error and no warning, no official checker that found or did otherwise, and no run left unseen."""
        good = all(run.verdict == "looks OK" for run in self.official) and not any(gap.blind for gap in self.gaps)
        return good and all(finding.severity is Severity.NOTE for finding in self.findings)
