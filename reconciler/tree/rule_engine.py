"""Apply tables of rules: a rule is a function from a view to complaints, and each complaint becomes a finding."""

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

_ANY_ROUND = frozenset({"LoadGen", "ours"})  # sources whose demands are the same in every round
INTERNAL = Rule("internal.rule", "a rule could not be applied", ("ours",), proof="it is a bug of this program")


class About(Struct, frozen=True):
    """Subject of findings: submitter and cell, and the spec line if there is a spec. ``known``: whether the round's
    rules are available."""

    submitter: str
    cell: str
    origin: str = ""
    known: bool = True


def apply_rules(table: Table[V], view: V, about: About) -> Iterator[TreeFinding]:
    """Yield a finding for every complaint of every rule. A rule that fails on a tree's content also gives a finding, so
    that its silence does not count as approval; the other rules still apply. A rule stops at a closed folder, which is
    reported separately. In an unknown round, only rules that apply to any round are used."""
    for rule, function in table:
        if not about.known and _ANY_ROUND.isdisjoint(rule.sources):
            continue
        try:
            for complaint in function(view):
                complaint = _ask_where_doubtful(rule, complaint, view)
                yield TreeFinding(rule, about.submitter, about.cell, complaint, about.origin)
        except UnreadableFolderError as error:
            pass_over(error)
        except StorageError:  # a problem of the storage, not of the rule
            raise
        except Exception as error:
            if isinstance(error, PermissionError) and error.filename and note_closed_folder(error.filename):
                continue
            text = f"{rule.id}: {type(error).__name__}: {error}"
            complaint = Complaint(Place(about.cell), " ".join(text.split()), "a working rule", fix="report this bug")
            yield TreeFinding(INTERNAL, about.submitter, about.cell, complaint, about.origin)


def compare_cells(
    applied: tuple[Rule, Callable[[V], Iterator[tuple[About, Complaint]]]], cells: V
) -> Iterator[TreeFinding]:
    """Apply a rule that compares all cells of a tree. It checks its own premises."""
    rule, find = applied
    for about, complaint in find(cells):
        yield TreeFinding(rule, about.submitter, about.cell, complaint, about.origin)


def _ask_where_doubtful(rule: Rule, complaint: Complaint, view: object) -> Complaint:
    """Return the complaint unchanged if every premise of the rule is shown, else with the reason for doubt."""
    if not complaint.doubt and complaint.severity is not Severity.NOTE:
        for premise in rule.premises:
            doubt = premise.find_doubt(complaint, view) if premise.find_doubt is not None else ""
            if doubt:
                return replace(complaint, doubt=doubt)
    return complaint
