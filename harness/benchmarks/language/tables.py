"""Rows with named columns, in the formats in which language benchmarks are published: JSON, Parquet, pickled frames."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.benchmarks.language.frames import read_frame
from harness.benchmarks.sources import read_json
from harness.contract import installing
from harness.errors import HarnessError

Columns = dict[str, list[Any]]
_MOST = 2 << 30  # bytes of a table in memory; the largest that is published has some hundred million
_BATCH = 1024  # rows that are unpacked before they are counted


def read_table(
    path: Path, columns: Sequence[str], fix: str, *, also: Mapping[str, str] = MappingProxyType({})
) -> Columns:
    """Read the named columns, each with a value for each row. ``also``: other names that some of them have had. Raises
    HarnessError naming the file and what is missing."""
    readers = {".json": _read_json, ".jsonl": _read_lines, ".parquet": _read_parquet}
    readers |= {".pkl": read_frame, ".pickle": read_frame}
    if path.suffix not in readers:
        problem = f"{path} is none of {', '.join(readers)}"
        raise HarnessError(problem, "input", fix)
    found = readers[path.suffix](path, fix)
    found |= {name: found[other] for name, other in also.items() if other in found}
    if missing := [name for name in columns if name not in found]:
        there = ", ".join(found) or "none"
        raise HarnessError(f"{path} has no column {missing[0]}; its columns are {there}", "input", fix)
    return {name: found[name] for name in columns}


def _read_json(path: Path, fix: str) -> Columns:
    """A list of rows, or what pandas writes by default: a column by name, each of values by row."""
    document = read_json(path, fix)
    if isinstance(document, list):
        return _turn(document, path, fix)
    if isinstance(document, dict) and all(isinstance(column, dict) for column in document.values()):
        return {name: list(column.values()) for name, column in document.items()}
    raise HarnessError(f"{path} holds no rows", "input", fix)


def _read_lines(path: Path, fix: str) -> Columns:
    try:
        return _turn([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()], path, fix)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path} is cut off or not lines of JSON: {error}", "input", fix) from error


def _turn(rows: Sequence[Any], path: Path, fix: str) -> Columns:
    """Columns of rows that all have the same names as the first."""
    names = list(rows[0]) if rows and isinstance(rows[0], Mapping) else []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or any(name not in row for name in names):
            raise HarnessError(f"{path}: row {number} has not the columns of the first", "input", fix)
    return {name: [row[name] for row in rows] for name in names}


def _read_parquet(path: Path, fix: str) -> Columns:
    try:
        from pyarrow import ArrowException, Table, parquet
    except ImportError as error:
        raise HarnessError(f"reading {path.name} needs pyarrow", "missing", installing("parquet")) from error
    try:
        with parquet.ParquetFile(path) as file:
            _check_size(path, sum(file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)), fix)
            batches, size = [], 0
            for batch in file.iter_batches(_BATCH):  # what a column repeats is stored once, and claims to be small
                size += batch.nbytes
                _check_size(path, size, fix)
                batches.append(batch)
            found: Columns = Table.from_batches(batches, file.schema_arrow).to_pydict()
        return found
    except OSError as error:
        problem = f"{path}: {error.strerror}" if error.strerror else f"{path} is cut off: {error}"
        raise HarnessError(problem, "missing" if error.strerror else "input", fix) from error
    except (ArrowException, ValueError) as error:  # the second for text that is none
        raise HarnessError(f"{path} is cut off or not Parquet: {error}", "input", fix) from error


def _check_size(path: Path, size: int, fix: str) -> None:
    if size > _MOST:
        raise HarnessError(f"{path} unpacks to {size:,} bytes or more, too many for its rows", "input", fix)
