"""`reconcile [SPEC…]`: one pass."""

from __future__ import annotations

import click
from msgspec.structs import replace

from reconciler.cli.shared.options import pass_options, split_words, takes
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.cli.shared.run_pass import run
from reconciler.reconcile.planning import WAIT_IDLE


@click.command("pass")
@takes([split_words(), *pass_options()])
def command(
    words: tuple[str, ...],
    exclude: tuple[str, ...],
    only: tuple[str, ...],
    deep: bool,
    rerun: tuple[str, ...],
    commit: bool,
    busy: bool,
    wait_idle: float | None,
    wait: float,
    jobs: int,
    detach: bool,
    quick: bool,
    as_json: bool,
    show_all: bool,
) -> int:
    """Run one pass: build, run, score and render what is not as declared."""
    paths, options = find_asked_cells(
        words, exclude=exclude, only=only, rerun=rerun, deep=deep, commit=commit, busy=busy, wait=wait
    )
    options = replace(options, jobs=jobs, detach=detach, wait_idle=WAIT_IDLE if wait_idle is None else wait_idle)
    return run(paths, options, as_json=as_json, show_all=show_all, quick=quick)
