"""`reconcile help [TOPIC]`: show the bundled documents, paged on a terminal and plain elsewhere."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import click
from click.shell_completion import CompletionItem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.table import Table

from reconciler.cli.command_table import COMMANDS
from reconciler.cli.shared.options import takes
from reconciler.cli.shared.output import say, use_colour
from reconciler.errors import IN_SYNC, ReconcilerError

_DOCUMENTS = Path(__file__).parents[1] / "docs"
_INDEX = "index"
_ENTRY = re.compile(r"^- \[([a-z-]+)\]\(\1\.md\): (.+)$", re.MULTILINE)
_LINK_TO_TOPIC = re.compile(r"\[([^\]]+)\]\(([a-z-]+)\.md(?:#[\w-]+)?\)")


class _FoldedTable(TableElement):
    """A table that folds long words: by default rich cuts them off."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            for column in part.columns if isinstance(part, Table) else ():
                column.overflow = "fold"
            yield part


class _Document(Markdown):
    elements: ClassVar = {**Markdown.elements, "table_open": _FoldedTable}


def read_topics() -> Mapping[str, str]:
    """Map each topic to its description, in the order of the index."""
    return dict(_ENTRY.findall(_read_document(_INDEX)))


def _read_document(topic: str) -> str:
    return (_DOCUMENTS / f"{topic}.md").read_text(encoding="utf-8")


def _complete_topics(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=text) for name, text in read_topics().items() if name.startswith(incomplete)]


@click.command("help")
@takes([click.Argument(["topic"], required=False, metavar="[TOPIC|COMMAND]", shell_complete=_complete_topics)])
@click.pass_context
def command(context: click.Context, topic: str | None) -> int:
    """Read the documents: `help` lists the topics, `help TOPIC` shows one, `help COMMAND` is `COMMAND --help`."""
    if topic is None:
        _show_document(_read_document(_INDEX))
    elif topic in read_topics():
        _show_document(_read_document(topic))
    elif topic in COMMANDS:
        _show_command(context, topic)
    else:
        raise _explain_unknown(topic)
    return IN_SYNC


def _show_document(text: str) -> None:
    """Print the Markdown source; on a terminal, format it and page long documents."""
    if not (sys.stdout.isatty() and use_colour()):
        say(text.rstrip("\n"))
        return
    console = Console()
    # A link to another document becomes its topic name; the address would be useless on a terminal.
    laid_out = _Document(_LINK_TO_TOPIC.sub(r"\1 (`help \2`)", text), hyperlinks=False)
    with console.capture() as captured:
        console.print(laid_out)
    click.echo_via_pager(captured.get())  # coloured if the pager supports colours, else plain


def _show_command(context: click.Context, name: str) -> None:
    assert context.parent is not None
    group = context.parent.command
    assert isinstance(group, click.Group)
    found = group.get_command(context.parent, name)
    assert found is not None
    say(found.get_help(click.Context(found, info_name=name, parent=context.parent)))


def _explain_unknown(topic: str) -> ReconcilerError:
    near = difflib.get_close_matches(topic, [*read_topics(), *COMMANDS], 1)
    hint = f"did you mean `reconcile help {near[0]}`?" if near else "`reconcile help` lists the topics"
    return ReconcilerError(f"{topic!r} is neither a topic nor a command", fix=hint)
