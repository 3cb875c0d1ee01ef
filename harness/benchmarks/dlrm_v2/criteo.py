"""Criteo's day 23 as left on disk by the reference's preparation, rearranged by pairs, so that a sample is contiguous.

The first half of the day is evaluated; calibration takes the first 128,000 rows of the second half, as in calibration/
CriteoTerabyte of mlcommons/inference.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from harness.benchmarks.dlrm_v2.pairs import DENSE, MULTI_HOT, SPARSE, TABLE_ROWS
from harness.benchmarks.mapped_arrays import NPY, map_npy
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    choose_dtype,
    is_rehearsal,
    is_there,
    read_json,
    require_source,
)
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Consecutive, Ragged

DENSE_FILE, LABELS_FILE, SPARSE_FILE = "day_23_dense.npy", "day_23_labels.npy", "day_23_sparse_multi_hot.npz"
ROWS = 178_274_637  # of the day
CALIBRATED = 128_000  # rows
DTYPES = ("float32", "float16")
_AT_ONCE = 1 << 12  # rows that a thread copies: 4 MB, still in cache after they were checked
_ZIP = b"PK\x03\x04"
_LOCAL_HEADER = 30  # bytes of a zip member's own header, before its name
_FIX = "bring it again, as `reconcile fetch dlrm-v2-99` says; nothing was prepared"


class Day(NamedTuple):
    """Memory-mapped arrays: dense [rows, 13], labels [rows], and for each categorical feature [rows, values].
    ``tables``: number of rows in each feature's table."""

    folder: Path
    dense: np.ndarray
    labels: np.ndarray
    sparse: Sequence[np.ndarray]
    tables: Sequence[int]


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    """Write dense.npy [pairs, 13], sparse.npy int32 [pairs, 214], labels.npy float32 [pairs] and bounds.npy, the start
    of each sample; also calibration_dense.npy and calibration_sparse.npy.

    ``settings``: dtype ("float32" or "float16") of the dense features, count (number of samples, from the first),
    threads.
    """
    dtype = choose_dtype(settings, DTYPES)
    source = require_source(source, "day 23 of Criteo 1 TB")
    day = read_day(source)
    rows = len(day.labels)
    if rows != ROWS and not is_rehearsal(source):
        raise HarnessError(f"{source / LABELS_FILE} has {rows:,} rows, day 23 has {ROWS:,}", "input", _FIX)
    evaluated = count_evaluated(rows)
    bounds = group_pairs(evaluated)
    bounds = bounds[: choose_count(settings, len(bounds) - 1) + 1]
    calibrated = min(CALIBRATED, rows - evaluated)
    counter.stage("building", int(bounds[-1]) + calibrated)
    threads = int(settings.get("threads", 0)) or len(os.sched_getaffinity(0))
    try:
        np.save(output / "labels.npy", _take_labels(day, int(bounds[-1])))
        np.save(output / "bounds.npy", bounds)
        _copy(day, 0, int(bounds[-1]), dtype, output, "", threads, counter)
        _copy(day, evaluated, calibrated, dtype, output, "calibration_", threads, counter)
    except HarnessError:
        for path in output.glob("*.npy"):
            path.unlink()
        raise


def load_samples(dataset: Path) -> Mapping[str, Any]:
    """Load the samples with their labels, which are copied into the answers."""
    bounds = np.load(dataset / "bounds.npy")
    arrays = {name: np.load(dataset / f"{name}.npy", mmap_mode="r") for name in ("dense", "sparse", "labels")}
    return {name: Ragged(Consecutive(array, bounds)) for name, array in arrays.items()}


def load_labels(dataset: Path) -> Sequence[np.ndarray]:
    return Consecutive(np.load(dataset / "labels.npy", mmap_mode="r"), np.load(dataset / "bounds.npy"))


def load_calibration(dataset: Path) -> Mapping[str, np.ndarray]:
    paths = {name: dataset / f"calibration_{name}.npy" for name in ("dense", "sparse")}
    return {name: np.load(path, mmap_mode="r") for name, path in paths.items()}


def read_day(source: Path) -> Day:
    """Read the day. Raises HarnessError naming the file that is missing, truncated, or invalid."""
    rules = [FileRule(name, kind="npy file", start=NPY) for name in (DENSE_FILE, LABELS_FILE)]
    check_files(source, [*rules, FileRule(SPARSE_FILE, kind="npz file", start=_ZIP)], fix=_FIX)
    labels = map_npy(source / LABELS_FILE, ["int32"], 1, _FIX)
    dense = map_npy(source / DENSE_FILE, ["float32"], DENSE, _FIX)
    sparse = list(_map_members(source / SPARSE_FILE))
    for number, array in enumerate((dense, *sparse)):
        name = f"{SPARSE_FILE}/{number - 1}.npy" if number else DENSE_FILE
        if len(array) != len(labels):
            problem = f"{source / name} has {len(array):,} rows, {LABELS_FILE} has {len(labels):,}"
            raise HarnessError(problem, "input", _FIX)
    return Day(source, dense, labels.reshape(-1), sparse, read_table_rows(source))


