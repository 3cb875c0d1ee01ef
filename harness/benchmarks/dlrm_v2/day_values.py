"""Possible values of day 23: labels 0 or 1, dense features finite, and each multi-hot value a row of its table.

A part is looked at as it is copied, so that no byte is read twice; rows that are not copied are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.benchmarks.checking import is_there
from harness.benchmarks.dlrm_v2.pairs import TABLE_ROWS
from harness.benchmarks.sources import read_json
from harness.errors import HarnessError

TABLES = "table_rows.json"
_FIX = "bring it again, as `reconcile fetch dlrm-v2-99` says, or correct the row; nothing was prepared"


def read_table_rows(source: Path) -> Sequence[int]:
    """Read the rows of each table: the reference's, or those in ``table_rows.json`` next to the day, where they were
    cut."""
    path = source / TABLES
    if not is_there(path):
        return TABLE_ROWS
    fix = f"list the rows of the {len(TABLE_ROWS)} tables, or remove it where they are the reference's"
    rows = read_json(path, fix)
    counts: list[int] = rows if isinstance(rows, list) else []
    whole = len(counts) == len(TABLE_ROWS)
    if not whole or not all(type(count) is int and 0 < count < 1 << 31 for count in counts):
        raise HarnessError(f"{path} does not list the rows of {len(TABLE_ROWS)} tables", "input", fix)
    return counts


def check_labels(labels: np.ndarray, first: int, path: Path) -> None:
    """``first``: the row of the day at which they begin."""
    if _as_unsigned(labels).max(initial=0) > 1:
        row = int(np.flatnonzero((labels != 0) & (labels != 1))[0])
        raise HarnessError(f"{path}: row {first + row:,} has the label {labels[row]}, not 0 or 1", "input", _FIX)


def check_dense(given: np.ndarray, taken: np.ndarray, first: int, path: Path) -> None:
    """``given``: on disk; ``taken``: the same in the type of the samples."""
    if not np.isfinite(taken).all():
        row, column = np.argwhere(~np.isfinite(taken))[0].tolist()
        value = f"{given[row, column]} as dense feature {column}"
        raise HarnessError(f"{path}: row {first + row:,} has {value}, no finite {taken.dtype.name}", "input", _FIX)


def check_sparse(values: np.ndarray, rows: int, first: int, path: Path, table: int) -> None:
    """``rows``: of the table, which is also the number of the array in the file."""
    if _as_unsigned(values).max(initial=0) >= rows:  # a value below 0 is a large one here
        row, column = np.argwhere((values < 0) | (values >= rows))[0].tolist()
        problem = f"{path}/{table}.npy: row {first + row:,} has the value {values[row, column]:,}"
        raise HarnessError(f"{problem}, and table {table} has rows 0 to {rows - 1:,}", "input", _FIX)


def _as_unsigned(values: np.ndarray) -> np.ndarray:
    return values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
