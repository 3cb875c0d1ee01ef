"""Compares two commits, two systems or two trees, cell by cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from reconciler.check.cell_formats import choose_cell_format
from reconciler.diff.change import Work
from reconciler.diff.conditions import trace_lineages
from reconciler.diff.timeline import (
    STALE,
    CellChange,
    ChangeCause,
    CurvePair,
    CurvePoint,
    Pair,
    ResultComparison,
    Side,
    beats,
    drop_repeated,
    find_dominated,
)
from reconciler.errors import RepositoryError, suggest_nearest
from reconciler.history.snapshot import Snapshot, read_snapshot
from reconciler.resource.canonical import canonicalise
from reconciler.resource.inputs import Input
from reconciler.resource.kinds import PERFORMANCE, Address, Cell, Kind, RunAddress, rank_cell, read_point
from reconciler.resource.programs import find_program_of_division
from reconciler.resource.quantities import join_listing
from reconciler.resource.resources import Resource
from reconciler.resource.settings import DEDICATED_OFFLINE, CellSettings, SystemSettings
from reconciler.rules.programs import Program, find_program_of_tree, load_program
from reconciler.storage import git
from reconciler.tree.reading.survey import refuse_unknown_round, survey_tree
from reconciler.tree.reading.system import SubmitterFiles


def compare_commits(one: Snapshot, other: Snapshot) -> tuple[CellChange, ...]:
    """Return every cell that either commit declares, including unchanged ones."""
    before, after = trace_lineages(one.desired), trace_lineages(other.desired)
    first, second = read_sides(one, is_published=True), read_sides(other, is_published=True)
    found = []
    for cell in sorted({*before, *after}, key=rank_cell):
        causes = _list_causes(one, before[cell], other, after[cell]) if cell in before and cell in after else ()
        own = {resource.address for resource in after.get(cell, ())}
        due = [c.address.label for c in other.difference.changes if c.how is Work.MAKE and c.address in own]
        values = [(s.value, s.unit) if (s := side.get(cell)) else None for side in (first, second)]
        declared = (cell in before, cell in after)
        found.append(CellChange(cell, declared, causes, values[0], values[1], tuple(dict.fromkeys(due))))
    return tuple(found)


def _list_causes(
    one: Snapshot, before: Iterable[Resource], other: Snapshot, after: Iterable[Resource]
) -> tuple[ChangeCause, ...]:
    """Return each differing input once. Resources made from a differing input do not repeat it."""
    was = {r.address: _list_own_inputs(one, r.address) for r in before}
    causes = []
    for resource in after:
        mine, theirs = _list_own_inputs(other, resource.address), was.get(resource.address, {})
        for name in sorted({*mine, *theirs}):
            values = [canonicalise(side[name].value) if name in side else None for side in (theirs, mine)]
            if values[0] != values[1]:
                where = str((mine.get(name) or theirs[name]).origin)
                causes.append(ChangeCause(resource.address.label, name, values[0], values[1], where))
    return drop_repeated(causes)


def _list_own_inputs(at: Snapshot, address: Address) -> dict[str, Input]:
    """Return the inputs without the keys of its sources."""
    return {i.name: i for i in at.desired.detail(address).inputs if i.value is not None and i.upstream is None}


def read_sides(at: Snapshot, *, is_published: bool = False) -> dict[Cell, Side]:
    """Return the performance of every cell that has one: that of the published run or, unless ``is_published``, that of
    an INVALID run. A curve has no INVALID points."""
    systems = at.desired.submission.systems
    found = {}
    for cell, chosen in at.difference.chosen.items():
        program = find_program_of_division(cell.division)
        measured = chosen.performance
        if not (measured or is_published or program):
            measured = at.difference.recorded_as.get(RunAddress(cell, PERFORMANCE).address, "")
        record = at.records.get(measured)
        summary = at.committed.summaries[measured] if record else None
        metric = summary.find_metric(cell.scenario) if summary else None
        if record is not None and summary is not None and metric is not None:
            system = systems.get(cell.system, SystemSettings())
            count = system.hardware.count * (system.hardware.nodes or 1)
            accelerator = system.get_text("hardware.accelerator")
            validity = str(record.values.get("validity", ""))
            headroom = summary.margin[1] if summary.margin else ""
            side = Side(cell, *metric, validity, count, accelerator, headroom)
            figures = record.values.get("point")
            found[cell] = _place_on_curve(side, figures, at, load_program(program)) if figures and program else side
    return found


def _place_on_curve(side: Side, figures: Mapping[str, object], at: Snapshot, program: Program) -> Side:
    """Place the result on its curve, under the official benchmark's name."""
    result = Address(Kind.RESULT, str(side.cell))
    settings = at.desired.detail(result).settings if result in at.desired.by_address else CellSettings()
    offline, entered = DEDICATED_OFFLINE in settings, settings.official
    point = None if offline else program.read_point(read_point(side.cell), figures, side.value)
    return replace(side, entered=entered, point=point, offline=offline)


