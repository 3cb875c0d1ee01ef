"""`reconcile attach`: follow what an earlier pass left in a queue."""

from __future__ import annotations

import click
from msgspec.structs import replace

from reconciler.cli.shared.options import reporting_options, split_words, takes
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import run


@click.command("attach")
@takes([split_words("[SPEC]..."), *reporting_options()])
def command(words: tuple[str, ...], as_json: bool, show_all: bool) -> int:
    """Follow the jobs that an earlier pass left in a queue, and record their results. Starts nothing new; Ctrl-C does
    not cancel the jobs."""
    paths, options = find_asked_cells(words)
    return run(
        paths,
        replace(
            options,
            attach=True,
            detach=True,
        ),
        as_json=as_json,
        show_all=show_all,
    )
