"""Reads one submitter's part of a tree into what a spec would declare of it, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reconciler.errors import LogError, ReconcilerError
from reconciler.foreign import strange_entries, walk_files
from reconciler.importing.loadgen_run import LoadgenRun
from reconciler.importing.log_folder import find_run
from reconciler.importing.results_folder import find_results
from reconciler.importing.run_import import FoundRun
from reconciler.mlperf.endpoints import collect_result_settings
from reconciler.mlperf.loadgen.compare import read_logged_settings
from reconciler.mlperf.loadgen.settings import list_settings, name_loadgen_scenario
from reconciler.mlperf.rules.ruleset import Ruleset
from reconciler.resource.kinds import Cell
from reconciler.tree.reading.cell import CellFiles
from reconciler.tree.reading.places import SubmitterPlace
from reconciler.tree.reading.survey import Survey, survey_tree
from reconciler.tree.reading.system import SubmitterFiles, SystemFile


@dataclass(frozen=True, slots=True)
class TakenCell:
    """One scenario folder. ``settings``: what its performance log says a spec must ask for.

    ``problems``: what could not be taken of it, and why. ``source``: the cell whose logs these are. ``model_name``: of
    results of the endpoints harness, the model that they are of. ``power``: files of a power measurement by their path
    below performance/. ``rehearsal``: its tree says that it is one."""

    cell: Cell
    official: str
    settings: Mapping[str, Any]
    measurements: Mapping[str, str]
    runs: tuple[FoundRun, ...] = ()
    tests: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    source: Cell | None = None
    problems: tuple[str, ...] = ()
    model_name: str = ""
    power: Mapping[str, Path] = field(default_factory=dict)
    rehearsal: bool = False


@dataclass(frozen=True, slots=True)
class TakenTree:
    """``ruleset``: that of the tree's own round. ``systems``: {name: its description's values}.

    ``strange``: what of the tree is not read, and what it is."""

    submitter: str
    ruleset: Ruleset
    places: tuple[SubmitterPlace, ...]
    systems: Mapping[str, Mapping[str, Any]]
    cells: tuple[TakenCell, ...]
    problems: tuple[str, ...] = ()
    rehearsal: bool = False
    strange: Mapping[Path, str] = field(default_factory=dict)

    def holds(self, path: Path) -> bool:
        """Whether a path of the tree, and all above it, may be read."""
        return not any(path.is_relative_to(entry) for entry in self.strange)


def read_tree(path: Path, submitter: str = "") -> TakenTree:
    """ReconcilerError when there is no tree, more than one, or several submitters and none is named."""
    found = survey_tree(path)
    if len(found) != 1:
        raise ReconcilerError(f"{path} holds {len(found)} trees", fix="name the root of one")
    names = sorted({place.submitter for place in found[0].root.submitters})
    if not submitter and len(names) > 1:
        raise ReconcilerError(
            f"{path} is of {len(names)} submitters: {', '.join(names)}", fix="choose: --submitter NAME"
        )
    chosen = submitter or (names[0] if names else "")
    places = tuple(place for place in found[0].root.submitters if place.submitter == chosen)
    if not places:
        raise ReconcilerError(f"{path} has no submitter {chosen!r}", fix=f"there are {', '.join(names)}")
    root = found[0].root
    inside = path if root.whole else root.path
    return _take(found[0], places, {e: what for place in places for e, what in strange_entries(place.path, inside)})


def _take(tree: Survey, places: tuple[SubmitterPlace, ...], strange: Mapping[Path, str]) -> TakenTree:
    systems: dict[str, Mapping[str, Any]] = {}
    cells: list[TakenCell] = []
    problems: list[str] = [f"{path}: {what}, which is not read" for path, what in strange.items()]
    for place in places:
        if place.path in strange:
            continue
        files = SubmitterFiles(place)
        for name in place.systems():
            system = files.system(name)
            if _touched(place.path / "systems", strange):
                continue
            if system.read.value is None or not system.category:
                why = system.read.problem or ("there is none" if system.read.value is None else "no known system_type")
                problems.append(f"{system.read.file}: {why}; none of its cells is adopted")
                continue
            systems[name] = {**systems.get(name, {}), **system.read.value.values}
            for benchmark in place.benchmarks(name):
                cells += _cells(tree, files, system, benchmark, strange)
    cells_ = _with_sources(cells)
    return TakenTree(places[0].submitter, tree.ruleset, places, systems, cells_, tuple(problems), strange=strange)


def _cells(
    tree: Survey, files: SubmitterFiles, system: SystemFile, benchmark: str, strange: Mapping[Path, str]
) -> Iterator[TakenCell]:
    official = tree.official(files, benchmark)
    for place in files.place.scenario_folders(system.name, benchmark):
        cell = CellFiles(files.place, place)
        read = (cell.results, cell.measurements_folder, cell.compliance_folder)
        if found := next((entry for folder in read for entry in _touched(folder.path, strange)), None):
            yield TakenCell(place.cell, official, {}, {}, problems=(f"{found} is {strange[found]}",))
        else:
            view = tree.view(files.place, place, system, official)
            yield replace(_cell(view.files, official, tree.ruleset), rehearsal=view.rehearsal)


def _touched(folder: Path, strange: Mapping[Path, str]) -> list[Path]:
    """What is strange at, above or below a folder."""
    return [path for path in strange if path.is_relative_to(folder) or folder.is_relative_to(path)]


def _cell(files: CellFiles, official: str, ruleset: Ruleset) -> TakenCell:
    cell, rules = files.place.cell, ruleset.benchmark(official)
    read = files.measurements.value
    measured = {str(name): _text(value) for name, value in read.values.items()} if read else {}
    own = TakenCell(cell, official, {}, measured)
    if rules is None:
        return replace(own, problems=(f"round {ruleset.round} has no such benchmark",))
    if files.endpoints:
        return _of_endpoints(own, files)
    runs, problems = _runs(files)
    settings: dict[str, Any] = {}
    performance = next((run for run in runs if run.mode == "performance"), None)
    if performance is not None:
        key = str(rules.value("model_key", cell.scenario) or "*")
        settings = read_logged_settings(performance.log, files.user_conf.value, key)
    tests = {name: dict(_files(folder.path)) for name, folder in files.tests.items()}
    power = _power(files.results.path / "performance")
    return replace(own, settings=settings, runs=tuple(runs), tests=tests, problems=tuple(problems), power=power)


def _power(performance: Path) -> dict[str, Path]:
    """Of a power session: its own folders, and all that LoadGen and it left in the run that was measured."""
    if not (performance / "power").is_dir():
        return {}
    return {
        f"{part}/{name}": path for part in ("power", "ranging", "run_1") for name, path in _files(performance / part)
    }


def _of_endpoints(own: TakenCell, files: CellFiles) -> TakenCell:
    """Results of the endpoints harness: its configuration says what a spec must ask for."""
    try:
        runs = find_results(files.results.path)
    except LogError as error:
        return replace(own, problems=(str(error.message),))
    there = {run.mode for run in runs}
    missing = tuple(f"{mode} run: it left no results" for mode in ("accuracy", "performance") if mode not in there)
    settings = collect_result_settings(runs[-1].left.results.config)
    model = str(runs[-1].left.results.config.within("model_params", "name") or "")
    return replace(own, settings=settings, runs=runs, model_name=model, problems=missing)


def _runs(files: CellFiles) -> tuple[list[LoadgenRun], list[str]]:
    runs, problems = [], []
    conf = files.measurements_folder.path / "user.conf"
    for part in (files.accuracy, files.performance):
        try:
            run = find_run(part.folder.path, conf if conf.is_file() else None, below=False)
        except (LogError, OSError, ValueError) as error:
            problems.append(f"{part.name} run: {error}")
            continue
        if run.mode != part.name:
            problems.append(f"{part.name} run: {run.detail} is the log of an {run.mode} run")
        else:
            runs.append(run)
    return runs, problems


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(walk_files(folder)) if folder.is_dir() else ():
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(folder).as_posix(), path


def _with_sources(cells: list[TakenCell]) -> tuple[TakenCell, ...]:
    """Cells that hold another scenario's logs are inferred from it, where that one is there and has the same logs."""
    by_cell = {item.cell: item for item in cells}
    return tuple(_with_source(item, by_cell) for item in sorted(cells, key=lambda item: item.cell))


