"""Declares the rules of ``verify-tree``: one decorator on the function that applies a rule holds all facts about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.check.demands import Complaints
from reconciler.tree.findings import Complaint, Premise, Rule, Severity, TreeFinding
from reconciler.tree.rule_engine import About

V = TypeVar("V")


class ViewRule(NamedTuple, Generic[V]):
    """A rule and the function that applies it to one view: an entry of the tables that ``apply_rules`` takes."""

    rule: Rule
    find: Callable[[V], Complaints]

    def __call__(self, view: V) -> Complaints:
        return self.find(view)


class TreeRule(NamedTuple, Generic[V]):
    """A rule that shows only when all cells of a tree are compared, and the function that compares what is kept of
    them, which looks into the premises itself."""

    rule: Rule
    find: Callable[[V], Iterator[tuple[About, Complaint]]]

    def __call__(self, cells: V) -> Iterator[TreeFinding]:
        for about, complaint in self.find(cells):
            yield TreeFinding(self.rule, about.submitter, about.cell, complaint, about.origin)


class Declaration(Struct, frozen=True):
    """A rule that awaits its function, whose docstring is the argument for the finding: what would have to be true of
    an honest submitter. The documents print it."""

    rule: Rule

    def __call__(self, function: Callable[[V], Complaints]) -> ViewRule[V]:
        return ViewRule(self._argue(function), function)

    def across_cells(self, function: Callable[[V], Iterator[tuple[About, Complaint]]]) -> TreeRule[V]:
        return TreeRule(self._argue(function), function)

    def _argue(self, function: Callable[..., object]) -> Rule:
        argument = " ".join((inspect.getdoc(function) or "").split())
        if not argument:
            raise TypeError(f"{self.rule.id}: the function that applies a rule needs a docstring, which argues for it")
        return replace(self.rule, argument=argument)


def contradiction(
    name: str,
    title: str,
    *,
    sources: tuple[str, ...],
    cause: str = "",
    premises: tuple[Premise, ...] = (),
    severity: Severity = Severity.ERROR,
    proof: str = "",
) -> Declaration:
    """Declare the rule that a function applies. An error has premises, all of which are shown before it accuses."""
    if severity is Severity.ERROR and not premises:
        raise TypeError(f"{name}: an error needs a premise")
    return Declaration(Rule(name, title, sources, severity, cause, premises=premises, proof=proof))


def question(name: str, title: str, *, sources: tuple[str, ...], cause: str = "") -> Declaration:
    """Declare a rule that only asks, and so has no premise."""
    return contradiction(name, title, sources=sources, cause=cause, severity=Severity.NOTE)


def applies(rule: Rule) -> Callable[[Callable[[V], Complaints]], ViewRule[V]]:
    """Let another function apply a rule that is declared elsewhere."""
    return lambda function: ViewRule(rule, function)
