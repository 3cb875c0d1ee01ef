"""Every reader of runs that were made elsewhere, and which of them a folder is for."""

from __future__ import annotations

from pathlib import Path

from reconciler.importing import log_folder, point_folder, results_folder
from reconciler.importing.run_reader import FoundRun, RunReader
from reconciler.rules.results import points
from reconciler.tree.reading.cell import CellFiles

# The last one takes every folder: runs leave LoadGen's logs where nothing shows another format, and what then is
# missing, that reader says.
READERS: tuple[RunReader, ...] = (results_folder, log_folder)


def find_runs(folder: Path, user_conf: Path | None = None, wanted: str = "") -> tuple[FoundRun, ...]:
    """The runs of one measurement, by the reader of their format. ``wanted``: the one that its cell is measured by,
    which tells a point of a curve from a round's results: one client writes both. LogError where there is none, or
    nothing that may be imported."""
    if wanted == points.NAME and results_folder.is_reader_of(folder):
        return point_folder.find_runs(folder)
    reader = next(reader for reader in READERS if reader.is_reader_of(folder))
    return reader.find_runs(folder, user_conf)


def find_cell_reader(files: CellFiles) -> RunReader:
    """That of a scenario folder of a tree."""
    return next(reader for reader in READERS if reader.is_reader_of_cell(files))
