"""The reference of commands and of exit codes as Markdown, from click's own tables and from ``reconciler.errors``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from reconciler import errors

_CODES = (
    (errors.IN_SYNC, "in sync, or done"),
    (errors.ERROR, "an error that you can fix; the message says how. Usage errors are among them"),
    (errors.NOT_IN_SYNC, "something selected is not in sync: changes, drift, INVALID runs, blocked steps, findings"),
    (errors.BUG, "a bug in `reconcile`: it names a report to send; records are safe"),
    (errors.INTERRUPTED, "interrupted by Ctrl-C or SIGTERM; run the same command again to go on"),
)


def render_command_reference(program: click.Group) -> str:
    """Each command of the program: what it does, its usage, its options."""
    context = click.Context(program, info_name="reconcile")
    parts = ["## A pass\n", *_parts(program.get_command(context, "pass"), "reconcile")]
    for name in program.list_commands(context):
        parts += [f"## {name}\n", *_parts(program.get_command(context, name), f"reconcile {name}")]
    return "\n".join(parts)


def _parts(command: click.Command | None, path: str) -> Iterator[str]:
    assert command is not None
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{path} {usage}\n```\n\n{_prose(command.help or '')}\n"
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context)) is not None]
    rows = "".join(f"| `{_cell(name)}` | {_cell(text)} |\n" for name, text in records if not _everywhere(name))
    if rows:
        yield f"| Option | Meaning |\n|---|---|\n{rows}"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield f"### {path.removeprefix('reconcile ')} {name}\n"
            yield from _parts(command.get_command(context, name), f"{path} {name}")


def _everywhere(names: str) -> bool:
    return any(name in names for name in ("--help", "--no-color", "--verbose"))


def _prose(text: str) -> str:
    """Paragraphs on a line each, as Markdown has them; click's marks for text to leave alone go."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def render_exit_codes() -> str:
    """The codes, and the exceptions that lead to them."""
    rows = "".join(f"| {code} | {meaning} |\n" for code, meaning in _CODES)
    tree = (errors.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    return f"| Code | Meaning |\n|---|---|\n{rows}\n## Errors\n\n```text\n{_dedent(tree)}\n```\n"


def _dedent(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.splitlines())
