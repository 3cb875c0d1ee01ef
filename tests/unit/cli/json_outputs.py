"""``python -m tests.unit.cli.json_outputs``: writes the reference of what ``--json`` prints, from what it does print.

The fields are those of a small repository that goes through the life of a submission, a command at a time.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from reconciler.cli.main import main, reconcile
from reconciler.errors import BUG
from tests.unit.cli.conftest import SPEC, commit, edit, git

TARGET = Path(__file__).parents[3] / "reconciler/docs/json.md"
_A_PASS = ""
_SAVED_PLAN = "plan"  # a plan is also what `reconcile apply` reads: it has a schema of its own
_EMPTY = {"empty list", "empty object", "null"}
_STORES = '  stores: {lab: {url: "file://STORE"}}\n'
# What is typed behind a command, where it cannot do without.
_ARGUMENTS: Mapping[str, str] = {
    _A_PASS: "--commit",
    "show": "digits",
    "why": "digits",
    "logs": "digits",
    "history": "digits",
    "try": "digits --quick",
    "tune": "digits --quick --trials 1",
    "blame": "digits",
    "verify-tree": ".reconcile/tree",
    "objections": ".reconcile/tree",
    "respond": "digits -o ../response",
    "accept": "--list",
    "amend": "--list",
    "freeze": "digits --reason deadline --commit",
    "unfreeze": "digits --commit",  # right after it: the next commands have something to do
    "explain": "metadata",
    "pr": "--base HEAD~1",
    "diff": "HEAD~1..HEAD",
    "apply": "--commit",
    "compare": "HEAD~1 HEAD",
    "prune": "--measured",
    "benchmarks show": "resnet50",
    "fetch": "resnet50 --scratch ../scratch --dry-run",
    "rounds show": "v6.1 resnet",
    "rounds conflicts": "v6.1",
    "rounds diff": "v5.1 v6.1",
}
# What shows most in its place: before anything ran, and after the spec was edited. All else lies between these.
_FIRST, _LAST = ("plan", _A_PASS), ("plan", "pr", "diff", "apply", "history", "blame", "compare", "prune")
# They need a tree, an archive, a key, a checkout, an official name or an optional library that the example does not
# have, or report of the machine.
_MACHINE = ("mig", "mig create", "mig destroy")
_OTHERS = ("import", "doctor", "adopt", "move", "unpack", "sign", "rehearse", "prove", "densify", "rounds draft")
WITHOUT_EXAMPLE = frozenset({*_OTHERS, *_MACHINE})
_INTRODUCTION = """\
# JSON outputs

Each command that reports takes `--json` and then prints one JSON object: `version` (of this format; a later program may
add fields under the same version), `report` (its kind) and the fields below. Exit codes stay the same. On an error
(exit code 1) standard output may stay empty; standard error has the text.

The fields are read in an example repository by `python -m tests.unit.cli.json_outputs`. A field that is only `null` or
empty there may have other values elsewhere. `[]` marks the items of a list, `{}` the values of an object whose names
are data. The `status` of a condition is the text `True`, `False` or `Unknown`. The fields of `adopt`, `doctor`,
`import`, `mig`, `move`, `prove`, `rehearse`, `rounds draft`, `sign` and `unpack` are not listed.

