"""The generated part of ``modules.md``: each module with what it says of itself, and that of each command and rule.

Read from the sources, so that nothing of theirs is imported; in a checkout, where ``harness/`` lies beside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from reconciler.cli.command_table import COMMANDS

ROOT = Path(__file__).parents[3]
PACKAGES = ("reconciler", "harness")
_END = re.compile(r"(?<=[a-z`)])\. ")  # of a sentence
_COMMAND = re.compile(r"`(reconcile [^`]*)`")  # with words of its usage: nothing to type as it stands
_RULE_MAKERS = {
    "Rule": "",
    "contradiction": "",
    "question": "",
    "make_rule": "curve.",
}  # → what each puts before a rule's name


def render_module_index() -> str:
    modules = {path.relative_to(ROOT).as_posix(): _parse(path) for path in _find_modules()}
    lines = ["## Commands", "", "| Command | Module |", "|---|---|"]
    lines += [f"| `{name}` | `{module.replace('.', '/')}.py` |" for name, (module, _) in COMMANDS.items()]
    lines += ["", "## Rules of `check` and `verify-tree`", "", "| Module | Rules |", "|---|---|"]
    ruled = {name: sorted(set(_find_rules(tree))) for name, tree in modules.items()}
    lines += [f"| `{name}` | {', '.join(f'`{rule}`' for rule in rules)} |" for name, rules in ruled.items() if rules]
    lines += ["", "## Modules", "", "| Module | What it is for |", "|---|---|"]
    lines += [f"| `{name}` | {_describe(tree)} |" for name, tree in modules.items()]
    return "\n".join(lines) + "\n"


def _find_modules() -> list[Path]:
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return sorted(found, key=lambda path: (path.parent.as_posix(), path.name))


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _describe(tree: ast.Module) -> str:
    """The first sentence of its docstring, in one line."""
    paragraph = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    first = _END.split(paragraph)[0].rstrip(".")
    return _COMMAND.sub(r"\1", first.replace("``", "`")).replace("|", r"\|")


def _find_rules(tree: ast.Module) -> Iterator[str]:
    """The names of the rules that are made here."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _RULE_MAKERS:
            continue
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield _RULE_MAKERS[node.func.id] + first.value
