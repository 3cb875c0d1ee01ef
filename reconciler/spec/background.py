"""Cells that compute on further slices of GPUs while another is measured: their settings go with those of that cell, so
that everything its runs are made from is among its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from harness.catalog import BACKENDS
from reconciler.errors import Problem
from reconciler.resource.inputs import Value
from reconciler.resource.kinds import Cell
from reconciler.resource.settings import BACKGROUND, COMMAND, SLICES
from reconciler.spec.declared import DeclaredCell
from reconciler.spec.names import give_advice

_TAKEN = ("engine.", "run.", "model.", "dataset.", "benchmark.")
_COUNT = "performance_sample_count"


def expand_backgrounds(cells: Sequence[DeclaredCell]) -> tuple[list[DeclaredCell], list[Problem]]:
    """The same cells; what is wrong with a background leaves its cell without one."""
    known = {cell.cell: cell for cell in cells}
    found, problems = [], []
    for cell in cells:
        if BACKGROUND not in cell.settings:
            found.append(cell)
            continue
        wrong = list(_list_problems(cell, known))
        problems += wrong
        kept = {name: value for name, value in cell.settings.items() if name != BACKGROUND}
        found.append(replace(cell, settings=kept if wrong else _expand(cell, known)))
    return found, problems


def _expand(cell: DeclaredCell, known: dict[Cell, DeclaredCell]) -> dict[str, Value]:
    settings = dict(cell.settings)
    for number, name in enumerate(cell.settings[BACKGROUND].value):
        other = known[_find(cell.cell, name)].settings
        taken = {n: value for n, value in other.items() if n.startswith(_TAKEN) or n == _COUNT}
        settings |= {f"{BACKGROUND}.{number}.{n}": value for n, value in taken.items()}
    return dict(sorted(settings.items()))


def _find(measured: Cell, name: str) -> Cell:
    benchmark, _, scenario = name.partition("/")
    return replace(measured, benchmark=benchmark, scenario=scenario)


def _list_problems(cell: DeclaredCell, known: dict[Cell, DeclaredCell]) -> Iterator[Problem]:
    value = cell.settings[BACKGROUND]
    if SLICES not in cell.settings:
        fix = "declare `mig` in its hardware: the cell's own slices; others are taken in addition"
        yield _complain(cell, value, f"{cell.cell.system} declares no slices of GPUs of its own", fix)
        return
    if COMMAND in cell.settings:
        yield _complain(cell, value, "a command is run without a background", "start it in the command itself")
    for name in value.value:
        other = known.get(_find(cell.cell, name))
        if other is None:
            near = [f"{c.benchmark}/{c.scenario}" for c in known if c.system == cell.cell.system]
            message = f"{name} is not a cell of {cell.cell.division}/{cell.cell.system}"
            yield _complain(cell, value, message, give_advice(name, near))
        elif why := _find_unfit(other):
            fix = "name a cell whose backend computes batches here"
            yield _complain(cell, value, f"{name} cannot compute in the background: {why}", fix)


def _find_unfit(other: DeclaredCell) -> str:
    """Why it cannot be driven without LoadGen; "" where it can."""
    if COMMAND in other.settings:
        return "a command runs it"
    if "infer_from" in other.settings:
        return "it has no runs of its own"
    backend = other.settings.get("engine.backend")
    facts = BACKENDS.get(str(backend.value)) if backend is not None else None
    return "" if facts is not None and not facts.generates and not facts.elsewhere else "its backend makes no batches"


def _complain(cell: DeclaredCell, value: Value, message: str, fix: str) -> Problem:
    at = value.origin
    return Problem(at.file, at.line, at.column, f"{cell.cell}.{BACKGROUND}".replace("/", "."), message, fix)