def compare(names: tuple[str, str], one: Mapping[Cell, Side], other: Mapping[Cell, Side]) -> ResultComparison:
    """Compare the same cell if both sides have it. Otherwise compare the same benchmark and scenario with the cells of
    the most similar division, accelerator and count, or with every system's if none is similar."""
    stale = [{cell: side for cell, side in sides.items() if side.validity == STALE} for sides in (one, other)]
    one, other = ({c: side for c, side in sides.items() if side.validity != STALE} for sides in (one, other))
    pairs = [Pair(one[cell], other[cell]) for cell in sorted({*one} & {*other}, key=rank_cell)]
    left = {cell: side for cell, side in one.items() if cell not in other}
    right = {cell: side for cell, side in other.items() if cell not in one}
    for cell in sorted(left, key=rank_cell):
        side = left[cell]
        met_by = [Pair(side, right[m]) for m in sorted(right) if right[m].task == side.task]
        most = max((pair.likeness for pair in met_by), default=None)
        pairs += [pair for pair in met_by if pair.likeness == most]
    met = {side.cell for pair in pairs for side in (pair.one, pair.other)}
    unmet = [{cell: side for cell, side in sides.items() if cell not in met} for sides in (left, right)]
    old = [_select_stale(own, there) for own, there in zip(unmet, reversed(stale), strict=True)]
    alone = [tuple(sorted(own.keys() - cells)) for own, cells in zip(unmet, old, strict=True)]
    curves = tuple(_compare_curves(pairs, one.values(), other.values()))
    wrong = sorted({cell for cell, side in [*left.items(), *right.items()] if side.validity == "INVALID"} - met)
    by_name, stale_by_name = (dict(zip(names, cells, strict=True)) for cells in (alone, reversed(old)))
    return ResultComparison(names, tuple(pairs), by_name, curves, tuple(wrong), stale_by_name)


def _select_stale(own: Mapping[Cell, Side], stale: Mapping[Cell, Side]) -> tuple[Cell, ...]:
    """Select the cells whose counterpart on the other side, the same cell or one with the same task, is stale."""
    tasks = {side.task for cell, side in stale.items() if cell not in own}
    return tuple(sorted(cell for cell, side in own.items() if cell in stale or side.task in tasks))


def _compare_curves(pairs: Iterable[Pair], one: Collection[Side], other: Collection[Side]) -> Iterator[CurvePair]:
    """Compare each pair of curves that have a point in common; all of their points count."""
    met = dict.fromkeys((pair.one.curve, pair.other.curve) for pair in pairs if pair.one.point and pair.other.point)
    for names in met:
        drawn = [
            [side.point for side in sides if side.point and side.curve == name]
            for name, sides in zip(names, (one, other), strict=True)
        ]
        mine, theirs = map(_choose_best, drawn)
        yield CurvePair(
            curves=names,
            points=(len(mine), len(theirs)),
            peaks=(max(p.system_tps for p in mine), max(p.system_tps for p in theirs)),
            beaten=(_list_beaten(mine, theirs), _list_beaten(theirs, mine)),
        )