def _map_members(path: Path) -> Iterator[np.ndarray]:
    """Map the arrays of an npz, which stores them uncompressed, without unpacking it."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise HarnessError(f"{path} is cut off, or no npz file: {error}", "input", _FIX) from error
    with archive:
        members = {item.filename: item for item in archive.infolist()}
    for number, width in enumerate(MULTI_HOT):
        item = members.get(f"{number}.npy")
        if item is None:
            raise HarnessError(f"{path} holds no {number}.npy; it has {', '.join(members)}", "input", _FIX)
        if item.compress_type != zipfile.ZIP_STORED:
            raise HarnessError(f"{path}: {number}.npy is compressed", "input", "write it with numpy.savez")
        try:
            with path.open("rb") as stream:
                stream.seek(item.header_offset + _LOCAL_HEADER - 4)
                name, extra = np.frombuffer(stream.read(4), "<u2").tolist()
        except (OSError, ValueError) as error:
            raise HarnessError(f"{path} is damaged where {number}.npy should be: {error}", "input", _FIX) from error
        begins = item.header_offset + _LOCAL_HEADER + name + extra
        yield map_npy(path, ["int32"], width, _FIX, offset=begins, name=f"/{number}.npy")


def _take_labels(day: Day, count: int) -> np.ndarray:
    taken = np.empty(count, np.float32)
    for start in range(0, count, _AT_ONCE):
        part = day.labels[start : min(start + _AT_ONCE, count)]
        check_labels(part, start, day.folder / LABELS_FILE)
        taken[start : start + len(part)] = part
    return taken


def _copy(
    day: Day, first: int, count: int, dtype: str, output: Path, prefix: str, threads: int, counter: Counter
) -> None:
    """Copy rows to new files, a chunk at a time on each thread: both copying and checking release the interpreter lock.
    Raises HarnessError for the first invalid value."""
    dense = npy.open_memmap(output / f"{prefix}dense.npy", "w+", np.dtype(dtype), (count, DENSE))
    sparse = npy.open_memmap(output / f"{prefix}sparse.npy", "w+", np.dtype("int32"), (count, SPARSE))
    places = np.cumsum((0, *MULTI_HOT)).tolist()

    def copy(start: int) -> None:
        end = min(start + _AT_ONCE, count)
        rows = slice(first + start, first + end)
        with np.errstate(over="ignore"):  # a value that is too large becomes infinite, and is rejected
            dense[start:end] = day.dense[rows]
        check_dense(day.dense[rows], dense[start:end], rows.start, day.folder / DENSE_FILE)
        for table, (array, left, right) in enumerate(zip(day.sparse, places, places[1:], strict=False)):
            check_sparse(array[rows], day.tables[table], rows.start, day.folder / SPARSE_FILE, table)
            sparse[start:end, left:right] = array[rows]
        counter.bump(end - start)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(copy, range(0, count, _AT_ONCE)))
    dense.flush()
    sparse.flush()


# Groups of user-item pairs that form samples: 100 to 700 consecutive ones, drawn as in the reference.
#
# For the published day 23 this gives dlrm_trace_of_aggregated_samples.txt byte for byte: 330,067 samples.

SEED = 123
# tools/dist_quantile.txt of recommendation/dlrm_v2 in mlcommons/inference: each twentieth of all samples.
SIZES = (100, 100, *[200] * 12, 300, 300, 400, 500, 600, 700)
_DRAWN = 1 << 16


def count_evaluated(rows: int) -> int:
    """Return the number of rows in the first half, which is evaluated; calibration uses the second half."""
    return rows // 2 + rows % 2


def group_pairs(pairs: int) -> NDArray[np.int64]:
    """Find the starts of samples, and the end of the last one, which takes the remaining pairs."""
    random = np.random.RandomState(SEED)
    sizes = np.array(SIZES)
    ends: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    while ends[-1][-1] < pairs:
        drawn = sizes[random.randint(0, len(sizes), _DRAWN)]
        ends.append(ends[-1][-1] + np.cumsum(drawn))
    bounds = np.concatenate(ends)
    last = int(np.searchsorted(bounds, pairs))
    return np.append(bounds[:last], pairs)


# Checks of day 23's values: labels are 0 or 1, dense features finite, and each multi-hot value a row of its table.
#
# A part is checked when it is copied, so that no byte is read twice; rows that are not copied are not checked.

TABLES = "table_rows.json"
_ROW_FIX = "bring it again, as `reconcile fetch dlrm-v2-99` says, or correct the row; nothing was prepared"


def read_table_rows(source: Path) -> Sequence[int]:
    """Read the number of rows of each table: the reference's, or those in ``table_rows.json`` next to a day with
    smaller tables."""
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
    """Check the labels. ``first``: the first label's row in the day."""
    if _as_unsigned(labels).max(initial=0) > 1:
        row = int(np.flatnonzero((labels != 0) & (labels != 1))[0])
        raise HarnessError(f"{path}: row {first + row:,} has the label {labels[row]}, not 0 or 1", "input", _ROW_FIX)


def check_dense(given: np.ndarray, taken: np.ndarray, first: int, path: Path) -> None:
    """Check dense features. ``given``: as on disk; ``taken``: the same in the samples' type."""
    if not np.isfinite(taken).all():
        row, column = np.argwhere(~np.isfinite(taken))[0].tolist()
        value = f"{given[row, column]} as dense feature {column}"
        raise HarnessError(f"{path}: row {first + row:,} has {value}, no finite {taken.dtype.name}", "input", _ROW_FIX)


def check_sparse(values: np.ndarray, rows: int, first: int, path: Path, table: int) -> None:
    """Check a feature's values. ``rows``: number of rows of its table, which also numbers the array in the file."""
    if _as_unsigned(values).max(initial=0) >= rows:  # as unsigned, a negative value is large
        row, column = np.argwhere((values < 0) | (values >= rows))[0].tolist()
        problem = f"{path}/{table}.npy: row {first + row:,} has the value {values[row, column]:,}"
        raise HarnessError(f"{problem}, and table {table} has rows 0 to {rows - 1:,}", "input", _ROW_FIX)


def _as_unsigned(values: np.ndarray) -> np.ndarray:
    return values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
