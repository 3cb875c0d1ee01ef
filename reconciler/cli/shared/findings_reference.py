"""The generated part of ``findings.md``: each kind of finding of ``verify-tree`` with its premises and its argument, as
the functions that apply the rules declare them."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.tree.findings import Rule, Severity
from reconciler.verify.engine import list_rules

_HEAD = ("| Kind | Finds | Premises | Argument |", "|---|---|---|---|")


def render_findings_reference() -> str:
    """The premises, numbered, then a table for each severity."""
    declared = list_rules()
    premises = list(dict.fromkeys(item.statement for rule in declared for item in rule.premises))
    parts = ["### Premises\n", *(f"{number}. {_escape(text)}" for number, text in enumerate(premises, 1))]
    for severity in Severity:
        rules = sorted((rule for rule in declared if rule.severity is severity), key=lambda rule: rule.id)
        if rules:
            parts += ["", f"### {severity.value.title()}s\n", *_HEAD]
            parts += [_render_rule(rule, premises) for rule in rules]
    return "\n".join(parts) + "\n"


def _render_rule(rule: Rule, premises: Sequence[str]) -> str:
    never = f" Never summed up: {rule.proof}." if rule.proof else ""
    numbers = ", ".join(str(premises.index(item.statement) + 1) for item in rule.premises)
    return f"| {' | '.join(map(_escape, (f'`{rule.id}`', rule.title, numbers, rule.argument)))}{never} |"


def _escape(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")
