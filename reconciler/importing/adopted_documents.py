"""Documents of an adopted tree that are not results: the calibration document, the code of each benchmark with the
statement of how it ran in a tree of ours, power measurements, and the capacity of its systems' power supplies."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from harness.benchmark_catalog import BENCHMARKS
from reconciler.importing.adopted_spec import name_power_folder
from reconciler.importing.read_tree import TakenTree
from reconciler.importing.run_reader import TakenCell
from reconciler.observed.installed_backends import find_backend_version
from reconciler.resource.kinds import Cell
from reconciler.resource.quantities import join_listing
from reconciler.storage.files import copy
from reconciler.storage.untrusted_files import walk_files
from reconciler.tree.documents import parse_requirements
from reconciler.tree.layout import CHECKER_LOG, is_portable
from reconciler.tree.reading.files import decode_text, read_file
from reconciler.tree.render import CONFIGS, OF_BENCHMARK, PLACES, REPRODUCE, SCORER, Instructions, parse_reproduce

_DOCUMENT, _CHECKER_LOG = "documentation/calibration.md", f"documentation/{CHECKER_LOG}"
_GROUPS = ("model", "dataset", "engine", "harness", "run")
_SOURCES = {"model": "Model: source", "dataset": "Dataset: source"}
_LOCATIONS = ("code", "cwd", "logs", "user_conf_at")


def is_readable(path: Path, unreadable: Collection[Path]) -> bool:
    """Return True if neither a path nor any of its parents is ``unreadable``."""
    return not any(path.is_relative_to(entry) for entry in unreadable)


def walk_sent(folder: Path) -> Iterator[Path]:
    """Yield its files, up to the depth of any valid tree."""
    with contextlib.suppress(OSError):
        yield from walk_files(folder)


def find_publishable(folder: Path, shown: str, unreadable: Collection[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder that a tree may contain, with their places below ``shown``. ``unreadable``: paths
    that are not read."""
    for path in sorted(walk_sent(folder)) if is_readable(folder, unreadable) and folder.is_dir() else ():
        names = path.relative_to(folder).parts
        if is_readable(path, unreadable) and path.is_file() and all(map(is_portable, names)):
            yield "/".join((shown, *names)), path


class AdoptedDocuments(Struct, frozen=True):
    """The documents of an adopted tree. ``published``: their declaration in the spec. ``files``: path relative to the
    repository → the file in the tree."""

    published: Mapping[str, Any]
    files: Mapping[str, Path]

    def copy(self, root: Path) -> None:
        for path, source in self.files.items():
            copy(source, root / path)

    def list_folders(self, root: Path) -> tuple[Path, ...]:
        return tuple(sorted({(root / path).parent for path in self.files}))


def find_documents(tree: TakenTree) -> AdoptedDocuments:
    """Find the documents by name without reading them; ``copy`` puts the files into a repository."""
    files: dict[str, Path] = {}
    sources: dict[str, str] = {}

    def is_usable(path: Path) -> bool:
        return is_readable(path, tree.unreadable) and path.is_file()

    for place in filter(lambda place: is_readable(place.path, tree.unreadable), tree.places):
        for name, target in (
            (_DOCUMENT, _DOCUMENT),
            ("calibration.md", _DOCUMENT),
            (f"results/{CHECKER_LOG}", _CHECKER_LOG),
        ):
            if is_usable(place.path / name):
                files.setdefault(target, place.path / name)
        for area in ("src", "code"):
            for benchmark in sorted({item.cell.benchmark for item in tree.cells} - sources.keys()):
                if code := dict(find_publishable(place.path / area / benchmark, f"src/{benchmark}", tree.unreadable)):
                    files |= code
                    sources[benchmark] = f"src/{benchmark}"
    published: dict[str, Any] = {"source": sources, "original": {}, "nameplate": {}}
    for place in tree.places:
        for name in sorted(filter(is_portable, tree.systems)):
            for kind, file in (("original", f"systems/{name}.json"), ("nameplate", f"systems/{name}_power.yaml")):
                if name not in published[kind] and is_usable(place.path / file):
                    published[kind][name] = file
                    files[file] = place.path / file
    for item in tree.cells:
        files |= {f"{name_power_folder(item.cell)}/{name}": path for name, path in item.power.items()}
    if _DOCUMENT in files:
        published["calibration"] = _DOCUMENT
    if _CHECKER_LOG in files:
        published["checker_log"] = _CHECKER_LOG
    return AdoptedDocuments(published, files)


def refuse_odd_power(tree: TakenTree) -> TakenTree:
    """Leave out a power measurement that no submission tree can contain, with the reason."""
    cells = []
    for item in tree.cells:
        if wrong := next((name for name in item.power if not all(map(is_portable, name.split("/")))), ""):
            why = f"power measurement: {wrong} is not a valid name in a submission tree"
            cells.append(replace(item, power={}, problems=(*item.problems, why)))
        else:
            cells.append(item)
    return replace(tree, cells=tuple(cells))


