"""Demands of a round on a run, and the words that all rules share."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from reconciler.resource.quantities import parse_number
from reconciler.resource.rules import Severity
from reconciler.tree.findings import Complaint
from reconciler.tree.reading.system import SubmitterFiles
from reconciler.tree.reading.view import CellView, RunView

Complaints = Iterator[Complaint]
NEW, OLD, OURS = "submission checker", "older submission checker", "ours"
_MILLISECOND = 1_000_000


def soften(judged: CellView | SubmitterFiles, demand: str) -> Severity | None:
    """How severe a complaint is: as its rule says where the round's demand binds, a warning where it does not. A note
    where the round is unknown."""
    if judged.ruleset is not None and not judged.ruleset.is_known:
        return Severity.NOTE
    return None if judged.binds(demand) else Severity.WARNING


def read_demand(run: RunView, name: str) -> Decimal | None:
    rules = run.cell.rules
    return parse_number(rules.get_value(name, run.scenario)) if rules is not None else None


def read_setting(run: RunView, name: str) -> Any:
    rules = run.cell.rules
    return rules.get_value(name, run.scenario) if rules is not None else None


def show_milliseconds(nanoseconds: Decimal | None) -> str:
    return "nothing" if nanoseconds is None else f"{(nanoseconds / _MILLISECOND).normalize():f} ms"
