"""Locations in a tree: its root, divisions, submitters, systems, benchmarks and scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ReconcilerError
from reconciler.resource.kinds import DIVISIONS, SCENARIOS, Cell
from reconciler.storage.documents import parse_json_object
from reconciler.tree.reading.files import is_folder, join_path, list_files, list_folders, read_file
from reconciler.tree.reading.unreadable_folders import list_if_open, read_if_open

V6, LEGACY = "v6", "legacy"
_DEPTH = 3  # depth to which trees are searched below a path
_CANONICAL = {name.lower(): name for name in SCENARIOS}


class CellPlace(Struct, frozen=True):
    """Scenario folder. ``cell`` has the scenario's official name; ``folder`` is the folder's name."""

    cell: Cell
    folder: str


class SubmitterPlace(Struct, frozen=True):
    """Submitter's folder. ``path``: division/submitter on disk; ``shown``: the same below the user's path. ``only``:
    the parts [system, benchmark, scenario] that the user's path selects, fewer or none for all."""

    division: str
    submitter: str
    path: Path
    shown: str
    layout: str
    only: tuple[str, ...] = ()

    def list_systems(self) -> tuple[str, ...]:
        return self._select(list_folders(self.path / "results"), 0)

    def list_benchmarks(self, system: str) -> tuple[str, ...]:
        return self._select(list_folders(self.path / "results" / system), 1)

    def list_scenario_folders(self, system: str, benchmark: str) -> tuple[CellPlace, ...]:
        """List the folders named after a scenario, in any case."""
        names = list_folders(self.path / "results" / system / benchmark)
        return tuple(
            CellPlace(Cell(self.division, system, benchmark, _CANONICAL[name.lower()]), name)
            for name in self._select(names, 2)
            if name.lower() in _CANONICAL
        )

    def list_other_folders(self, system: str, benchmark: str) -> tuple[str, ...]:
        """List the folders among the scenarios that are not named after a scenario."""
        names = list_folders(self.path / "results" / system / benchmark)
        return tuple(name for name in names if name.lower() not in _CANONICAL)

    def list_cells(self) -> Iterator[CellPlace]:
        for system in list_if_open(self.list_systems):
            for benchmark in list_if_open(self.list_benchmarks, system):
                yield from list_if_open(self.list_scenario_folders, system, benchmark)

    def _select(self, names: tuple[str, ...], level: int) -> tuple[str, ...]:
        return tuple(name for name in names if len(self.only) <= level or name == self.only[level])


class RootPlace(Struct, frozen=True):
    """Folder that contains divisions. ``shown`` is "" or ends in "/"; ``whole``: the user's path is this folder, not a
    part of it."""

    path: Path
    shown: str
    submitters: tuple[SubmitterPlace, ...]
    whole: bool = True


def find_roots(path: Path) -> tuple[RootPlace, ...]:
    """Find every tree at, below or around a path: a results repository, a root, a division, a submitter, or a part of
    one.

    Raises ReconcilerError if there is none.
    """
    if not is_folder(path):
        raise ReconcilerError(f"{path}: no such folder", fix="pass the root of a submission tree, or a part of it")
    below = tuple(_find_roots_below(str(path), "", _DEPTH))
    if below:
        return below
    found = _find_tree_around(path.resolve()) or _read_lone_submitter(path.resolve())
    if found is None:
        problem = f"{path} is not a submission tree: no folder closed, open or network with a submitter's results in it"
        rendered = path / ".reconcile" / "tree"
        fix = f"the tree that was rendered here: {rendered}" if is_folder(rendered) else ""
        raise ReconcilerError(problem, fix=fix or "pass the parent folder, or one division or submitter")
    return (found,)


def _find_roots_below(path: str, shown: str, depth: int) -> Iterator[RootPlace]:
    names = list_folders(path) if depth == _DEPTH else list_if_open(list_folders, path)
    divisions = [name for name in names if name in DIVISIONS]
    is_named = depth == _DEPTH  # only the path that the user names may have no submitter yet
    if divisions and any(_is_division(Path(path, name), may_be_empty=is_named) for name in divisions):
        yield RootPlace(Path(path), shown, tuple(_find_submitters(Path(path), shown, divisions)))
        return
    for name in names:
        if depth and not name.startswith("."):
            yield from _find_roots_below(join_path(path, name), f"{shown}{name}/", depth - 1)


def _find_submitters(path: Path, shown: str, divisions: list[str]) -> Iterator[SubmitterPlace]:
    for division in divisions:
        for name in list_if_open(list_folders, path / division):
            folder = path / division / name
            if name.startswith(".") and not read_if_open(False, _is_submitter, folder):
                continue  # an editor's or git's folder; with results, the official checkers treat it as a submitter
            if layout := read_if_open("", _detect_layout, folder):
                yield SubmitterPlace(division, name, folder, f"{shown}{division}/{name}", layout)


def _is_division(path: Path, *, may_be_empty: bool = True) -> bool:
    names = list_if_open(list_folders, path)
    return (may_be_empty and not names) or any(read_if_open(True, _is_submitter, path / name) for name in names)


def _is_submitter(path: Path) -> bool:
    return any(is_folder(path / name) for name in ("results", "systems", "measurements"))


def _detect_layout(path: Path) -> str:
    """Return the layout. The legacy layout separates measurements, compliance and code from results. Later layouts name
    the code folder ``src``; tools that write both layouts also leave a folder ``code``, or link one to the other."""
    if any(is_folder(path / name) for name in ("measurements", "compliance")):
        return LEGACY
    return LEGACY if is_folder(path / "code") and not is_folder(path / "src") else V6


def _find_tree_around(path: Path) -> RootPlace | None:
    """Find the tree that contains a path: .../closed[/submitter[/results/system[/benchmark[/scenario]]]]."""
    parts = path.parts
    for index in range(len(parts) - 1, 0, -1):
        root = Path(*parts[:index])
        if parts[index] not in DIVISIONS or not _is_division(root / parts[index]):
            continue
        rest = parts[index + 1 :]
        if len(rest) > 1 and rest[1] != "results":
            continue
        found = [s for s in _find_submitters(root, "", [parts[index]]) if not rest or s.submitter == rest[0]]
        return RootPlace(root, "", tuple(replace(place, only=rest[2:5]) for place in found), whole=False)
    return None


def _read_lone_submitter(path: Path) -> RootPlace | None:
    """Read a submitter's folder that is in no division; its system descriptions state the division."""
    if not _is_submitter(path):
        return None
    division = "closed"
    for name in list_files(path / "systems"):
        if name.endswith(".json"):
            system = read_file(path / "systems" / name, name, parse_json_object).value
            stated = str(system.get("division")).lower() if system else ""
            division = stated if stated in DIVISIONS else division
    place = SubmitterPlace(division, path.name, path, path.name, _detect_layout(path))
    return RootPlace(path.parent, "", (place,), whole=False)
