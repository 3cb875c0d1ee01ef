"""The reference of commands and of exit codes as Markdown, from click's own tables and from ``reconciler.errors``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import click

from reconciler import errors

_CODES = (
    (errors.IN_SYNC, "in sync, or done"),
    (errors.ERROR, "an error that you can fix; the message says how. Usage errors are among them"),
    (errors.NOT_IN_SYNC, "something selected is not in sync: changes, drift, INVALID runs, blocked steps, findings"),
    (errors.BUG, "a bug in `reconcile`: it names a report to send; records are safe"),
    (errors.INTERRUPTED, "interrupted by Ctrl-C or SIGTERM; run the same command again to go on"),
)

_EVERYWHERE = ("--help", "--no-color", "--verbose", "--quiet")  # the document's introduction describes these
_SEVERAL = 3  # commands from which on an option is described once


def render_command_reference(program: click.Group) -> str:
    """Each command of the program: what it does, its usage, its options. Options with the same meaning in several
    commands are described once."""
    commands = dict(_list_commands(program, "reconcile"))
    counted = Counter(option for command in commands.values() for option in _list_options(command))
    shared = [option for option, count in counted.items() if count >= _SEVERAL]
    parts = ["## Options of several commands\n", _table(shared)]
    for path, command in commands.items():
        name = path.removeprefix("reconcile").strip()
        level = "###" if " " in name else "##"
        parts += [f"{level} {name or 'A pass'}\n", *_parts(command, path, shared)]
    return "\n".join(parts)


def _list_commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """The pass first, then the commands as `--help` lists them, each group before its commands."""
    context = click.Context(group, info_name=path)
    names = group.list_commands(context)
    for name in names if path != "reconcile" else ["pass", *names]:
        command = group.get_command(context, name)
        assert command is not None
        below = path if name == "pass" else f"{path} {name}"
        yield below, command
        if isinstance(command, click.Group):
            yield from _list_commands(command, below)


def _parts(command: click.Command, path: str, shared: Sequence[tuple[str, str]]) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=path)))
    yield f"```text\n{path} {usage}\n```\n\n{_prose(command.help or '')}\n"
    options = _list_options(command)
    own = [option for option in options if option not in shared]
    if own:
        yield _table(own)
    others = [f"`{_cell(name)}`" for name, text in options if (name, text) in shared]
    if others:
        yield f"{'Also' if own else 'Options:'} {', '.join(others)}.\n"


def _list_options(command: click.Command) -> list[tuple[str, str]]:
    context = click.Context(command)
    options = [item for item in command.get_params(context) if isinstance(item, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context)) is not None]
    return [(name, text) for name, text in records if not any(word in name for word in _EVERYWHERE)]


def _table(options: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"| `{_cell(name)}` | {_cell(text)} |\n" for name, text in options)
    return f"| Option | Meaning |\n|---|---|\n{rows}"


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
