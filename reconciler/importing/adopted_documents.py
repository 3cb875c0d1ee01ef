"""Documents of an adopted tree that are no results: the calibration document, the code of each benchmark, power
measurements, and the capacity of the power supplies of its systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.importing.adopted_spec import name_power_folder
from reconciler.importing.read_tree import TakenTree
from reconciler.importing.submitted_files import find_publishable, is_readable
from reconciler.storage.files import copy
from reconciler.tree.layout import is_portable

_DOCUMENT = "documentation/calibration.md"


class AdoptedDocuments(Struct, frozen=True):
    """``published``: what the spec says of them. ``files``: path relative to the repository → the file in the tree."""

    published: Mapping[str, Any]
    files: Mapping[str, Path]

    def copy(self, root: Path) -> None:
        for path, source in self.files.items():
            copy(source, root / path)

    def list_folders(self, root: Path) -> tuple[Path, ...]:
        return tuple(sorted({(root / path).parent for path in self.files}))


def find_documents(tree: TakenTree) -> AdoptedDocuments:
    """Reads nothing but names; ``copy`` brings the files into a repository."""
    files: dict[str, Path] = {}
    sources: dict[str, str] = {}
    for place in filter(lambda place: is_readable(place.path, tree.unreadable), tree.places):
        for name in (_DOCUMENT, "calibration.md"):
            if is_readable(place.path / name, tree.unreadable) and (place.path / name).is_file():
                files.setdefault(_DOCUMENT, place.path / name)
        for area in ("src", "code"):
            for benchmark in sorted({item.cell.benchmark for item in tree.cells} - sources.keys()):
                if code := dict(find_publishable(place.path / area / benchmark, f"src/{benchmark}", tree.unreadable)):
                    files |= code
                    sources[benchmark] = f"src/{benchmark}"
    originals: dict[str, str] = {}
    nameplates: dict[str, str] = {}
    for place in tree.places:
        for name in sorted(filter(is_portable, tree.systems)):
            described = place.path / "systems" / f"{name}.json"
            if name not in originals and is_readable(described, tree.unreadable) and described.is_file():
                originals[name] = f"systems/{name}.json"
                files[originals[name]] = described
            supplies = place.path / "systems" / f"{name}_power.yaml"
            if name not in nameplates and is_readable(supplies, tree.unreadable) and supplies.is_file():
                nameplates[name] = f"systems/{name}_power.yaml"
                files[nameplates[name]] = supplies
    for item in tree.cells:
        files |= {f"{name_power_folder(item.cell)}/{name}": path for name, path in item.power.items()}
    published: dict[str, Any] = {"source": sources, "original": originals, "nameplate": nameplates}
    if _DOCUMENT in files:
        published["calibration"] = _DOCUMENT
    return AdoptedDocuments(published, files)


def refuse_odd_power(tree: TakenTree) -> TakenTree:
    """A power measurement that no submission tree can hold is left out, with the reason."""
    cells = []
    for item in tree.cells:
        if wrong := next((name for name in item.power if not all(map(is_portable, name.split("/")))), ""):
            why = f"power measurement: {wrong} is not a valid name in a submission tree"
            cells.append(replace(item, power={}, problems=(*item.problems, why)))
        else:
            cells.append(item)
    return replace(tree, cells=tuple(cells))