def _choose_best(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Choose the points that no other point of the curve beats."""
    dominated = find_dominated(points)
    return [point for point in points if point.concurrency not in dominated]


def _list_beaten(points: Iterable[CurvePoint], by: Collection[CurvePoint]) -> tuple[int, ...]:
    return tuple(sorted(point.concurrency for point in points if any(beats(other, point) for other in by)))


def _list_stale_sides(at: Snapshot) -> Iterator[Side]:
    """Yield a side without a value for each cell whose performance was recorded only with other inputs."""
    for resource in at.desired.resources:
        runs = [up for up in resource.upstream if up.kind is Kind.RUN and up.mode == PERFORMANCE]
        if resource.kind is not Kind.RESULT or resource.cell is None or not runs:
            continue
        if runs[0] not in at.difference.recorded_as and runs[0] in at.recorded.by_address:
            program = find_program_of_division(resource.cell.division)
            entered = at.desired.detail(resource.address).settings.official if program else ""
            yield Side(resource.cell, "", "", STALE, entered=entered)


def read_own_sides(root: Path, name: str) -> dict[Cell, Side]:
    """Return the results of a system that HEAD declares, stale ones included; any other name is a commit."""
    here = read_snapshot(root, git.resolve(root, "HEAD"))
    systems = dict.fromkeys(r.cell.system for r in here.desired.resources if r.cell is not None)
    if name in systems:
        return {cell: side for cell, side in _read_all_sides(here).items() if cell.system == name}
    return _read_all_sides(read_snapshot(root, resolve_side(root, name, systems)))


def _read_all_sides(at: Snapshot) -> dict[Cell, Side]:
    return {side.cell: side for side in _list_stale_sides(at)} | read_sides(at)


def resolve_side(root: Path, name: str, others: Iterable[str], fix: str = "a tree is named by its folder") -> str:
    """Return the commit of a side that is neither of ``others``, the known systems and trees. Raises RepositoryError
    that lists them."""
    try:
        return git.resolve(root, name)
    except RepositoryError as error:
        if name == "HEAD":
            raise
        known = list(others)
        listed = f"known here: {join_listing(known, most=6)}; " if known else ""
        fix = f"{suggest_nearest(name, known)}{error.fix}; {listed}{fix}"
        raise RepositoryError(f"no system, tree or commit {name!r}", fix=fix) from error


# Published results of a submission tree on disk, for comparison with others.

_NONE = "N/A"  # accelerator_model_name of a system without accelerators


def read_tree_sides(path: Path) -> dict[Cell, Side]:
    """Read a tree of MLPerf Inference, or of submissions of another program. Raises ReconcilerError if there is none,
    and if no known round defines its results."""
    if (program := find_program_of_tree(path)) is not None:
        return dict(program.read_sides(path))
    found = {}
    for tree in survey_tree(path):
        refuse_unknown_round(tree)
        for submitter in tree.root.submitters:
            files = SubmitterFiles(submitter)
            for place in submitter.list_cells():
                system = files.read_system(place.cell.system)
                view = tree.make_view(submitter, place, system, tree.find_official_name(files, place.cell.benchmark))
                value, unit = choose_cell_format(view).read_metric(view)
                if value is not None:
                    validity = view.performance.log.validity if view.performance else ""
                    named = system.get_text("accelerator_model_name")
                    accelerator = "" if named == _NONE else named
                    nodes, each = (system.get_count(name) for name in ("number_of_nodes", "accelerators_per_node"))
                    found[place.cell] = Side(
                        place.cell, f"{value:g}", unit, validity, (nodes or 1) * (each or 0), accelerator
                    )
    return found
