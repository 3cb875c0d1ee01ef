"""Reads one submitter's part of a tree, cell by cell, into what a spec would declare about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.check.compliance import check_verdicts
from reconciler.errors import ReconcilerError
from reconciler.importing import log_folder
from reconciler.importing.run_reader import CellReader, FoundRun, RunReader, TakenCell, TakenSubmission
from reconciler.loadgen.settings import list_settings, name_loadgen_scenario
from reconciler.resource.kinds import Cell
from reconciler.resource.programs import find_program_of_results
from reconciler.rules.programs import load_program, load_programs
from reconciler.rules.rounds import load_ruleset
from reconciler.rules.ruleset import Ruleset
from reconciler.storage.untrusted_files import list_special_entries
from reconciler.tree.documents import read_requirements
from reconciler.tree.reading.cell import README, CellFiles
from reconciler.tree.reading.places import SubmitterPlace
from reconciler.tree.reading.survey import RecognisedRound, Survey, refuse_unknown_round, survey_tree
from reconciler.tree.reading.system import SubmitterFiles, SystemFile
from reconciler.tree.reading.view import CellView


def find_runs(folder: Path, user_conf: Path | None = None, wanted: str = "") -> tuple[FoundRun, ...]:
    """Return the runs of one measurement, read by the reader for their format. ``wanted``: the format of the cell's
    measurements, since one client may write files in several. Raises LogError if there is none, or nothing that may be
    imported."""
    program = find_program_of_results(wanted)
    named: RunReader | None = load_program(program).find_run_reader(wanted) if program else None
    readers: list[RunReader] = [*([named] if named is not None else ()), *_list_readers()]
    return next(reader for reader in readers if reader.is_reader_of(folder)).find_runs(folder, user_conf)


def _list_readers() -> Iterator[CellReader]:
    """List the readers. The last one accepts every folder, since LoadGen's logs show no other format, and reports any
    missing file."""
    yield from (reader for program in load_programs() for reader in program.list_cell_readers())
    yield log_folder


class TakenTree(TakenSubmission, frozen=True, kw_only=True):
    """One submitter's part of a tree. ``systems``: {name: its description's values}; ``recognised``: None if the user
    chose the round."""

    places: tuple[SubmitterPlace, ...]
    systems: Mapping[str, Mapping[str, Any]]
    recognised: RecognisedRound | None = None


def read_tree(path: Path, submitter: str = "", round_name: str = "") -> TakenTree:
    """Read one submitter's part of a tree. Raises ReconcilerError if there is no tree or more than one, if there are
    several submitters and none is named, or if there are no rules for its round. ``round_name``: the round whose rules
    apply to a tree of an unknown round."""
    found = survey_tree(path)
    if len(found) != 1:
        raise ReconcilerError(f"{path} contains {len(found)} trees", fix="pass the root of one")
    tree = found[0]
    if round_name and not tree.ruleset.is_known:
        tree = replace(tree, ruleset=load_ruleset(round_name), recognised=None)
    names = sorted({place.submitter for place in tree.root.submitters})
    if not submitter and len(names) > 1:
        raise ReconcilerError(f"{path} has {len(names)} submitters: {', '.join(names)}", fix="choose: --submitter NAME")
    chosen = submitter or (names[0] if names else "")
    places = tuple(place for place in tree.root.submitters if place.submitter == chosen)
    if not places:
        raise ReconcilerError(f"{path} has no submitter {chosen!r}", fix=f"there are {', '.join(names)}")
    refuse_unknown_round(tree)
    root = tree.root
    inside = path if root.whole else root.path
    return _take(tree, places, {e: what for place in places for e, what in list_special_entries(place.path, inside)})


def _take(tree: Survey, places: tuple[SubmitterPlace, ...], unreadable: Mapping[Path, str]) -> TakenTree:
    systems: dict[str, Mapping[str, Any]] = {}
    cells: list[TakenCell] = []
    problems: list[str] = [f"{path}: {what}, ignored" for path, what in unreadable.items()]
    for place in places:
        if place.path in unreadable:
            continue
        files = SubmitterFiles(place)
        for name in place.list_systems():
            system = files.read_system(name)
            if _list_unreadable(place.path / "systems", unreadable):
                continue
            if system.read.value is None or not system.category:
                why = system.read.problem or ("there is none" if system.read.value is None else "no known system_type")
                problems.append(f"{system.read.file}: {why}; its cells are not adopted")
                continue
            systems[name] = {**systems.get(name, {}), **system.read.value.values}
            for benchmark in place.list_benchmarks(name):
                cells += _read_cells(tree, files, system, benchmark, unreadable)
    by_cell = {item.cell: item for item in cells}
    return TakenTree(
        places[0].submitter,
        tree.ruleset,
        {f"{place.division}/{place.submitter}": place.path for place in places},
        tuple(_mark_inferred(item, by_cell) for item in sorted(cells, key=lambda item: item.cell)),
        tuple(problems),
        unreadable=unreadable,
        places=places,
        systems=systems,
        recognised=tree.recognised,
    )


def _read_cells(
    tree: Survey, files: SubmitterFiles, system: SystemFile, benchmark: str, unreadable: Mapping[Path, str]
) -> Iterator[TakenCell]:
    official = tree.find_official_name(files, benchmark)
    for place in files.place.list_scenario_folders(system.name, benchmark):
        cell = CellFiles(files.place, place)
        read = (cell.results, cell.measurements_folder, cell.compliance_folder)
        if found := next((entry for folder in read for entry in _list_unreadable(folder.path, unreadable)), None):
            yield TakenCell(place.cell, official, {}, {}, problems=(f"{found} is {unreadable[found]}",))
        else:
            view = tree.make_view(files.place, place, system, official)
            taken = _read_cell(view.files, official, tree.ruleset)
            readme = view.files.read_text(view.files.measurements_folder, README).value or ""
            listed = read_requirements(readme)
            yield replace(taken, rehearsal=view.rehearsal, failing=_find_failing(view), requirements=listed)


def _find_failing(view: CellView) -> dict[str, str]:
    """Return compliance test → why its own verify files do not pass, for tests that the round requires."""
    found: dict[str, str] = {}
    for complaint in check_verdicts(view):
        for test in view.tests:
            if complaint.place.file.startswith(f"{view.files.compliance_folder.shown}/{test}/"):
                found.setdefault(test, f"{complaint.found}; wanted {complaint.wanted}")
    return found


def _list_unreadable(folder: Path, unreadable: Mapping[Path, str]) -> list[Path]:
    """List special entries at, above or below a folder."""
    return [path for path in unreadable if path.is_relative_to(folder) or folder.is_relative_to(path)]


def _read_cell(files: CellFiles, official: str, ruleset: Ruleset) -> TakenCell:
    cell, rules = files.place.cell, ruleset.find_benchmark(official)
    read = files.measurements.value
    stated = read.values if read else {}
    measured = {str(name): "" if value is None else str(value) for name, value in stated.items()}
    own = TakenCell(cell, official, {}, measured)
    if rules is None:
        return replace(own, problems=(f"round {ruleset.round} has no such benchmark",))
    return next(reader for reader in _list_readers() if reader.is_reader_of_cell(files)).read_cell(own, files, rules)


def _mark_inferred(item: TakenCell, by_cell: Mapping[Cell, TakenCell]) -> TakenCell:
    """Mark a cell with another scenario's logs as inferred from that scenario's cell, if that cell exists and has the
    same logs."""
    logged = {run.logged_scenario for run in item.runs} - {""}
    if not logged or logged == {name_loadgen_scenario(item.cell.scenario)}:
        return item
    cell = item.cell
    source = Cell(cell.division, cell.system, cell.benchmark, sorted(logged)[0])
    other = by_cell.get(source)
    if other is None or [run.read_log() for run in other.runs] != [run.read_log() for run in item.runs]:
        why = f"its logs are for {', '.join(sorted(logged))}, but {source} has different ones"
        return replace(item, runs=(), problems=(*item.problems, why))
    return replace(item, source=source, settings={}, runs=())


def collect_cell_settings(item: TakenCell, ruleset: Ruleset) -> dict[str, Any]:
    """Return the settings that a spec of this round must declare, since the round does not define them."""
    rules = ruleset.find_benchmark(item.official)
    ruled = rules.list_settings(item.cell.scenario) if rules else {}
    names = list_settings("performance", item.cell.scenario)
    stated = {name: item.settings[name] for name in names if name in item.settings}
    return {n: v for n, v in stated.items() if n not in ruled or str(ruled[n].value) != str(v)}
