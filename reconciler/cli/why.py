"""`reconcile why CELL`: what changed, where, by whom; or what was compared and found equal."""

from __future__ import annotations

import click

from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.history.why import build_why_chain, explain
from reconciler.plan.cell_names import find_cell
from reconciler.reconcile.line_commits import find_commits, show_line_commit
from reconciler.reconcile.planning import compute_plan
from reconciler.render.chain import render_chain_part, render_chain_text
from reconciler.render.documents import render_document
from reconciler.render.explanation import (
    collect_origins,
    render_explanation_part,
    render_explanation_text,
)


@click.command("why")
@takes([cell_argument(), spec_option(), json_option()])
def command(cell: str, specs: tuple[str, ...], as_json: bool) -> int:
    """Explain what CELL has to do and why, or that it has nothing to do; and down the chain, from the submission to the
    model, which commit recorded each step and who last changed a line behind it.

    CELL is division/system/benchmark/scenario, any part of it that fits one cell, or a glob.
    """
    paths, options = find_asked_cells(specs)
    seen = compute_plan(paths, options)
    by_cell = trace_lineages(seen.desired)
    chosen = find_cell(cell, by_cell)
    explanation, links = explain(seen, chosen, by_cell[chosen]), build_why_chain(seen, chosen)
    commits = {
        origin: show_line_commit(commit) for origin, commit in find_commits(paths, collect_origins(explanation)).items()
    }
    if as_json:
        say_json(
            render_document("why", **render_explanation_part(explanation, commits), links=render_chain_part(links))
        )
    else:
        say(
            "\n".join(
                [
                    render_explanation_text(explanation, commits, choose_paint()),
                    *render_chain_text(links, choose_paint()),
                ]
            )
        )
    return IN_SYNC if explanation.in_sync else NOT_IN_SYNC
