"""The generated part of ``findings.md``: each kind of finding of ``verify-tree`` with its premises and its argument, as
the functions that apply the rules declare them."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.tree.findings import Rule, Severity
from reconciler.verify.engine import ALL_RULES

_HEAD = ("| Kind | What it finds | Severity | Premises, each checked | Argument |", "|---|---|---|---|---|")


def render_findings_reference() -> str:
    ordered = sorted(ALL_RULES, key=lambda rule: (list(Severity).index(rule.severity), rule.id))
    return "\n".join([*_HEAD, *map(_render_rule, ordered)]) + "\n"


def _render_rule(rule: Rule) -> str:
    never = f" Never summed up: {rule.proof}." if rule.proof else ""
    cells = f"`{rule.id}`", rule.title, rule.severity, _join(item.statement for item in rule.premises), rule.argument
    return f"| {' | '.join(map(_escape, cells))}{never} |"


def _join(statements: Iterable[str]) -> str:
    return " ".join(statements) or "none: it only asks, or warns"


def _escape(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")