def restore_settings(tree: TakenTree, documents: AdoptedDocuments) -> tuple[TakenTree, dict[str, str]]:
    """Return the tree with the settings in its own REPRODUCE.md, for each benchmark whose own runs all have them and
    whose code is included; and why each of the others cannot be used, by its path."""
    chosen: dict[Cell, TakenCell] = {}
    unused: dict[str, str] = {}
    for benchmark, source in documents.published["source"].items():
        name = f"{source}/{REPRODUCE}"
        if name not in documents.files:
            continue
        read = read_file(documents.files[name], REPRODUCE, decode_text)
        stated, names = parse_reproduce(read.value or ""), {n for n in documents.files if n.startswith(f"{source}/")}
        own = [item for item in tree.cells if item.cell.benchmark == benchmark and item.source is None]
        restored = [_restore(item, stated, _Code(f"{source}/", names)) for item in own]
        found = {item.cell: item for item in restored if isinstance(item, TakenCell)}
        if why := read.problem or next((item for item in restored if isinstance(item, str)), ""):
            unused[name] = why
        elif differing := _list_differing([item.measured_with for item in found.values()]):
            unused[name] = f"its cells state different {join_listing(differing)}"
        else:
            chosen |= found
    return replace(tree, cells=tuple(chosen.get(item.cell, item) for item in tree.cells)), unused


def _list_differing(stated: Sequence[Mapping[str, object]]) -> list[str]:
    """List the settings of a benchmark that its cells state differently."""
    return [name for name in OF_BENCHMARK if any(item.get(name) != stated[0].get(name) for item in stated)]


class _Code(Struct, frozen=True):
    """A cell's code in the repository: its folder, ending in "/", and the names of all included files."""

    folder: str
    names: Collection[str]

    def find(self, location: object, part: str) -> str:
        """Return the location of a part of the code: a file by its name, or else the folder. Raises KeyError if it is
        not included."""
        file, place = PurePosixPath(str(location)), f"{self.folder}{part}"
        if file.suffix and f"{place}{file.name}" in self.names:
            return f"{place}{file.name}"
        if file.suffix == ".py" or not any(name.startswith(place) for name in self.names):
            raise KeyError(location)
        return place.rstrip("/")


def _restore(item: TakenCell, stated: Mapping[tuple[str, str, str], Instructions], code: _Code) -> TakenCell | str:
    """Return the reason if nothing is declared for the cell, or its code is not included."""
    cell = item.cell
    found = stated.get((cell.division, cell.system, cell.scenario))
    if found is None:
        return f"it states no settings of {cell}"
    settings = {name: value for name in _GROUPS if isinstance(value := found.settings.get(name), Mapping)}
    code = replace(code, folder=f"{code.folder}{found.prefix}")
    try:
        if (own := str(found.settings.get("code", ""))) and own not in BENCHMARKS:
            own = code.find(own, PLACES["code"])
        if "harness" in settings:
            settings["harness"] = _locate_harness(settings["harness"], code)
    except KeyError as error:
        return f"{code.folder.rstrip('/')} does not contain {error.args[0]}"
    for kind, listed in _SOURCES.items():
        if "path" in settings.get(kind, ()) and listed in found.digests:
            settings[kind] = {"sha256": found.digests[listed], **settings[kind]}
    if engine := settings.get("engine"):
        version = find_backend_version(str(engine.get("backend", "")), parse_requirements(item.requirements))
        settings["engine"] = {**engine, **({"version": version} if version and "version" not in engine else {})}
    named = {"code": own, **settings} if own else settings
    return replace(item, measured_with=named, hardware=found.hardware)


def _locate_harness(harness: Mapping[str, object], code: _Code) -> dict[str, object]:
    """Return a harness's settings with the present locations of its code and configurations."""
    located = dict(harness)
    for part in ("", "service", "build"):
        group = located if not part else dict(own) if isinstance(own := harness.get(part), Mapping) else {}
        moved: dict[str, str] = {}
        if "code" in group:
            place = PLACES[f"harness.{part}.code" if part else "harness.code"]
            moved[str(group["code"])] = code.find(group["code"], place if part or "command" in harness else SCORER)
        for name in _LOCATIONS:
            if name in group:
                group[name] = _move(str(group[name]), moved)
        if isinstance(configs := group.get("configs"), list):
            within = [_move(str(name), moved) for name in configs]
            group["configs"] = [name if name in code.names else code.find(name, CONFIGS) for name in within]
        if part and group:
            located[part] = group
    return located


def _move(location: str, moved: Mapping[str, str]) -> str:
    """Return the present location of a path at or below one that moved."""
    for before, after in moved.items():
        if location == before or location.startswith(f"{before}/"):
            return after + location.removeprefix(before)
    return location
