"""`reconcile move CELL --to DIVISION`: enter a cell in another division."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

import click

from reconciler.cli.shared.options import cell_argument, json_option, spec_option, takes
from reconciler.cli.shared.output import choose_paint, say, say_json
from reconciler.cli.shared.plan_options import find_asked_cells
from reconciler.desired.checks import check
from reconciler.desired.compile import compile_desired
from reconciler.desired.requirements import list_needed_pins
from reconciler.desired.state import Desired
from reconciler.diff.conditions import trace_lineages
from reconciler.diff.difference import compare
from reconciler.errors import IN_SYNC, Problem, ReconcilerError
from reconciler.observed.digest_cache import DigestCache
from reconciler.plan.cell_names import find_cell
from reconciler.plan.plan import Plan
from reconciler.reconcile.desired_cache import list_spec_paths, observe_pins_here
from reconciler.reconcile.planning import Options, PlanResult, compute_plan, make_plan_of
from reconciler.render.documents import render_document
from reconciler.render.plan import LIMIT, render_plan_text
from reconciler.resource.kinds import DIVISIONS, Address, Cell, Kind
from reconciler.resource.programs import find_program_of_division
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.edit import EditError
from reconciler.spec.files import Source, compute_blob_id, read_sources
from reconciler.spec.loading import load_sources
from reconciler.spec.move import move
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.leftovers import sweep_siblings

_TO = click.Option(["--to"], required=True, type=click.Choice(DIVISIONS), help="The division to enter it in.")
_DRY = click.Option(["--dry-run"], is_flag=True, help="Only say what would change.")
_CELL = cell_argument()


@click.command("move")
@takes([_CELL, _TO, _DRY, spec_option(), json_option()])
def command(cell: str, to: str, dry_run: bool, specs: tuple[str, ...], as_json: bool) -> int:
    """Move CELL to another division: edit the spec, with its comments, and show what that changes.

    Refused when the round does not allow the cell there. Runs are not repeated: what was measured is the same.
    """
    paths, options = find_asked_cells(specs)
    seen = compute_plan(paths, options)
    source = find_cell(cell, trace_lineages(seen.desired))
    target = Cell(to, source.system, source.benchmark, source.scenario)
    _refuse(seen, source, target)
    sources = _sources(paths, options)
    name, edited = _edited(sources, source, target)
    changed = [Source(s.name, edited, compute_blob_id(edited.encode())) if s.name == name else s for s in sources]
    plan = _plan(paths, options, seen, changed)
    lines = _lines(next(s.text for s in sources if s.name == name), edited, name)
    if not dry_run:
        sweep_siblings(paths.root / name)
        replace(paths.root / name, edited.encode())
    if as_json:
        steps = [str(step.change.address) for step in plan.steps]
        found = [{"where": f.where, "message": f.message} for f in plan.findings]
        moved = {"source": str(source), "target": str(target), "file": name, "dry_run": dry_run}
        say_json(render_document("move", **moved, lines=lines, steps=steps, findings=found))
        return IN_SYNC
    said = "Would move" if dry_run else "Moved"
    say("\n".join([f"{said} {source} to {to}:", *lines, "", "Before:", _summary(seen.plan), "", "After:"]))
    say(render_plan_text(plan, limit=LIMIT, paint=choose_paint()))
    return IN_SYNC


def _refuse(seen: PlanResult, source: Cell, target: Cell) -> None:
    if find_program_of_division(source.division):
        place = f"{source.division}.{source.system}.{source.benchmark}"
        fix = f"move what is below spec.divisions.{place} by hand; no run is repeated"
        raise ReconcilerError(f"{source} is a point: a curve is entered in one division as a whole", fix=fix)
    if source == target:
        raise ReconcilerError(f"{source} is in the {target.division} division already", fix="name another one: --to")
    ruleset = load_ruleset(seen.desired.submission.round)
    if Address(Kind.RESULT, str(target)) in seen.desired.by_address:
        raise ReconcilerError(f"{target} is declared already", fix="remove one of the two from the spec first")
    if not ruleset.binds(target.division, "model_mapping") and ruleset.find_official_name(target.benchmark) is None:
        raise ReconcilerError(
            f"round {ruleset.round} takes only official benchmark names in the {target.division} division, "
            f"and {target.benchmark} is none",
            fix="rename the benchmark in the spec to the official one it is entered as, then move it",
        )


def _sources(paths: RepositoryPaths, options: Options) -> list[Source]:
    sources, problems = read_sources(list_spec_paths(paths, options.specs), paths.root)
    if problems:
        raise ReconcilerError(str(problems[0]))
    return list(sources)


def _edited(sources: Iterable[Source], source: Cell, target: Cell) -> tuple[str, str]:
    """The file that declares the cell, and its new text."""
    why = ""
    for item in sources:
        try:
            return item.name, move(item.text, _path(source), _path(target), keep=2)
        except EditError as error:
            why = why if "there is no" in str(error) else f"{item.name}: {error}"
    raise ReconcilerError(f"{source} cannot be moved by an edit: {why or 'no file declares it'}", fix="move it by hand")


def _path(cell: Cell) -> tuple[str, ...]:
    return "spec", "divisions", cell.division, cell.system, cell.benchmark, cell.scenario


def _plan(paths: RepositoryPaths, options: Options, seen: PlanResult, sources: list[Source]) -> Plan:
    """The plan as it will be. SpecError when the round forbids the edited spec."""
    problems: list[Problem] = []
    declared = load_sources(sources, paths.root, os.environ, problems)
    ruleset = load_ruleset(str(declared.round.value))
    check(declared, ruleset)
    stamps, needed = DigestCache(paths), list_needed_pins(declared, ruleset)
    pins = observe_pins_here(needed, seen.desired.submission.systems, paths, seen.recorded, stamps)
    desired: Desired
    desired, _ = compile_desired(declared, ruleset, pins)
    difference = compare(desired, seen.recorded, seen.observed)
    return make_plan_of(paths, options, desired, seen.recorded, seen.observed, difference, stamps.hash_source)


def _lines(before: str, after: str, name: str) -> list[str]:
    """The lines of the spec that go and come."""
    rows = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [f"  {row[0]} {Path(name).name}: {row[1:].strip()}" for row in list(rows)[2:] if row[0] in "+-"]


def _summary(plan: Plan) -> str:
    return render_plan_text(plan, limit=LIMIT).splitlines()[-1]
