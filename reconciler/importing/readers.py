"""All readers of external runs, and the choice of the reader for a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reconciler.importing import log_folder
from reconciler.importing.run_reader import CellReader, FoundRun, RunReader
from reconciler.resource.programs import find_program_of_results
from reconciler.rules.programs import load_program, load_programs
from reconciler.tree.reading.cell import CellFiles


def find_runs(folder: Path, user_conf: Path | None = None, wanted: str = "") -> tuple[FoundRun, ...]:
    """Return the runs of one measurement, read by the reader for their format. ``wanted``: the format of the cell's
    measurements, since one client may write files in several. Raises LogError if there is none, or nothing that may be
    imported."""
    named = _find_reader(wanted)
    reader = named if named is not None and named.is_reader_of(folder) else None
    if reader is None:
        reader = next(reader for reader in _list_readers() if reader.is_reader_of(folder))
    return reader.find_runs(folder, user_conf)


def find_cell_reader(files: CellFiles) -> CellReader:
    """Return the reader for a tree's scenario folder."""
    return next(reader for reader in _list_readers() if reader.is_reader_of_cell(files))


def _find_reader(results: str) -> RunReader | None:
    program = find_program_of_results(results)
    found: RunReader | None = load_program(program).find_run_reader(results) if program else None
    return found


def _list_readers() -> Iterator[CellReader]:
    """List the readers. The last one accepts every folder, since LoadGen's logs show no other format, and reports any
    missing file."""
    yield from (reader for program in load_programs() for reader in program.list_cell_readers())
    yield log_folder
