"""Conditions of a cell, derived from records and never stored, and the rule that summarises them by the worst."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from reconciler.resource.kinds import Cell


class ConditionStatus(StrEnum):
    """From best to worst: a summary has the worst status of its parts."""

    TRUE = "True"
    UNKNOWN = "Unknown"
    FALSE = "False"


NOT_REQUIRED = "NotRequired"  # reason of a condition that no rule requires

# In the order of the columns in `status`.
CONDITIONS = ("Built", "Accurate", "Performed", "Valid", "Audited", "Rendered", "Ready")


def describe_reason(reason: str) -> str:
    """Return a condition's reason in words, such as "input changed"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason).lower()


class Condition(Struct, frozen=True):
    """``type``: one of CONDITIONS; ``reason``: one CamelCase word; ``message``: text for users."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""

    @property
    def cause(self) -> str:
        return describe_reason(self.reason)


def find_worst(conditions: Iterable[Condition]) -> ConditionStatus:
    return max((c.status for c in conditions), key=list(ConditionStatus).index, default=ConditionStatus.UNKNOWN)


class CellStatus(Struct, frozen=True):
    """Status summary of a cell. ``metric``, ``accuracy``, ``efficiency``: (value, unit). ``marks``: rehearsal,
    synthetic. ``notes``: doubts about its kept logs, without effect on the status.
    ``margin``: (name, headroom in percent) of the limit that decides."""

    cell: Cell
    conditions: tuple[Condition, ...]
    metric: tuple[str, str] | None = None
    accuracy: tuple[str, str] | None = None
    validity: str = ""
    marks: tuple[str, ...] = ()
    efficiency: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    margin: tuple[str, str] | None = None

    @property
    def ready(self) -> ConditionStatus:
        return self.conditions[-1].status
