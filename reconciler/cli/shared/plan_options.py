"""Code that the reporting commands share: plan the repository, find its cells, and find out who changed a line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from reconciler.cli.shared.repository import find_repository, show_from_root, sort_words
from reconciler.diff.conditions import trace_lineages
from reconciler.errors import ReconcilerError
from reconciler.observed.loadgen_library import read_conf_here
from reconciler.observed.observe import find_wrong_loadgen
from reconciler.plan.plan import Plan
from reconciler.plan.select import find_cell, parse, parse_repeated, resolve_words
from reconciler.reconcile.planning import (
    Options,
    PlanCache,
    PlanResult,
    check_values,
    compute_plan,
    explain_unfit,
    list_cells,
)
from reconciler.resource.kinds import Cell, Kind
from reconciler.resource.quantities import join_listing, show_count
from reconciler.resource.resources import Resource
from reconciler.storage.files import RepositoryPaths


def find_asked_cells(
    words: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    only: Sequence[str] = (),
    rerun: Sequence[str] = (),
    deep: bool = False,
    commit: bool = False,
    busy: bool = False,
    wait: float = 0.0,
) -> tuple[RepositoryPaths, Options]:
    """Return the repository, and the options of a plan or a pass, from the words that the user typed."""
    specs, selectors = sort_words(words)
    parse(selectors)
    for repeated in (exclude, rerun):
        parse_repeated(repeated)
    paths = find_repository(specs)
    read = tuple(show_from_root(paths, spec) for spec in specs)
    declared = cache(lambda: list_declared_cells(paths, read))
    options = Options(
        specs=read,
        select=resolve_words(selectors, declared),
        exclude=resolve_words(exclude, declared),
        only=tuple(only),
        rerun=resolve_words(rerun, declared),
        deep=deep,
        commit=commit,
        busy=busy,
        wait=wait,
    )
    return paths, options


class AskedCell(NamedTuple):
    """The one cell that the user means, with its resources, in the plan ``seen``."""

    paths: RepositoryPaths
    options: Options
    seen: PlanResult
    cell: Cell
    resources: tuple[Resource, ...]


def find_asked_cell(text: str, specs: Sequence[str]) -> AskedCell:
    """Compute the plan, and find the cell."""
    paths, options = find_asked_cells(specs)
    seen = compute_plan(paths, options)
    by_cell = trace_lineages(seen.desired)
    cell = find_cell(text, by_cell)
    return AskedCell(paths, options, seen, cell, by_cell[cell])


def list_declared_cells(paths: RepositoryPaths, specs: tuple[str, ...] = ()) -> list[Cell]:
    """List the declared cells of the specs on disk; none if the specs are broken, which other code reports."""
    try:
        desired = PlanCache.of(paths).load_desired(Options(specs))
    except (ReconcilerError, OSError):
        return []
    return [r.cell for r in desired.resources if r.kind is Kind.RESULT and r.cell is not None]


def compute_selected_plan(paths: RepositoryPaths, options: Options) -> PlanResult:
    """Compute a plan whose selection matches something. Raises ReconcilerError that lists what can be selected."""
    seen = compute_plan(paths, options)
    if options.select and not list_cells(seen, options):
        raise explain_unfit(options.select, seen.desired)
    check_values(options.select, seen.desired)
    return seen


def check_selection(memory: PlanCache, options: Options) -> None:
    """Raise ReconcilerError if a selection matches no declared cell, before any work is done."""
    if not options.select:
        return
    desired = memory.load_desired(options)
    selector = parse(options.select).drop_resource_terms()
    if not any(r.kind is Kind.RESULT and selector.matches(r.address) for r in desired.resources):
        raise explain_unfit(options.select, desired)
    check_values(options.select, desired)


def list_early_remarks(seen: PlanResult) -> list[str]:
    """List problems that would be rejected at the end of the coming runs, and can be fixed before."""
    runs = [step.change.address for step in seen.plan.steps if step.change.address.kind is Kind.RUN]
    found = []
    if gaps := seen.desired.list_gaps(seen.recorded):
        text = f"{show_count(len(gaps), 'thing')} that a submission needs {'is' if len(gaps) == 1 else 'are'} missing"
        found.append(f"{text} from the spec: reconcile validate")
    carried = cache(read_conf_here)
    wrong = next(filter(None, (find_wrong_loadgen(seen.desired, address, carried, None) for address in runs)), None)
    if wrong is not None and all(step.blocked != wrong.message for step in seen.plan.steps):  # unless a step reports it
        found.append(f"{wrong.message[0].upper()}{wrong.message[1:]}. {wrong.fix}")
    if all("rehearsal" in seen.desired.detail(address).marks for address in runs):
        return found
    from reconciler.storage import git

    if dirty := git.list_dirty(seen.paths.root, seen.spec):
        advice = "Results count only once this spec is committed; commit it before you edit it again."
        found.append(f"Not committed: {join_listing(dirty)}. {advice}")
    return found


def choose_exit_code(plan: Plan) -> int:
    """Return 0 if everything selected is in sync, else 2."""
    return 0 if plan.in_sync else 2
