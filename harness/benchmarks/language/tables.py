"""Rows with named columns, in the formats in which language benchmarks are published: JSON, Parquet, pickled frames."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from harness.benchmarks.plain_pickles import PlainUnpickler, refuse_repeated
from harness.benchmarks.sources import read_json
from harness.contract import show_install
from harness.errors import HarnessError

Columns = dict[str, list[Any]]
_MOST = 2 << 30  # bytes of a table in memory; the largest published one has some hundred million
_BATCH = 1024  # rows that are unpacked before they are counted


def read_table(
    path: Path, columns: Sequence[str], fix: str, *, also: Mapping[str, str] = MappingProxyType({})
) -> Columns:
    """Read columns by name, each with a value for every row. ``also``: other names of some of them. Raises HarnessError
    naming the file and what is missing."""
    readers = {".json": _read_json, ".jsonl": _read_lines, ".parquet": _read_parquet}
    readers |= {".pkl": read_frame, ".pickle": read_frame}
    if path.suffix not in readers:
        problem = f"{path} is not one of {', '.join(readers)}"
        raise HarnessError(problem, "input", fix)
    found = readers[path.suffix](path, fix)
    found |= {name: found[other] for name, other in also.items() if other in found}
    if missing := [name for name in columns if name not in found]:
        there = ", ".join(found) or "none"
        raise HarnessError(f"{path} has no column {missing[0]}; its columns are {there}", "input", fix)
    return {name: found[name] for name in columns}


def _read_json(path: Path, fix: str) -> Columns:
    """Read a list of rows, or pandas's default format: columns by name, with values by row."""
    document = read_json(path, fix)
    if isinstance(document, list):
        return _list_columns(document, path, fix)
    if isinstance(document, dict) and all(isinstance(column, dict) for column in document.values()):
        return {name: list(column.values()) for name, column in document.items()}
    raise HarnessError(f"{path} has no rows", "input", fix)


def _read_lines(path: Path, fix: str) -> Columns:
    try:
        return _list_columns([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()], path, fix)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{path} is truncated or not lines of JSON: {error}", "input", fix) from error


def _list_columns(rows: Sequence[Any], path: Path, fix: str) -> Columns:
    """Return the columns of rows, all of which have the names of the first."""
    names = list(rows[0]) if rows and isinstance(rows[0], Mapping) else []
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or any(name not in row for name in names):
            raise HarnessError(f"{path}: row {number} has other columns than the first row", "input", fix)
    return {name: [row[name] for row in rows] for name in names}


def _read_parquet(path: Path, fix: str) -> Columns:
    try:
        from pyarrow import ArrowException, Table, parquet
    except ImportError as error:
        raise HarnessError(f"reading {path.name} needs pyarrow", "missing", show_install("parquet")) from error
    try:
        with parquet.ParquetFile(path) as file:
            _check_size(path, sum(file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups)), fix)
            batches, size = [], 0
            for batch in file.iter_batches(_BATCH):  # a file stores repeated values only once
                size += batch.nbytes
                _check_size(path, size, fix)
                batches.append(batch)
            found: Columns = Table.from_batches(batches, file.schema_arrow).to_pydict()
        return found
    except OSError as error:
        problem = f"{path}: {error.strerror}" if error.strerror else f"{path} is truncated: {error}"
        raise HarnessError(problem, "missing" if error.strerror else "input", fix) from error
    except (ArrowException, ValueError) as error:  # ValueError for invalid text
        raise HarnessError(f"{path} is truncated or not Parquet: {error}", "input", fix) from error


def _check_size(path: Path, size: int, fix: str) -> None:
    if size > _MOST:
        raise HarnessError(f"{path} unpacks to {size:,} bytes or more, too many for its rows", "input", fix)


_PROTOCOL = 2


