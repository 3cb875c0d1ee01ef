"""Changes found by a comparison. An action says what to do; a reason explains it to users and never affects
behaviour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from reconciler.resource.canonical import canonicalise
from reconciler.resource.decisions import Acceptance, AcceptanceStatus, Freeze
from reconciler.resource.inputs import DEFAULT, Input, Origin
from reconciler.resource.kinds import ACCURACY, Address, Cell, Kind, find_upstream
from reconciler.resource.records import RecordedInput
from reconciler.resource.resources import Resource


class Action(StrEnum):
    """Action to take. A resource that needs none has no change; `why` shows it as NoOp."""

    CREATE = "Create"
    REPLACE = "Replace"


SYMBOL = {Action.CREATE: "+", Action.REPLACE: "~"}


class Reason(StrEnum):
    NOT_RECORDED = "NotRecorded"
    INPUT_CHANGED = "InputChanged"
    UPSTREAM_REPLACED = "UpstreamReplaced"
    EVIDENCE_DIFFERS = "EvidenceDiffers"
    ARTIFACT_MISSING = "ArtifactMissing"
    ARTIFACT_CORRUPT = "ArtifactCorrupt"
    PREVIOUS_ATTEMPT_FAILED = "PreviousAttemptFailed"
    FORCED = "Forced"


REASON_WORDS = {
    Reason.NOT_RECORDED: "not recorded yet",
    Reason.INPUT_CHANGED: "an input changed",
    Reason.UPSTREAM_REPLACED: "an input was replaced",
    Reason.EVIDENCE_DIFFERS: "environment differs",
    Reason.ARTIFACT_MISSING: "file missing",
    Reason.ARTIFACT_CORRUPT: "file damaged",
    Reason.PREVIOUS_ATTEMPT_FAILED: "last attempt failed",
    Reason.FORCED: "asked for",
}


class Work(StrEnum):
    """How an action is performed: by a child process, by starting a server for due runs, by copying from the store or
    git, or by rendering."""

    MAKE = "make"
    START = "start"
    RESTORE = "restore"
    RENDER = "render"


class InputChange(Struct, frozen=True):
    """An identity input that differs from the last record; None on a side that does not have it. ``upstream``: the
    upstream resource whose key differs. ``files``: for a command's code, the differing files, and how each differs."""

    name: str
    before: Any
    after: Any
    origin: Origin
    before_origin: str = ""
    upstream: Address | None = None
    files: tuple[str, ...] = ()


NEEDED = "needed by a due action"  # note of an artifact that is intact in the records and only missing here


class Change(Struct, frozen=True):
    """``previous``: id of the last record at this address, "" if none. ``note``: details that the reason does not give
    (the evidence that differs, the file that is corrupt). ``restore``: (place, sha256) of the artifacts to restore when
    ``how`` is RESTORE."""

    address: Address
    key: str
    action: Action
    reason: Reason
    how: Work = Work.MAKE
    previous: str = ""
    note: str = ""
    restore: tuple[tuple[str, str], ...] = ()

    @property
    def is_for_others(self) -> bool:
        """Return True if nothing about the resource itself differs: a due action reads its artifact."""
        return self.reason is Reason.ARTIFACT_MISSING and self.note == NEEDED


FAILED = "failed"  # kind of drift: the last repeat failed, and the earlier outcome still counts
INVALID = "was INVALID"  # the same for a performance run
DIFFERS = "differs between its runs"  # kind of drift: a fact that may differ between runs of a cell


WAITS = "waits for a VALID performance run"  # why a compliance test and its verdict are not made


class Drift(Struct, frozen=True):
    """The world changed, but the spec did not. ``repair`` says what a pass does about it ("rebuilt when a run needs
    it")."""

    address: Address
    what: str
    presence: str
    repair: str


class Subject(StrEnum):
    """The subject of a finding, which decides which condition of a cell is False."""

    RUN = "run"
    ACCURACY = "accuracy"
    TEST = "test"


CONTRADICTED = "LogContradicted"  # kind of a finding: kept logs contain what LoadGen cannot have written in one run
ACCURACY_BELOW = "AccuracyBelow"  # kind of a finding: a score misses the round's bar
AUDIT_FAILS = "AuditFails"  # kind of a finding: a compliance test fails
DAMAGED_RECORD = "DamagedRecord"  # kind of a finding: a record is unreadable or altered; the next pass repairs it
_SUBJECTS = {ACCURACY_BELOW: Subject.ACCURACY, AUDIT_FAILS: Subject.TEST}


