"""A round's demands on a run, and helpers shared by all rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from msgspec import Struct

from reconciler.resource.quantities import parse_number
from reconciler.resource.rules import Premise, Severity, question
from reconciler.storage.documents import ResultDocument
from reconciler.tree.findings import Complaint, Gap, Place
from reconciler.tree.reading.files import Read
from reconciler.tree.reading.system import SubmitterFiles
from reconciler.tree.reading.values import show_value
from reconciler.tree.reading.view import CellView, RunView
from reconciler.tree.rule_engine import Table

Complaints = Iterator[Complaint]
NEW, OLD, OURS = "submission checker", "older submission checker", "ours"
_MILLISECOND = 1_000_000


def soften(judged: CellView | SubmitterFiles, demand: str) -> Severity | None:
    """Choose the severity of a complaint: None (the rule's own) if the round's demand is binding, a note if the round
    is unknown, otherwise a warning."""
    if judged.ruleset is not None and not judged.ruleset.is_known:
        return Severity.NOTE
    return None if judged.binds(demand) else Severity.WARNING


def read_demand(run: RunView, name: str) -> Decimal | None:
    return parse_number(read_setting(run, name))


def read_setting(run: RunView, name: str) -> Any:
    rules = run.cell.rules
    return rules.get_value(name, run.scenario) if rules is not None else None


def show_milliseconds(nanoseconds: Decimal | None) -> str:
    return "nothing" if nanoseconds is None else f"{(nanoseconds / _MILLISECOND).normalize():f} ms"


# Helpers shared by the rules of `verify-tree` for every program.


class CellRules(Struct, frozen=True):
    """Rules for a cell. ``find_gaps`` yields one gap for each file that a comparison needs but cannot use."""

    rules: Table[CellView]
    find_gaps: Callable[[CellView], Iterator[Gap]]


def find_gap(view: CellView, read: Read[object], name: str, *, blind: bool = False) -> Iterator[Gap]:
    """Yield a gap if a file is missing or cannot be read."""
    if read.value is None:
        reason = f"{name} cannot be read" if read.problem else f"{name} is not there"
        yield make_gap(view, Place(read.file, read.line), reason, blind=blind)


def make_gap(view: CellView, place: Place, reason: str, *, blind: bool = False) -> Gap:
    return Gap(view.files.submitter.submitter, str(view.cell), place, reason, blind)


@question("files.repeated", "which of two values of one name applies?", sources=(OURS,))
def ask_repeated(read: Read[ResultDocument]) -> Complaints:
    """An object in a JSON file (description, measurements, a power session, results of the endpoints harness) has two
    different values for one name. JSON does not define which one counts, so this is a question.
    """
    # Programs use the last value; people read the first.
    for name, first, last in read.value.repeated if read.value else ():
        place = Place(read.file, read.value.lines.get(name, 0) if read.value else 0)
        yield Complaint(
            place, f"{name} {show_value(first)}", f"{show_value(last)}, which the same file states after it"
        )


def _doubt_benchmark(_: Complaint, view: CellView) -> str:
    known = view.rules is not None and view.ruleset.is_known
    return "" if known else f"this round has no rules for {view.cell.benchmark}"


BENCHMARK_IS_KNOWN = Premise("The round has rules for this benchmark.", _doubt_benchmark)
