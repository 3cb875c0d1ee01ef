"""A tree that was read becomes a spec that holds, and records for the runs that fit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.desired.checks import check
from reconciler.errors import ReconcilerError, SpecError
from reconciler.importing.adopted_records import ImportRecorder, TakenRecord
from reconciler.importing.run_reader import TakenCell
from reconciler.resource.kinds import Cell
from reconciler.rules.ruleset import Ruleset
from reconciler.spec.files import Source, compute_blob_id
from reconciler.spec.loading import load_sources


class Taken(Protocol):
    """A submission that was read: ``TakenTree`` or a ``ProgramTree``."""

    @property
    def submitter(self) -> str: ...

    @property
    def ruleset(self) -> Ruleset: ...

    @property
    def cells(self) -> tuple[TakenCell, ...]: ...

    @property
    def problems(self) -> tuple[str, ...]: ...

    @property
    def rehearsal(self) -> bool: ...

    @property
    def folders(self) -> Mapping[str, Path]:
        """List the submitter's folders by their place in a rendering."""

    @property
    def unreadable(self) -> Mapping[Path, str]:
        """Unread entries of it, and what they are."""


class ProgramTree(Taken, Protocol):
    """A submission that was read, of another program than MLPerf Inference."""

    def find_files(self) -> dict[str, Path]:
        """Find the files that a repository keeps with its spec, by their place."""

    def refuse_round(self, round_name: str) -> None:
        """ReconcilerError for a version of the rules that the results cannot be declared for; "" is their own."""

    def render_spec(self, cells: list[TakenCell], left_out: Mapping[str, str], files: Mapping[str, Path]) -> str:
        """The spec that declares the cells. ``files``: as ``find_files`` gave them."""


# (cells to declare, cell or file → why it is not) → the spec
RenderSpec = Callable[[list[TakenCell], Mapping[str, str]], str]


class DeclaredTree(Struct, frozen=True):
    """``left_out``: cell or file → why it is not in the spec."""

    tree: Taken
    text: str
    cells: tuple[TakenCell, ...]
    left_out: Mapping[str, str]


class Adoption(Struct, frozen=True):
    """``another_round``: the round the spec names, when it is not the tree's."""

    round: str
    text: str
    cells: int
    systems: int
    taken: tuple[TakenRecord, ...]
    left_out: Mapping[str, str]
    another_round: str = ""


def declare(tree: Taken, ruleset: Ruleset, name: str, root: Path, render: RenderSpec) -> DeclaredTree:
    """The spec of as many cells as the round takes. ``name``: of the spec file, relative to the repository."""
    left_out = {problem.partition(": ")[0]: problem.partition(": ")[2] for problem in tree.problems}
    left_out |= {str(item.cell): "; ".join(item.problems) for item in tree.cells if item.is_nothing}
    cells = [item for item in tree.cells if str(item.cell) not in left_out]
    while cells:
        text = render(cells, left_out)
        wrong = _refused(text, ruleset, name, root, cells) or _rehearsed(tree, cells)
        if not wrong:
            return DeclaredTree(tree, text, tuple(cells), left_out)
        doubted = {item.cell.benchmark for item in cells if item.measured_with and str(item.cell) in wrong}
        if doubted:
            known = (item.cell.benchmark not in doubted for item in cells)
            cells = [i if ok else replace(i, measured_with={}, hardware={}) for i, ok in zip(cells, known, strict=True)]
            continue
        left_out |= wrong
        cells = [item for item in cells if str(item.cell) not in wrong and str(item.source) not in wrong]
    raise ReconcilerError(
        f"nothing of {tree.submitter} can be adopted into round {ruleset.round}:\n"
        + "\n".join(f"  {cell}: {why}" for cell, why in sorted(left_out.items())),
        fix="see each cell's reason; --round chooses another round",
    )


def _rehearsed(tree: Taken, cells: list[TakenCell]) -> dict[str, str]:
    """Keep a rehearsal a rehearsal."""
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
    curve = [c for c in cells if f"{path}.".startswith(f"spec.divisions.{c.division}.{c.system}.{c.benchmark}.")]
    return exact or curve or [
        c for c in cells
        if f"{path}.".startswith((f"spec.benchmarks.{c.benchmark}.", f"spec.systems.{c.system}."))
    ]  # fmt: skip


def adopt_runs(declared: DeclaredTree, recorder: ImportRecorder) -> Adoption:
    """Records every run that is what its cell asks for; the others are named, and `plan` shows them as due."""
    taken: list[TakenRecord] = []
    left_out = dict(declared.left_out)
    for item in declared.cells:
        for problem in item.problems:
            left_out[f"{item.cell} ({problem.partition(':')[0]})"] = problem.partition(": ")[2]
        for run in item.runs:
            try:
                taken += recorder.run(item.cell, run)
            except ReconcilerError as error:
                left_out[f"{item.cell} ({run.mode} run)"] = error.message
                if run.format.TIES_ACCURACY:
                    break  # the accuracy run belongs to the performance run before it
        if item.runs:
            for name, files in item.tests.items():
                recorder.test(item.cell, name, files, item.runs[-1], item.failing.get(name, ""))
    systems = {item.cell.system for item in declared.cells}
    own = declared.tree.ruleset.round
    return Adoption(own, declared.text, len(declared.cells), len(systems), tuple(taken), left_out)