class Finding(Struct, frozen=True):
    """A problem that no step fixes: an INVALID run with its margin, accuracy below the bar, a required cell
    missing, a damaged record. ``where``: a cell, a file, or an address."""

    kind: str
    where: str
    message: str
    fix: str = ""

    @property
    def subject(self) -> Subject:
        """The subject declared for the finding's kind, or else that of the resource that the finding is about."""
        if (declared := _SUBJECTS.get(self.kind)) is not None:
            return declared
        if self.where.partition(":")[0] not in tuple(Kind):
            return Subject.RUN
        address = Address.parse(self.where)
        if address.kind is Kind.COMPLIANCE_TEST:
            return Subject.TEST
        return Subject.ACCURACY if address.kind is Kind.SCORE or address.mode == ACCURACY else Subject.RUN


class MovedSource(Struct, frozen=True):
    """A path of the spec that now points to a file missing on this machine, although a valid record used the file at
    ``before``. ``field``: such as "model.path"; ``address``: the resource made from that file."""

    address: Address
    field: str
    path: str
    before: str

    def __str__(self) -> str:
        named = f"{self.address.name}: {self.field} {self.path} is not on this machine"
        return f"{named}; the recorded result, made from {self.before}, still counts"


class Chosen(Struct, frozen=True):
    """The records that a cell publishes, as record ids, "" if there is none yet. ``tests``: (name, record id) of its
    compliance tests, "" if none passes; ``verdicts``: the same for verdicts, without those of imported tests. ``code``:
    sha256 of the code kept with the performance run, "" if none was kept."""

    accuracy: str = ""
    performance: str = ""
    score: str = ""
    tests: tuple[tuple[str, str], ...] = ()
    verdicts: tuple[tuple[str, str], ...] = ()
    code: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        return (
            self.performance,
            self.accuracy,
            self.score,
            *(identity for _, identity in (*self.tests, *self.verdicts)),
        )


class Difference(Struct, frozen=True):
    """``recorded_as``: address → id of the record that satisfies it. ``unchanged`` counts resources (by key) without a
    change. ``acceptances``: path, acceptance and its status; ``frozen``: the freezes in force. ``unmade``: compliance
    tests and verdicts that no step makes, with the reason."""

    changes: tuple[Change, ...]
    drifts: tuple[Drift, ...] = ()
    findings: tuple[Finding, ...] = ()
    chosen: Mapping[Cell, Chosen] = field(default_factory=dict)
    recorded_as: Mapping[Address, str] = field(default_factory=dict)
    undeclared: tuple[Address, ...] = ()
    unchanged: int = 0
    acceptances: tuple[tuple[str, Acceptance, AcceptanceStatus], ...] = ()
    frozen: tuple[Freeze, ...] = ()
    unmade: Mapping[Address, str] = field(default_factory=dict)

    @property
    def accepted(self) -> dict[Cell, Acceptance]:
        """Cells whose results are accepted although their inputs differ."""
        return {item.cell: item for _, item, status in self.acceptances if status is AcceptanceStatus.IN_FORCE}


def list_input_changes(inputs: tuple[Input, ...], before: Mapping[str, RecordedInput]) -> tuple[InputChange, ...]:
    """List the differing inputs: own inputs first, then upstream keys, each group sorted by name."""
    now = {item.name: item for item in inputs if item.value is not None}
    found = []
    for name in sorted(set(now) | set(before)):
        old: Any = before[name].value if name in before else None
        new = canonicalise(now[name].value) if name in now else None
        if old != new:
            then = before[name].origin if name in before else ""
            origin = now[name].origin if name in now else _find_removed_origin(inputs)
            upstream = now[name].upstream if name in now else find_upstream(then)
            found.append(InputChange(name, old, new, origin, then, upstream))
    return tuple(sorted(found, key=lambda change: (change.upstream is not None, change.name)))


def _find_removed_origin(inputs: tuple[Input, ...]) -> Origin:
    first = inputs[0].origin if inputs else DEFAULT
    return next((i.origin for i in inputs if i.origin.line), first)


def find_spared(lineage: Iterable[Resource], changes: Mapping[str, Change]) -> frozenset[Address]:
    """Find the resources of a cell whose artifacts only due actions of other cells need. ``changes``: by key."""
    due = {r.address: found for r in lineage if (found := changes.get(r.key)) is not None}
    own = (found for found in due.values() if found.how is Work.MAKE and not found.is_for_others)
    if any(found.address.kind is not Kind.VERDICT for found in own):
        return frozenset()
    return frozenset(address for address, found in due.items() if found.is_for_others)
