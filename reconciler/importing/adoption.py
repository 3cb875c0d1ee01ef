"""A tree that was read becomes a spec that holds, and records for the runs that fit it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.desired.checks import check
from reconciler.errors import ReconcilerError, SpecError
from reconciler.files import copy
from reconciler.foreign import walk_files
from reconciler.importing.adopted_records import Recorder, Taken
from reconciler.importing.adopted_spec import name_power_folder, render_spec
from reconciler.importing.read_tree import TakenCell, TakenTree
from reconciler.mlperf.rules.ruleset import Ruleset
from reconciler.resource.kinds import Cell
from reconciler.spec.files import Source, compute_blob_id
from reconciler.spec.loading import load_sources
from reconciler.tree.layout import is_portable

_DOCUMENT = "documentation/calibration.md"


@dataclass(frozen=True, slots=True)
class DeclaredTree:
    """``left_out``: cell or file → why it is not in the spec."""

    tree: TakenTree
    text: str
    cells: tuple[TakenCell, ...]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Adoption:
    """``another_round``: the round the spec names, when it is not the tree's."""

    round: str
    text: str
    cells: int
    systems: int
    taken: tuple[Taken, ...]
    left_out: Mapping[str, str]
    another_round: str = ""


def copy_documents(tree: TakenTree, root: Path) -> dict[str, Any]:
    """Copies the calibration document and the code of each benchmark into the repository; gives where they are."""
    published: dict[str, Any] = {"source": {}}
    for place in filter(lambda place: tree.holds(place.path), tree.places):
        for name in (_DOCUMENT, "calibration.md"):
            if tree.holds(place.path / name) and (place.path / name).is_file() and "calibration" not in published:
                copy(place.path / name, root / _DOCUMENT)
                published["calibration"] = _DOCUMENT
        for area in ("src", "code"):
            for benchmark in sorted({item.cell.benchmark for item in tree.cells}):
                if benchmark not in published["source"] and _copy_code(tree, place.path / area / benchmark, root):
                    published["source"][benchmark] = f"src/{benchmark}"
    return published


def copy_power(tree: TakenTree, root: Path) -> TakenTree:
    """Copies every power measurement below power/CELL in the repository, where the cell's ``power`` names it. One that
    no submission tree can hold is left out, with the reason."""
    cells = []
    for item in tree.cells:
        if wrong := next((name for name in item.power if not all(map(is_portable, name.split("/")))), ""):
            why = f"power measurement: {wrong} is not a valid name in a submission tree"
            cells.append(replace(item, power={}, problems=(*item.problems, why)))
            continue
        for name, path in item.power.items():
            copy(path, root / name_power_folder(item.cell) / name)
        cells.append(item)
    return replace(tree, cells=tuple(cells))


def _copy_code(tree: TakenTree, folder: Path, root: Path) -> bool:
    """What a tree may hold of a benchmark's code; whether there was anything."""
    found = False
    for path in sorted(_held(tree, folder)):
        names = path.relative_to(folder).parts
        if tree.holds(path) and path.is_file() and all(is_portable(name) for name in names):
            copy(path, root / "src" / folder.name / Path(*names))
            found = True
    return found


def _held(tree: TakenTree, folder: Path) -> Iterator[Path]:
    """The files of a folder, as far as it does not go down forever."""
    with contextlib.suppress(OSError):
        yield from walk_files(folder) if tree.holds(folder) and folder.is_dir() else ()


def declare(tree: TakenTree, ruleset: Ruleset, name: str, root: Path, published: Mapping[str, Any]) -> DeclaredTree:
    """The spec of as many cells as the round takes. ``name``: of the spec file, relative to the repository."""
    left_out = {problem.partition(": ")[0]: problem.partition(": ")[2] for problem in tree.problems}
    left_out |= {str(item.cell): "; ".join(item.problems) for item in tree.cells if not item.runs and not item.source}
    cells = [item for item in tree.cells if str(item.cell) not in left_out]
    while cells:
        text = render_spec(tree, ruleset, cells, left_out, published)
        wrong = _refused(text, ruleset, name, root, cells) or _rehearsed(tree, cells)
        if not wrong:
            return DeclaredTree(tree, text, tuple(cells), left_out)
        left_out |= wrong
        cells = [item for item in cells if str(item.cell) not in wrong and str(item.source) not in wrong]
    raise ReconcilerError(
        f"nothing of {tree.submitter} can be adopted into round {ruleset.round}:\n"
        + "\n".join(f"  {cell}: {why}" for cell, why in sorted(left_out.items())),
        fix="see each cell's reason; --round chooses another round",
    )


def _rehearsed(tree: TakenTree, cells: list[TakenCell]) -> dict[str, str]:
    """What calls itself a rehearsal stays one."""
    why = "its tree says that it is a rehearsal, which `--rehearsal` adopts as what it is"
    return {} if tree.rehearsal else {str(item.cell): why for item in cells if item.rehearsal}


def _refused(text: str, ruleset: Ruleset, name: str, root: Path, cells: list[TakenCell]) -> dict[str, str]:
    """Cell → why the spec may not declare it. A problem that is not a cell's own is that of all it touches."""
    try:
        check(load_sources([Source(name, text, compute_blob_id(text.encode()))], root, {}), ruleset)
    except SpecError as error:
        wrong: dict[str, str] = {}
        for problem in error.problems:
            for cell in _touched(problem.path, [item.cell for item in cells]):
                wrong.setdefault(str(cell), problem.message)
        return wrong or {str(item.cell): str(error.problems[0]) for item in cells}
    return {}


def _touched(path: str, cells: list[Cell]) -> list[Cell]:
    exact = [c for c in cells if f"{path}.".startswith(f"spec.divisions.{str(c).replace('/', '.')}.")]
    return exact or [
        c for c in cells
        if f"{path}.".startswith((f"spec.benchmarks.{c.benchmark}.", f"spec.systems.{c.system}."))
    ]  # fmt: skip


def adopt_runs(declared: DeclaredTree, recorder: Recorder) -> Adoption:
    """Records every run that is what its cell asks for; the others are named, and `plan` shows them as due."""
    taken: list[Taken] = []
    left_out = dict(declared.left_out)
    for item in declared.cells:
        for problem in item.problems:
            left_out[f"{item.cell} ({problem.partition(':')[0]})"] = problem.partition(": ")[2]
        for run in item.runs:
            try:
                taken += recorder.run(item.cell, run)
            except ReconcilerError as error:
                left_out[f"{item.cell} ({run.mode} run)"] = error.message
        if item.runs:
            for name, files in item.tests.items():
                recorder.test(item.cell, name, files, item.runs[-1])
    systems = {item.cell.system for item in declared.cells}
    own = declared.tree.ruleset.round
    return Adoption(own, declared.text, len(declared.cells), len(systems), tuple(taken), left_out)
