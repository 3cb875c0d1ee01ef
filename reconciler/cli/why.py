"""`reconcile why CELL`: what changed, where, by whom; or what was compared and found equal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

import click

from reconciler.cli.shared.cells import find_cell
from reconciler.cli.shared.moved_sources import list_moved_sources
from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import LineCommitText, find_asked_cells, find_commits
from reconciler.cli.shared.why_chain import build_why_chain
from reconciler.diff.acceptance import BUILT
from reconciler.diff.conditions import collect_notes, is_about, trace_lineages
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.plan.plan import Step
from reconciler.reconcile.planning import PlanResult, compute_plan
from reconciler.render.chain import render_chain_part, render_chain_text
from reconciler.render.documents import render_document
from reconciler.render.explanation import (
    Explanation,
    Reasoned,
    collect_origins,
    render_explanation_part,
    render_explanation_text,
)
from reconciler.resource.kinds import Address, Cell
from reconciler.resource.quantities import show_age
from reconciler.resource.resources import Resource


@click.command("why")
@takes([cell_argument(), spec_option(), json_option()])
def command(cell: str, specs: tuple[str, ...], as_json: bool) -> int:
    """Say why CELL is, or is not, made again; and down the chain, from the submission to the model, which commit
    recorded each step and who last changed a line behind it.

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


def explain(seen: PlanResult, cell: Cell, lineage: Sequence[Resource]) -> Explanation:
    steps: dict[Address, Step] = {}
    for step in seen.plan.steps:
        steps.update(dict.fromkeys((step.change.address, *step.shared), step))
    made = {s.id: s.started for group in seen.recorded.by_key.values() for s in group}
    now = time.time()
    parts = []
    accepted = seen.difference.accepted
    for resource in lineage:
        record = seen.difference.recorded_as.get(resource.address, "")
        inputs = seen.desired.detail(resource.address).inputs
        # Inputs of accepted results may be made again, for others.
        spared = resource.kind in BUILT and cell in accepted
        due = None if spared else steps.get(resource.address)
        instead = cell in accepted and any(key.address == resource.address for key in accepted[cell].accepted)
        parts.append(Reasoned(resource, due, inputs, record, _ago(made.get(record, ""), now), instead))
    findings = tuple(finding for finding in seen.plan.findings if is_about(finding.where, cell))
    decided = tuple(found for found in seen.difference.acceptances if found[1].cell == cell)
    made_from = {resource.address for resource in lineage}
    moved = tuple(source for source in list_moved_sources(seen) if source.address in made_from)
    notes = tuple(collect_notes(lineage, seen.difference, seen.observed))
    return Explanation(cell, tuple(parts), findings, decided, moved, notes)


def _ago(started: str, now: float) -> str:
    try:
        return show_age(now - datetime.fromisoformat(started).timestamp())
    except ValueError:
        return ""


def show_line_commit(commit: LineCommitText) -> str:
    """ "3f2c1ab, Ada, 2 days ago: Raise the batch size"."""
    if not commit.committed:
        return "not committed yet"
    when = show_age(time.time() - commit.when.timestamp()) if commit.when else ""
    older = " or earlier: the clone is shallow" if commit.boundary else ""
    return f"{commit.commit[:7]}, {commit.author}, {when}: {commit.summary}{older}"
