"""``python -m reconciler.cli.shared.reference``: writes the generated parts of the documents, between their marks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from reconciler.check import engine as check
from reconciler.cli.main import reconcile
from reconciler.cli.shared.command_reference import render_command_reference, render_exit_codes
from reconciler.cli.shared.spec_reference import render_spec_reference
from reconciler.loadgen import consistency
from reconciler.resource.rules import Rule, Severity
from reconciler.storage.files import replace

# The generated part of ``findings.md``: the rules of ``verify-tree``, of a detail log and of ``check``, as the
# functions that apply them declare them.

_HEAD = ("| Kind | Finds | Premises | Argument |", "|---|---|---|---|")
_LOG_HEAD = ("### Rules of a detail log\n", "A finding of `log.consistency` names the rule that the log breaks.\n")
_LOG_COLUMNS = ("| Rule | Asks for | By |", "|---|---|---|")
_CHECK_COLUMNS = ("| Rule | Asks for | By | Explanation |", "|---|---|---|---|")


def render_findings_reference() -> str:
    """The premises, numbered, then a table for each severity; then the rules of a detail log and those of ``check``."""
    verifier = check.load_verifier()
    declared = verifier.list_rules() if verifier is not None else ()
    premises = list(dict.fromkeys(item.statement for rule in declared for item in rule.premises))
    parts = ["### Premises\n", *(f"{number}. {_escape(text)}" for number, text in enumerate(premises, 1))]
    for severity in Severity:
        rules = sorted((rule for rule in declared if rule.severity is severity), key=lambda rule: rule.id)
        if rules:
            parts += ["", f"### {severity.value.title()}s\n", *_HEAD]
            parts += [_render_rule(rule, premises) for rule in rules]
    parts += ["", *_LOG_HEAD, *_LOG_COLUMNS]
    parts += [_render_row((f"`{rule.id}`", rule.title, rule.argument)) for rule in consistency.list_rules()]
    parts += ["", "### Rules of `check`\n", *_CHECK_COLUMNS]
    parts += [_render_check(rule) for rule in check.list_rules()]
    return "\n".join(parts) + "\n"


def _render_rule(rule: Rule, premises: Sequence[str]) -> str:
    never = f" Never summed up: {rule.proof}." if rule.proof else ""
    numbers = ", ".join(str(premises.index(item.statement) + 1) for item in rule.premises)
    return _render_row((f"`{rule.id}`", rule.title, numbers, f"{rule.argument}{never}"))


def _render_check(rule: Rule) -> str:
    severity = "" if rule.severity is Severity.ERROR else f" ({rule.severity.value})"
    return _render_row((f"`{rule.id}`{severity}", rule.title, ", ".join(rule.sources), rule.argument))


def _render_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escape, cells))} |"


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
