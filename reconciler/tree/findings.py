"""What checking and verifying a tree say: rules, findings, and the facts of each result that reports show."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field


class Severity(StrEnum):
    """ERROR: the submission is refused, or contradicts itself. WARNING: accepted, but not as it should be. NOTE: worth
    a look, and no reason to fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Place(Struct, frozen=True):
    """A file below the tree's root, and its 1-based line; 0: the file as a whole."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class Rule(Struct, frozen=True):
    """``id`` is kind.name. ``sources``: who demands it, as "policy", "checker", "checker (old)", "LoadGen", "ours"."""

    id: str
    title: str
    sources: tuple[str, ...]
    severity: Severity = Severity.ERROR

    @property
    def kind(self) -> str:
        return self.id.partition(".")[0]


class Complaint(Struct, frozen=True):
    """What a rule found wrong. ``other``: the second place, where the contradicting value stands. ``mechanism``: the id
    of the cause that the findings are grouped by, "" for that of the rule."""

    place: Place
    found: str
    wanted: str
    cause: str = ""
    fix: str = ""
    other: Place | None = None
    severity: Severity | None = None  # where one case is milder than its rule
    mechanism: str = ""


class TreeFinding(Struct, frozen=True):
    """A complaint with its rule and the cell it is about: division/system/benchmark/scenario, or as much of that as
    applies. ``origin``: the spec line of the cell, where there is a spec."""

    rule: Rule
    submitter: str
    cell: str
    complaint: Complaint
    origin: str = ""

    @property
    def severity(self) -> Severity:
        return self.complaint.severity or self.rule.severity

    @property
    def division(self) -> str:
        return self.cell.partition("/")[0]


class Facts(Struct, frozen=True):
    """A result in numbers: ``metric`` in ``unit``, ``target`` as the log has it, ``conf_target`` as user.conf says.
    ``digests``: what tells its logs from others, by run. ``began``: seconds since 1970, UTC."""

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
    """What could not be compared, and why. ``blind``: nothing of a run could be, so that its silence says nothing."""

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
