"""Edit a cell's settings, or a curve's points, in a spec's text: for trials, and for the patch that a search
proposes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from reconciler.errors import ReconcilerError, SpecError
from reconciler.resource.kinds import Cell
from reconciler.resource.programs import find_program_of_division
from reconciler.resource.settings import Trial
from reconciler.spec.declared import Reading
from reconciler.spec.edit import EditError, compose, find_deepest, set_value
from reconciler.spec.files import Source, compute_blob_id, read_sources
from reconciler.spec.loading import read_texts
from reconciler.spec.nodes import resolve


def read_for_trial(paths: Sequence[Path], root: Path, environment: Mapping[str, str], trial: Trial) -> Reading:
    """Read the specs with a trial's settings. Raises ReconcilerError if they cannot be set."""
    sources, problems = read_sources(paths, root)
    if trial.cell is not None and not problems:
        sources = edit_cell(sources, trial.cell, trial.settings)
    reading = read_texts(sources, root, environment, problems)
    if reading.declared is None:
        return reading
    declared = replace(reading.declared, trial=trial.length, quick=trial.quick or reading.declared.quick)
    return replace(reading, declared=declared)


def edit_cell(sources: Sequence[Source], cell: Cell, settings: Sequence[tuple[str, str]]) -> list[Source]:
    """Return the sources, with ``settings`` added to the one that declares ``cell``."""
    if find_program_of_division(cell.division):
        fix = "write it below `points` of the curve in the spec, measure, and `reconcile compare` the two commits"
        raise ReconcilerError(f"{cell} is a point of a curve; trials need a cell with its own settings", fix=fix)
    for index, source in enumerate(sources):
        if has_path(source, get_path(cell)):
            text = source.text
            for name, value in settings:
                text = _set_setting(text, source.name, cell, name, value)
            return [*sources[:index], edit_source(source, text), *sources[index + 1 :]]
    raise ReconcilerError(f"no file declares {cell} separately", fix="add the cell to spec.divisions in one file")


def edit_source(source: Source, text: str) -> Source:
    """Return the source with its text replaced."""
    return replace(source, text=text, blob=compute_blob_id(text.encode()))


def render_patch(before: Sequence[Source], after: Sequence[Source]) -> str:
    """Return a patch for ``git apply`` or ``patch -p1``; "" if nothing differs."""
    lines: list[str] = []
    for old, new in zip(before, after, strict=True):
        names = f"a/{old.name}", f"b/{new.name}"
        rows = difflib.unified_diff(old.text.splitlines(keepends=True), new.text.splitlines(keepends=True), *names)
        for row in rows:
            lines.append(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n")
    return "".join(lines)


def get_path(cell: Cell) -> tuple[str, ...]:
    """Return the path at which a spec declares a cell."""
    return "spec", "divisions", cell.division, cell.system, cell.benchmark, cell.scenario


def has_path(source: Source, path: Sequence[str]) -> bool:
    """Return True if a file has anything at a path."""
    try:
        _, depth = find_deepest(compose(source.text), path)
    except EditError:
        return False
    return depth == len(path)


def _set_setting(text: str, file: str, cell: Cell, name: str, value: str) -> str:
    number = resolve(value)  # as YAML does, so that a number is not quoted
    try:
        return set_value(text, (*get_path(cell), *name.split(".")), value if number is None else number)
    except (EditError, SpecError) as error:
        fix = "add settings for this cell to the spec, then try again"
        raise ReconcilerError(f"{file}: {name} of {cell} cannot be changed: {error}", fix=fix) from error
