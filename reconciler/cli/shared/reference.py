"""``python -m reconciler.cli.shared.reference``: writes the generated parts of the documents, between their marks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reconciler.cli.main import reconcile
from reconciler.cli.shared.command_reference import render_command_reference, render_exit_codes
from reconciler.cli.shared.spec_reference import render_spec_reference
from reconciler.storage.files import replace
from reconciler.tree.findings import Rule, Severity
from reconciler.verify.engine import list_rules

# The generated part of ``findings.md``: each kind of finding of ``verify-tree`` with its premises and its argument, as
# the functions that apply the rules declare them.

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


DOCUMENTS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"
GENERATED: Mapping[str, Callable[[], str]] = {
    "spec.md": render_spec_reference,
    "commands.md": lambda: render_command_reference(reconcile),
    "exit-codes.md": render_exit_codes,
    "findings.md": render_findings_reference,
}


def write_into(text: str, generated: str) -> str:
    """The document with what is generated between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{generated}\n{END}{after}"


def write_reference(folder: Path) -> None:
    for name, render in GENERATED.items():
        path = folder / name
        replace(path, write_into(path.read_text(encoding="utf-8"), render()).encode())


if __name__ == "__main__":
    write_reference(DOCUMENTS)
    sys.stdout.write(f"wrote {', '.join(GENERATED)} in {DOCUMENTS}\n")
