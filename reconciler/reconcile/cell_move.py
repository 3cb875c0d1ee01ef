"""Move a cell to another division: edit the spec, and plan with the edit."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from reconciler.diff.conditions import trace_lineages
from reconciler.diff.difference import compare
from reconciler.errors import ReconcilerError
from reconciler.observed.digest_cache import DigestCache
from reconciler.plan.plan import Plan
from reconciler.plan.select import find_cell
from reconciler.reconcile.desired_cache import compile_sources, list_spec_paths
from reconciler.reconcile.planning import Options, PlanResult, compute_plan, make_plan_of
from reconciler.resource.kinds import Address, Cell, Kind
from reconciler.resource.programs import find_program_of_division
from reconciler.rules.rounds import load_ruleset
from reconciler.spec.cell_edit import edit_source, get_path
from reconciler.spec.edit import EditError, move
from reconciler.spec.files import Source, read_readable_sources
from reconciler.storage.files import RepositoryPaths, replace
from reconciler.storage.leftovers import sweep_siblings


class Move(Struct, frozen=True):
    """The edit that moves a cell. ``file``: the file that declares the cell, with its text ``before`` and ``after``.
    ``plan``: with the edit."""

    source: Cell
    target: Cell
    file: str
    before: str
    after: str
    current: Plan
    plan: Plan


def move_cell(paths: RepositoryPaths, options: Options, cell: str, division: str, *, dry_run: bool) -> Move:
    """Move a cell to another division. Raises ReconcilerError if the round does not allow the cell there, or if the
    spec cannot be edited accordingly."""
    seen = compute_plan(paths, options)
    source = find_cell(cell, trace_lineages(seen.desired))
    target = Cell(division, source.system, source.benchmark, source.scenario)
    _refuse(seen, source, target)
    sources = read_readable_sources(list_spec_paths(paths, options.specs), paths.root)
    changed, text = _edit(sources, source, target)
    edited = [edit_source(item, text) if item is changed else item for item in sources]
    stamps = DigestCache(paths)
    desired = compile_sources(paths, edited, seen.recorded, stamps).desired
    difference = compare(desired, seen.recorded, seen.observed)
    plan = make_plan_of(paths, options, desired, seen.recorded, seen.observed, difference, stamps.hash_source)
    if not dry_run:
        sweep_siblings(paths.root / changed.name)
        replace(paths.root / changed.name, text.encode())
    return Move(source, target, changed.name, changed.text, text, seen.plan, plan)


def _refuse(seen: PlanResult, source: Cell, target: Cell) -> None:
    if find_program_of_division(source.division):
        place = f"{source.division}.{source.system}.{source.benchmark}"
        fix = f"move what is below spec.divisions.{place} by hand; no run is repeated"
        raise ReconcilerError(f"{source} is a point: all points of a curve are in one division", fix=fix)
    if source == target:
        raise ReconcilerError(f"{source} is in the {target.division} division already", fix="name another one: --to")
    ruleset = load_ruleset(seen.desired.submission.round)
    if Address(Kind.RESULT, str(target)) in seen.desired.by_address:
        raise ReconcilerError(f"{target} is declared already", fix="remove one of the two from the spec first")
    if not ruleset.binds(target.division, "model_mapping") and ruleset.find_official_name(target.benchmark) is None:
        inputs = seen.desired.detail(Address(Kind.RESULT, str(source))).inputs
        official = next((item.value for item in inputs if item.name == "benchmark.official"), "its official name")
        raise ReconcilerError(
            f"{target.benchmark} is not a benchmark of round {ruleset.round}, and the {target.division} division takes "
            "no other",
            fix=f"rename {target.benchmark} in the spec to {official}, then move it",
        )


def _edit(sources: Iterable[Source], source: Cell, target: Cell) -> tuple[Source, str]:
    """Return the file that declares the cell, and its new text."""
    why = ""
    for item in sources:
        try:
            return item, move(item.text, get_path(source), get_path(target), keep=2)
        except EditError as error:
            why = why if "there is no" in str(error) else f"{item.name}: {error}"
    raise ReconcilerError(f"{source} cannot be moved by an edit: {why or 'no file declares it'}", fix="move it by hand")