def _with_source(item: TakenCell, by_cell: Mapping[Cell, TakenCell]) -> TakenCell:
    logged = {run.logged_scenario for run in item.runs} - {""}
    if not logged or logged == {name_loadgen_scenario(item.cell.scenario)}:
        return item
    cell = item.cell
    source = Cell(cell.division, cell.system, cell.benchmark, sorted(logged)[0])
    other = by_cell.get(source)
    if other is None or _details(other) != _details(item):
        why = f"its logs are of {', '.join(sorted(logged))}, and {source} does not have the same ones"
        return replace(item, runs=(), problems=(*item.problems, why))
    return replace(item, source=source, settings={}, runs=())


def _details(item: TakenCell) -> list[bytes]:
    return [run.read_log() for run in item.runs]


def collect_cell_settings(item: TakenCell, ruleset: Ruleset) -> dict[str, Any]:
    """The settings that a spec of this round must state: what the round does not say anyway."""
    rules = ruleset.benchmark(item.official)
    ruled = rules.settings(item.cell.scenario) if rules else {}
    names = list_settings("performance", item.cell.scenario)
    stated = {name: item.settings[name] for name in names if name in item.settings}
    return {n: v for n, v in stated.items() if n not in ruled or str(ruled[n].value) != str(v)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ("" if value is None else str(value))
