"""`reconcile show CELL`: every resolved value and the line that sets it; keys, records and files."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say_report
from reconciler.cli.shared.plan_options import find_asked_cell
from reconciler.errors import IN_SYNC, NOT_IN_SYNC
from reconciler.execute.commands import describe_command
from reconciler.execute.run_code import list_declared_code
from reconciler.history.why import build_why_chain, explain, find_value_commits
from reconciler.reconcile.desired_cache import list_spec_paths
from reconciler.reconcile.line_commits import show_line_commit
from reconciler.reconcile.planning import PlanResult
from reconciler.record.store import find_readable
from reconciler.render.cell import (
    Showing,
    Shown,
    ShownCode,
    ShownFile,
    render_code_text,
    render_showing_part,
    render_showing_text,
)
from reconciler.render.documents import render_document
from reconciler.render.explanation import (
    collect_origins,
    render_chain_part,
    render_chain_text,
    render_explanation_part,
    render_explanation_text,
)
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import PERFORMANCE, Cell, RunAddress
from reconciler.resource.records import Artifact
from reconciler.resource.resources import Resource
from reconciler.resource.settings import COMMAND
from reconciler.spec.declared import Declared, DeclaredCell
from reconciler.spec.loading import load
from reconciler.storage.code_files import explain_names, list_code_names
from reconciler.storage.files import RepositoryPaths

# `reconcile why CELL`: what changed, where and by whom; or what was compared and found equal.


@click.command("why")
@takes([cell_argument(), spec_option(), json_option()])
def why_command(cell: str, specs: tuple[str, ...], as_json: bool) -> int:
    """Explain which steps CELL needs and why, or that it needs none. Then show, from the submission down to the model,
    which commit recorded each step and who last changed a line that it depends on.

    CELL is division/system/benchmark/scenario, any part of it that fits one cell, or a glob.
    """
    paths, _, seen, chosen, lineage = find_asked_cell(cell, specs)
    explanation, links = explain(seen, chosen, lineage), build_why_chain(seen, chosen)
    commits = {
        origin: show_line_commit(commit)
        for origin, commit in find_value_commits(paths, collect_origins(explanation)).items()
    }
    paint = choose_paint()
    lines = [render_explanation_text(explanation, commits, paint), *render_chain_text(links, paint)]
    parts = {**render_explanation_part(explanation, commits), "links": render_chain_part(links)}
    say_report(render_document("why", **parts), "\n".join(lines), as_json=as_json)
    return IN_SYNC if explanation.in_sync else NOT_IN_SYNC


_CODE = click.Option(["--code"], is_flag=True, help="Show which files count as code of the cell's commands, and why.")
_ALL = click.Option(["--all", "show_all"], is_flag=True, help="With --code: list every file.")


@click.command("show")
@takes([cell_argument(), spec_option(), _CODE, _ALL, json_option()])
def show_command(cell: str, specs: tuple[str, ...], code: bool, show_all: bool, as_json: bool) -> int:
    """Show every resolved value of CELL with the file and line that sets it and the values that it overrides, then
    keys, commands, records and files. With --code: which files count as the code of its commands.

    CELL is division/system/benchmark/scenario, any part of it that fits one cell, or a glob.
    """
    if show_all and not code:
        raise click.UsageError("--all also needs --code")
    paths, options, seen, chosen, lineage = find_asked_cell(cell, specs)
    if code:
        parts = list_code(paths, seen, chosen)
        text = render_code_text(chosen, parts, choose_paint(), show_all=show_all)
        say_report(render_document("show", cell=chosen, code=parts), text, as_json=as_json)
        return IN_SYNC
    declared = load(list_spec_paths(paths, options.specs), paths.root, os.environ)
    showing = show_cell(paths, seen, declared, chosen, lineage)
    document = render_document("show", **render_showing_part(showing))
    say_report(document, render_showing_text(showing, choose_paint()), as_json=as_json)
    return IN_SYNC


def list_code(paths: RepositoryPaths, seen: PlanResult, cell: Cell) -> tuple[ShownCode, ...]:
    """List the code of the cell's performance run, as a run starting now would keep it; nothing without a command."""
    address = RunAddress(cell, PERFORMANCE).address
    detail = seen.desired.detail(address) if address in seen.desired.by_address else None
    if detail is None or COMMAND not in detail.settings:
        return ()
    written = seen.recorded.find_written()
    found = []
    for _, location in list_declared_code(detail.settings, detail.locations, paths.root):
        path = paths.root / location
        names = sorted(list_code_names(path)) if path.is_dir() else []
        explained = explain_names(path, names, written.get(location, ()))
        counts = [name for name, why in explained if not why] if path.is_dir() else [path.name]
        found.append(ShownCode(location, tuple(counts), {name: why for name, why in explained if why}))
    return tuple(found)


def show_cell(
    paths: RepositoryPaths, seen: PlanResult, declared: Declared, cell: Cell, lineage: Sequence[Resource]
) -> Showing:
    found = next(entry for entry in declared.cells if entry.cell == cell)
    settings = _describe_settings(seen, declared, found, lineage)
    shown = tuple(_show_resource(paths, seen, resource) for resource in lineage)
    details = {resource.address: seen.desired.detail(resource.address) for resource in lineage}
    commands = {
        address: describe_command(address, detail.settings, detail.collect_values(), detail.locations)
        for address, detail in details.items()
    }
    return Showing(cell, settings, shown, found.overridden, commands)


def _describe_settings(
    seen: PlanResult, declared: Declared, found: DeclaredCell, lineage: Sequence[Resource]
) -> dict[str, Value]:
    """Describe the settings of the cell in the spec, and those that the round, defaults and this machine add."""
    system = declared.systems[found.cell.system]
    values = {"round": declared.round, "submitter": declared.submitter, **system.settings, **found.settings}
    for resource in lineage:
        for item in seen.desired.detail(resource.address).inputs:
            if item.upstream is None and item.name not in ("mode", "scenario"):
                values.setdefault(item.name, Value(item.value, item.origin))
    return dict(sorted(values.items()))


def _show_resource(paths: RepositoryPaths, seen: PlanResult, resource: Resource) -> Shown:
    record = seen.difference.recorded_as.get(resource.address, "")
    change = next((c for c in seen.difference.changes if c.address == resource.address), None)
    summary = next((s for s in seen.recorded.by_address.get(resource.address, ()) if s.id == record), None)
    return Shown(
        resource.address,
        resource.key,
        record,
        f"{change.action.value}: {change.reason.value}"
        if change
        else seen.difference.unmade.get(resource.address, "in sync"),
        tuple(describe_file(paths, artifact) for artifact in summary.artifacts) if summary else (),
        tuple(s.id for s in seen.recorded.by_address.get(resource.address, ()) if s.id != record),
    )


def describe_file(paths: RepositoryPaths, artifact: Artifact) -> ShownFile:
    path = find_readable(paths, artifact)
    shown = path.relative_to(paths.root).as_posix() if path.is_relative_to(paths.root) else str(path)
    return ShownFile(artifact.name, artifact.size, shown, path.exists())
