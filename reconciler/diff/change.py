"""Changes that a comparison finds. An action is what to do; a reason explains it to people and never steers it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from reconciler.resource.decisions import Acceptance, AcceptanceStatus, Freeze
from reconciler.resource.inputs import Origin
from reconciler.resource.kinds import Address, Cell


class Action(StrEnum):
    """Action to take. A resource without need of one has no change; `why` calls that NoOp."""

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
    Reason.UPSTREAM_REPLACED: "made from something replaced",
    Reason.EVIDENCE_DIFFERS: "environment differs",
    Reason.ARTIFACT_MISSING: "file missing",
    Reason.ARTIFACT_CORRUPT: "file damaged",
    Reason.PREVIOUS_ATTEMPT_FAILED: "last attempt failed",
    Reason.FORCED: "asked for",
}


class Work(StrEnum):
    """The work behind an action: a child process, a server for the runs that are due, a copy from the store or git, or
    rendering."""

    MAKE = "make"
    START = "start"
    RESTORE = "restore"
    RENDER = "render"


class InputChange(Struct, frozen=True):
    """One identity input that differs from the last record; None on a side where it does not exist. ``upstream``: what
    the resource is or was made from, where its key is what differs. ``files``: of a command's code, the names that
    differ, each with how."""

    name: str
    before: Any
    after: Any
    origin: Origin
    before_origin: str = ""
    upstream: Address | None = None
    files: tuple[str, ...] = ()


class Change(Struct, frozen=True):
    """``previous``: id of the last record at this address, "" if none. ``note``: what a reason alone does not say
    (the evidence that differs, the file that is corrupt). ``restore``: (place, sha256) of the artifacts to bring
    back when ``how`` is RESTORE."""

    address: Address
    key: str
    action: Action
    reason: Reason
    how: Work = Work.MAKE
    previous: str = ""
    note: str = ""
    restore: tuple[tuple[str, str], ...] = ()


FAILED = "failed"  # of a drift: the last attempt to repeat what an earlier one made, whose outcome counts on
INVALID = "was INVALID"  # likewise of a performance run
DIFFERS = "differs between its runs"  # of a drift: a fact in which runs of a cell may differ, and people want to know


class Drift(Struct, frozen=True):
    """The world moved while the spec did not. ``repair`` says what a pass does about it ("rebuilt when a run
    needs it")."""

    address: Address
    what: str
    presence: str
    repair: str


CONTRADICTED = "LogContradicted"  # the kind of a finding: kept logs show what LoadGen cannot have written of one run


class Finding(Struct, frozen=True):
    """Something red that no action of ours fixes: an INVALID run with its margin, accuracy below the bar, a
    required cell missing."""

    kind: str
    where: str
    message: str
    fix: str = ""


class MovedSource(Struct, frozen=True):
    """A path of the spec that was changed to one that is not on this machine, while a record counts of what ``before``
    named: ``field`` "model.path", ``address`` of what is made of it."""

    address: Address
    field: str
    path: str
    before: str

    def __str__(self) -> str:
        named = f"{self.address.name}: {self.field} names {self.path}, which is not on this machine"
        return f"{named}; what is recorded was made of {self.before}, and counts on"


class Chosen(Struct, frozen=True):
    """The records that a cell publishes: record ids, "" where there is none yet. ``tests``: (name, record id) of its
    compliance tests, "" where none passes; ``verdicts``: likewise their verdicts, none for tests that were imported.
    ``code``: sha256 of the code that the performance run kept, "" where it kept none."""

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
    """``recorded_as``: address → id of the record that satisfies it. ``unchanged`` counts resources (by key) with
    nothing to do. ``acceptances``: path, acceptance and its status; ``frozen``: the freezes in force."""

    changes: tuple[Change, ...]
    drifts: tuple[Drift, ...] = ()
    findings: tuple[Finding, ...] = ()
    chosen: Mapping[Cell, Chosen] = field(default_factory=dict)
    recorded_as: Mapping[Address, str] = field(default_factory=dict)
    undeclared: tuple[Address, ...] = ()
    unchanged: int = 0
    acceptances: tuple[tuple[str, Acceptance, AcceptanceStatus], ...] = ()
    frozen: tuple[Freeze, ...] = ()

    @property
    def accepted(self) -> dict[Cell, Acceptance]:
        """Cells whose results count although their inputs differ."""
        return {item.cell: item for _, item, status in self.acceptances if status is AcceptanceStatus.IN_FORCE}