def write_frame(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a frame. All columns are of type object, as those of texts and lists are."""
    count = len(next(iter(columns.values())))
    values = np.empty((len(columns), count), object)
    for row, column in enumerate(columns.values()):
        for place, value in enumerate(column):
            values[row, place] = value
    names = np.array(list(columns), object)
    whole = _dump(slice(0, len(columns), 1))
    block = _write_call("pandas._libs.internals", "_unpickle_block", _dump(values), whole, _dump(2))
    top = _write_index("pandas.core.indexes.base", "Index", {"data": names, "name": None})
    rows = {"name": None, "start": 0, "stop": count, "step": 1}
    axes = _write_list(top, _write_index("pandas.core.indexes.range", "RangeIndex", rows))
    manager = _write_call("pandas.core.internals.managers", "BlockManager", _write_tuple(block), axes)
    facts = {"_typ": "dataframe", "_metadata": [], "attrs": {}, "_flags": {"allows_duplicate_labels": True}}
    state = b"}(" + _dump("_mgr") + manager + b"".join(_dump(key) + _dump(value) for key, value in facts.items()) + b"u"
    path.write_bytes(b"\x80\x02" + _write_name("pandas.core.frame", "DataFrame") + b")\x81" + state + b"b.")


def _dump(value: Any) -> bytes:
    """Pickle a value as part of a larger pickle, without the protocol header and the final stop."""
    return pickle.dumps(value, protocol=_PROTOCOL)[2:-1]


def _write_name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode("ascii")


def _write_tuple(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def _write_list(*parts: bytes) -> bytes:
    return b"](" + b"".join(parts) + b"e"


def _write_call(module: str, name: str, *arguments: bytes) -> bytes:
    return _write_name(module, name) + _write_tuple(*arguments) + b"R"


def _write_index(module: str, name: str, facts: Mapping[str, Any]) -> bytes:
    return _write_call("pandas.core.indexes.base", "_new_Index", _write_name(module, name), _dump(dict(facts)))


# This reader knows the few names that a frame consists of, replaces each pandas class by a placeholder, and rejects a
# file with any other name before it has any effect.


class _Block(NamedTuple):
    """Columns of one type. ``values``: [columns, rows]; ``placement``: numbers of these columns."""

    values: Any
    placement: Any
    dimensions: int = 2


class _Shell:
    """Placeholder for a pandas class; it only stores an object's pickled state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Frame(_Shell):
    pass


class _Manager(_Shell):
    pass


class _Index(NamedTuple):
    """Names of columns, or of rows. ``facts``: data, or start, stop and step."""

    kind: Any
    facts: Mapping[str, Any]


class _IndexKind:
    """A kind of index; all kinds are read alike."""


_KNOWN: dict[tuple[str, str], Any] = {
    ("pandas.core.frame", "DataFrame"): _Frame,
    ("pandas.core.internals.managers", "BlockManager"): _Manager,
    ("pandas._libs.internals", "_unpickle_block"): _Block,
    ("pandas.core.indexes.base", "_new_Index"): _Index,
    ("builtins", "slice"): slice,
    ("__builtin__", "slice"): slice,
}
_INDEXES = "pandas.core.indexes."


class _Reader(PlainUnpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_INDEXES) and name.endswith("Index") and name != "_new_Index":
            return _IndexKind
        return super().find_class(module, name)


def read_frame(path: Path, fix: str) -> dict[str, list[Any]]:
    """Return column → its values, in row order. Raises HarnessError if this is not such a frame."""
    try:
        data = path.read_bytes()
        frame = _Reader(io.BytesIO(data), "a frame of pandas", _KNOWN).load()
        return _collect_columns(frame, len(data))
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}", "missing", fix) from error
    except (EOFError, pickle.UnpicklingError) as error:
        cut = isinstance(error, EOFError) or "truncated" in str(error)
        problem = "is truncated" if cut else f"is not opened: {error}"
        raise HarnessError(f"{path} {problem}", "input", fix) from error
    except Exception as error:  # a pickle may contain anything in any order
        raise HarnessError(f"{path} contains no pandas data frame: {error}", "input", fix) from error


def _collect_columns(frame: Any, size: int) -> dict[str, list[Any]]:
    if not isinstance(frame, _Frame):
        raise ValueError(f"it contains {type(frame).__name__.strip('_').lower()}")
    state = frame.state
    manager = state.get("_mgr", state.get("_data")) if isinstance(state, dict) else state
    axes, blocks = _open_manager(manager)
    refuse_repeated([axes[0].facts, *([block.values, block.placement] for block in blocks)], size)
    names = [str(name) for name in _list_index(axes[0], size)]
    columns: dict[str, list[Any]] = {}
    for block in blocks:
        values = np.asarray(block.values)
        placed = np.arange(len(names))[block.placement]
        for row, column in enumerate(np.atleast_1d(placed).tolist()):
            columns[names[column]] = values[row].tolist() if values.ndim == 2 else values.tolist()
    return {name: columns[name] for name in names}


def _open_manager(manager: Any) -> tuple[Any, list[_Block]]:
    """Open a manager of any pandas version; the format changed in 1.3."""
    if not isinstance(manager, _Manager):
        raise ValueError("its columns are of a kind that is not supported")
    if manager.state is not None:
        older = manager.state[-1]["0.14.1"]
        return older["axes"], [_Block(block["values"], block["mgr_locs"]) for block in older["blocks"]]
    blocks, axes = manager.arguments
    return axes, list(blocks)


def _list_index(index: Any, size: int) -> list[Any]:
    facts = index.facts
    if "data" in facts:
        return list(np.asarray(facts["data"]).tolist())
    numbers = range(facts["start"], facts["stop"], facts["step"])
    if numbers[size : size + 1]:
        raise ValueError("its index has more rows than it has bytes")
    return list(numbers)
