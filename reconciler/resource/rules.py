"""Declaration of rules: a decorator on the function that applies a rule contains all facts about it, and the function's
docstring is the explanation printed in documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

V = TypeVar("V")
F = TypeVar("F")


class Severity(StrEnum):
    """ERROR: the submission is refused, or contradicts itself. WARNING: it is accepted, but not as it should be. NOTE:
    worth a look, but no reason to fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Premise(Struct, frozen=True):
    """``statement`` must be true for a finding to be an accusation. ``find_doubt`` gets the complaint and the view that
    the rule was applied to, and returns why the tree does not prove the statement; "" if it does. Without
    ``find_doubt``, the rule checks this itself for each finding, and sets ``Complaint.doubt``."""

    statement: str
    find_doubt: Callable[[Any, Any], str] | None = None


class Rule(Struct, frozen=True):
    """``id`` is kind.name. ``sources``: where the requirement comes from: "policy", "checker", "checker (old)",
    "LoadGen", "ours". ``argument``: why a finding is justified. ``setting``: the spec setting that it concerns, "" for
    none.

    Rules of ``verify-tree`` also have ``premises``, all of which must be proven before a finding is an error or a
    warning; ``cause``, the id of the cause that findings are grouped by; and ``proof``, the reason why no round, tool
    or machine can cause such a finding. If ``proof`` is "", many similar findings are reported as one question.
    """

    id: str
    title: str
    sources: tuple[str, ...]
    severity: Severity = Severity.ERROR
    cause: str = ""
    argument: str = ""
    premises: tuple[Premise, ...] = ()
    proof: str = ""
    setting: str = ""

    @property
    def kind(self) -> str:
        return self.id.partition(".")[0]


class AppliedRule(NamedTuple, Generic[V, F]):
    """A rule and the function that finds its violations in one view, in one log, or among all cells of a tree."""

    rule: Rule
    find: Callable[[V], Iterator[F]]

    def __call__(self, view: V) -> Iterator[F]:
        return self.find(view)


def rule(
    name: str,
    title: str,
    *,
    sources: tuple[str, ...],
    severity: Severity = Severity.ERROR,
    premises: tuple[Premise, ...] = (),
    cause: str = "",
    proof: str = "",
    setting: str = "",
) -> Callable[[Callable[[V], Iterator[F]]], AppliedRule[V, F]]:
    """Declare the rule that the decorated function applies. The function's docstring explains it."""

    def declare(function: Callable[[V], Iterator[F]]) -> AppliedRule[V, F]:
        argument = " ".join((function.__doc__ or "").split())
        if not argument and __debug__:  # python -OO drops docstrings
            raise TypeError(f"{name}: the function that applies a rule needs a docstring that explains it")
        found = Rule(name, title, sources, severity, cause, argument, premises, proof, setting)
        return AppliedRule(found, function)

    return declare


def question(
    name: str, title: str, *, sources: tuple[str, ...]
) -> Callable[[Callable[[V], Iterator[F]]], AppliedRule[V, F]]:
    """Declare a rule whose findings are only questions."""
    return rule(name, title, sources=sources, severity=Severity.NOTE)


def applies(rule: Rule) -> Callable[[Callable[[V], Iterator[F]]], AppliedRule[V, F]]:
    """Apply a rule that is declared elsewhere with another function."""
    return lambda function: AppliedRule(rule, function)
