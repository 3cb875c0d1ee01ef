"""Kinds of resources, cells and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """In the order of the pipeline: a kind depends only on kinds above it."""

    DATASET = "Dataset"
    MODEL = "Model"
    ENGINE = "Engine"
    SERVICE = "Service"
    RUN = "Run"
    SCORE = "Score"
    COMPLIANCE_TEST = "ComplianceTest"
    VERDICT = "Verdict"
    RESULT = "Result"
    SUBMISSION = "Submission"

    __hash__ = str.__hash__  # an enum's own is not written in C, and every look at an address takes one


ORDER = {kind: index for index, kind in enumerate(Kind)}
_BY_NAME = {kind.value: kind for kind in Kind}  # three times as fast as Kind(name)

SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline", "Interactive")
DIVISIONS = ("closed", "open", "network")


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """Division x system x benchmark (with its accuracy variant) x scenario: one scenario folder of the tree."""

    division: str
    system: str
    benchmark: str
    scenario: str

    def __str__(self) -> str:
        return f"{self.division}/{self.system}/{self.benchmark}/{self.scenario}"


class Address(NamedTuple):
    """Where a resource stands in the desired state: ``Engine:open/box/digits/Offline``, ``Dataset:digits``.

    ``name`` is a benchmark, a cell, or a cell with a run's mode or a test's name behind it. Two addresses may share
    one key: then they share one record and one artifact. Tens of thousands are made and looked up in one look: a named
    tuple is hashed and compared in C.
    """

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Address:
        kind, _, name = text.partition(":")
        return cls(_BY_NAME.get(kind) or Kind(kind), name)

    @property
    def cell(self) -> Cell | None:
        """The cell this belongs to; None for what a whole benchmark or submission shares."""
        parts = self.name.split("/")
        return Cell(*parts[:4]) if len(parts) >= 4 else None

    @property
    def label(self) -> str:
        """What people read: "Engine", "Run accuracy", "TEST01", "TEST01 verdict", "TEST07 dataset"."""
        parts = self.name.split("/")
        if self.kind is Kind.RUN and len(parts) == 5:
            return f"Run {parts[4]}"
        if self.kind is Kind.COMPLIANCE_TEST and len(parts) == 5:
            return parts[4]
        if self.kind is Kind.VERDICT and len(parts) == 5:
            return f"{parts[4]} verdict"
        if self.kind is Kind.DATASET and len(parts) == 5:
            return f"{parts[4]} dataset"
        return str(self.kind)
