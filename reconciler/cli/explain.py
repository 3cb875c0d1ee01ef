"""`reconcile explain PATH`: what may be written at a place of a spec, from its schema."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from reconciler.cli.shared.options import takes
from reconciler.cli.shared.output import say
from reconciler.errors import IN_SYNC, ReconcilerError
from reconciler.spec.schema_page import render_schema_node
from reconciler.spec.schema_paths import complete_path, find_schema_node


def _complete(_: click.Context, __: click.Parameter, beginning: str) -> list[CompletionItem]:
    try:
        return [CompletionItem(path) for path in complete_path(beginning)]
    except ReconcilerError:
        return []


_PATH = click.Argument(["path"], required=False, default="", metavar="[PATH]", shell_complete=_complete)


@click.command("explain")
@takes([_PATH])
def command(path: str) -> int:
    """Show what may be written at PATH in a spec, such as spec.benchmarks.engine: its type, choices, default and
    meaning.

    A name of your own (of a system, a benchmark, a cell) may be left out or written; a field is also found by its name
    alone, such as target_qps. Without PATH: the whole document.

    Editors read the same: the first line of a spec names the schema, schemas/submission.schema.json.
    """
    say(render_schema_node(find_schema_node(path)))
    return IN_SYNC
