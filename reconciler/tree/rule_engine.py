"""Applies tables of rules: a rule is a function from a view to complaints, and each complaint becomes a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import StorageError
from reconciler.resource.rules import Rule, Severity
from reconciler.tree.findings import Complaint, Place, TreeFinding
from reconciler.tree.reading.unreadable_folders import UnreadableFolderError, note_closed_folder, pass_over

V = TypeVar("V")
Table = Iterable[tuple[Rule, Callable[[V], Iterator[Complaint]]]]

_ANY_ROUND = frozenset({"LoadGen", "ours"})  # sources whose demands do not change from round to round
INTERNAL = Rule(
    "internal.rule", "one of our rules could not be applied", ("ours",), proof="it is a bug of this program"
)


class About(Struct, frozen=True):
    """Whom findings are about, and the spec line of it where there is a spec. ``known``: whether the rules of its
    round are here."""

    submitter: str
    cell: str
    origin: str = ""
    known: bool = True


def apply_rules(table: Table[V], view: V, about: About) -> Iterator[TreeFinding]:
    """Every complaint of every rule. A rule that fails on what someone's tree holds is a finding as well: the other
    rules still apply, and the silence of this one must not pass for consent. A rule that meets a closed folder ends
    there: the code that collects such folders reports them. In an unknown round only what holds in any is applied."""
    for rule, function in table:
        if not about.known and _ANY_ROUND.isdisjoint(rule.sources):
            continue
        try:
            for complaint in function(view):
                complaint = _ask_where_doubtful(rule, complaint, view)
                yield TreeFinding(rule, about.submitter, about.cell, complaint, about.origin)
        except UnreadableFolderError as error:
            pass_over(error)
        except StorageError:  # of the disk, whichever rule met it
            raise
        except Exception as error:
            if isinstance(error, PermissionError) and error.filename and note_closed_folder(error.filename):
                continue
            text = f"{rule.id}: {type(error).__name__}: {error}"
            complaint = Complaint(Place(about.cell), " ".join(text.split()), "a rule that works", fix="report this bug")
            yield TreeFinding(INTERNAL, about.submitter, about.cell, complaint, about.origin)


def compare_cells(
    applied: tuple[Rule, Callable[[V], Iterator[tuple[About, Complaint]]]], cells: V
) -> Iterator[TreeFinding]:
    """Apply a rule that shows only when all cells of a tree are compared. It looks into its premises itself."""
    rule, find = applied
    for about, complaint in find(cells):
        yield TreeFinding(rule, about.submitter, about.cell, complaint, about.origin)


def _ask_where_doubtful(rule: Rule, complaint: Complaint, view: object) -> Complaint:
    """The complaint as it is where every premise of the rule is shown, else with the reason why one is not."""
    if not complaint.doubt and complaint.severity is not Severity.NOTE:
        for premise in rule.premises:
            doubt = premise.find_doubt(complaint, view) if premise.find_doubt is not None else ""
            if doubt:
                return replace(complaint, doubt=doubt)
    return complaint