Five commands have no `--json`: `help` prints documents, `init` makes a repository (then see `doctor --json`), `page`
and `plot` draw what `status --json`, `history --json` and `why --json` contain, and `watch` writes its events as JSON
lines with `--events`.
"""


def list_commands() -> list[str]:
    """Every command that takes ``--json``, as the parser has them: those below a group behind its name."""
    return [_A_PASS, *_list_below(reconcile, "")]


def _list_below(group: click.Group, name: str) -> Iterator[str]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command, full = group.get_command(context, word), f"{name} {word}".lstrip()
        if command is not None and any("--json" in parameter.opts for parameter in command.params):
            yield full
        if isinstance(command, click.Group):
            yield from _list_below(command, full)


def outputs(root: Path) -> Mapping[str, Any]:
    """Command → the reports that it prints, one for each time it is typed."""
    (root / "specs").mkdir(parents=True)
    (root / "specs/one.yaml").write_text(SPEC + _STORES.replace("STORE", f"{root}-store"), encoding="utf-8")
    (root / ".gitignore").write_text(".reconcile/\n", encoding="utf-8")
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, "Declare one cell")
    found: dict[str, list[Any]] = {}
    for name in (*_FIRST, *(n for n in list_commands() if n not in {*_FIRST, *_LAST, *WITHOUT_EXAMPLE})):
        found.setdefault(name, []).append(_type(root, name))
    edit(root, "target_qps: 1000", "target_qps: 1100", "Ask for more")
    for name in _LAST:
        found.setdefault(name, []).append(_type(root, name))
    return found


def _type(root: Path, name: str) -> Any:
    printed = io.StringIO()
    with contextlib.chdir(root):
        with contextlib.redirect_stdout(printed):
            code = main([*name.split(), *_ARGUMENTS.get(name, "").split(), "--json"])
        assert code != BUG, f"{name}: {printed.getvalue()}"
        assert printed.getvalue().startswith("{"), f"{name} printed no report: are its arguments in _ARGUMENTS?"
    return json.loads(printed.getvalue())


def reference(found: Mapping[str, Sequence[Any]]) -> str:
    """A section for each kind of report, with the commands that print it."""
    commands: dict[str, list[str]] = {}
    reports: dict[str, list[Any]] = {}
    for name in sorted(found):
        (title,) = {report.get("report", _SAVED_PLAN) for report in found[name]}
        commands.setdefault(title, []).append(f"`reconcile {name}`" if name != _A_PASS else "`reconcile` (a pass)")
        reports.setdefault(title, []).extend(found[name])
    parts = [_INTRODUCTION]
    for title in sorted(reports):
        listing = "\n".join(_indent(_list_fields(reports[title])))
        parts.append(f"## {title}\n\nFrom {', '.join(commands[title])}.\n\n```text\n{listing}\n```\n")
    return "\n".join(parts)


def _list_fields(reports: Sequence[Any]) -> Mapping[str, str]:
    rows: dict[str, set[str]] = {}
    for report in reports:
        for path, kind in _fields("", report):
            rows.setdefault(path, set()).add(kind)
    longer = {re.split(r"\[\]|\{\}|\.", path)[0] for path in rows if re.search(r"[\[{.]", path)}
    return {
        path: _kinds(kinds)
        for path, kinds in rows.items()
        if path not in ("version", "report") and not (path in longer and kinds <= _EMPTY)
    }


def _indent(fields: Mapping[str, str]) -> Iterator[str]:
    """A line for each field, below the object or list that it belongs to."""
    tree: dict[str, Any] = {}
    for path, kind in fields.items():
        *parents, last = path.split(".")
        place = tree
        for parent in parents:
            place = place.setdefault(parent, {})
        place.setdefault(last, {})[""] = kind
    yield from _print_tree(tree, 0)


def _print_tree(tree: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, below in tree.items():
        if name:
            kind = below.get("")
            yield f"{'  ' * depth}{name}{f': {kind}' if kind else ''}"
            yield from _print_tree(below, depth + 1)


def _fields(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if path.rpartition(".")[2] in _AS_RECORDED:
        yield path, "object, as recorded or read"
    elif path in _OF_THE_MACHINE:
        yield f"{path}[]", "text"
    elif isinstance(value, dict) and value:
        if all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in value):
            for name, item in value.items():
                yield from _fields(f"{path}.{name}".lstrip("."), item)
        else:
            for item in value.values():
                yield from _fields(f"{path}{{}}", item)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _fields(f"{path}[]", item)
    else:
        yield path, _KINDS[type(value)]


_KINDS: Mapping[type, str] = {
    dict: "empty object",
    list: "empty list",
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    type(None): "null",
}
# Their fields depend on the benchmark, the machine or the round.
_AS_RECORDED = frozenset({"values", "settings", "description", "hardware", "nodes", "benchmarks", "sections"})
# Texts, none on some machines and several on others.
_OF_THE_MACHINE = frozenset({"advice"})


def _kinds(kinds: set[str]) -> str:
    known = kinds - (_EMPTY - {"null"}) or kinds
    return " or ".join(sorted(known - {"null"})) + (" or null" if "null" in known and len(known) > 1 else "") or "null"


def write() -> None:
    with tempfile.TemporaryDirectory() as folder:
        TARGET.write_text(reference(outputs(Path(folder) / "repository")), encoding="utf-8")
    sys.stdout.write(f"wrote {TARGET}\n")


if __name__ == "__main__":
    write()
