"""Criteo's day 23 as left on disk by the reference's preparation, rearranged by pairs, so that a sample is contiguous.

The first half of the day is evaluated; calibration takes the first 128,000 rows of the second half, as in calibration/
CriteoTerabyte of mlcommons/inference.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from harness.benchmarks import LoopBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.dlrm_v2.pairs import DENSE, MULTI_HOT, ONE_CALL, OUTPUTS, RESPONSE_DTYPE, TABLE_ROWS, loop
from harness.benchmarks.mapped_arrays import NPY, map_npy
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    choose_dtype,
    is_there,
    read_json,
)
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.qsl import Consecutive, Ragged

DENSE_FILE, LABELS_FILE, SPARSE_FILE = "day_23_dense.npy", "day_23_labels.npy", "day_23_sparse_multi_hot.npz"
ROWS = 178_274_637  # of the day
CALIBRATED = 128_000  # rows
DTYPES = ("float32", "float16")
_AT_ONCE = 1 << 12  # rows that a thread copies: 4 MB, still in cache after they were checked
ZIP = b"PK\x03\x04"
_LOCAL_HEADER = 30  # bytes of a zip member's own header, before its name
_FIX = "download it again, as described by `reconcile fetch dlrm-v2-99`; nothing was prepared"


class Rows(Protocol):
    """Rows on disk, such as an array that is mapped."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


class Day(NamedTuple):
    """Rows on disk: dense [rows, 13], labels [rows], and of each categorical feature [rows, values].

    ``values``: how many a pair has of each; ``tables``: how many rows the table of each has; ``files``: where labels,
    dense features and each categorical one are, for messages.
    """

    dense: Rows
    labels: Rows
    sparse: Sequence[Rows]
    values: Sequence[int]
    tables: Sequence[int]
    files: Sequence[str]


def prepare_day(
    day: Day, settings: Mapping[str, Any], output: Path, counter: Counter, *, threads: int, whole: bool
) -> None:
    """dense.npy [pairs, 13], sparse.npy int32 [pairs, values], labels.npy float32 [pairs] and bounds.npy, where samples
    begin; calibration_dense.npy and calibration_sparse.npy. ``whole``: it is the published day, of as many rows."""
    dtype = choose_dtype(settings, DTYPES)
    rows = len(day.labels)
    if rows != ROWS and whole:
        raise HarnessError(f"{day.files[0]} has {rows:,} rows, day 23 has {ROWS:,}", "input", _FIX)
    evaluated = count_evaluated(rows)
    bounds = group_pairs(evaluated)
    bounds = bounds[: choose_count(settings, len(bounds) - 1) + 1]
    calibrated = min(CALIBRATED, rows - evaluated)
    counter.stage("building", int(bounds[-1]) + calibrated)
    try:
        np.save(output / "labels.npy", _take_labels(day, int(bounds[-1])))
        np.save(output / "bounds.npy", bounds)
        for prefix, first, count in (("", 0, int(bounds[-1])), ("calibration_", evaluated, calibrated)):
            taken = [
                npy.open_memmap(output / f"{prefix}{name}.npy", "w+", np.dtype(kind), (count, width))
                for name, kind, width in (("dense", dtype, DENSE), ("sparse", "int32", sum(day.values)))
            ]
            _copy(day, first, taken, threads, counter)
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
    check_files(source, [*rules, FileRule(SPARSE_FILE, kind="npz file", start=ZIP)], fix=_FIX)
    labels = map_npy(source / LABELS_FILE, ["int32"], 1, _FIX)
    dense = map_npy(source / DENSE_FILE, ["float32"], DENSE, _FIX)
    sparse = list(_map_members(source / SPARSE_FILE))
    for number, array in enumerate((dense, *sparse)):
        name = f"{SPARSE_FILE}/{number - 1}.npy" if number else DENSE_FILE
        if len(array) != len(labels):
            problem = f"{source / name} has {len(array):,} rows, {LABELS_FILE} has {len(labels):,}"
            raise HarnessError(problem, "input", _FIX)
    names = (LABELS_FILE, DENSE_FILE, *(f"{SPARSE_FILE}/{number}.npy" for number in range(len(sparse))))
    files = [str(source / name) for name in names]
    return Day(dense, labels.reshape(-1), sparse, MULTI_HOT, read_table_rows(source, TABLE_ROWS), files)


def _map_members(path: Path) -> Iterator[np.ndarray]:
    """Map the arrays of an npz, which stores them uncompressed, without unpacking it."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise HarnessError(f"{path} is truncated, or no npz file: {error}", "input", _FIX) from error
    with archive:
        members = {item.filename: item for item in archive.infolist()}
    for number, width in enumerate(MULTI_HOT):
        item = members.get(f"{number}.npy")
        if item is None:
            raise HarnessError(f"{path} has no {number}.npy; it has {', '.join(members)}", "input", _FIX)
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
        check_labels(part, start, day.files[0])
        taken[start : start + len(part)] = part
    return taken


def _copy(day: Day, first: int, taken: Sequence[np.memmap], threads: int, counter: Counter) -> None:
    """Copy rows to new files, a chunk at a time on each thread: both copying and checking release the interpreter lock.
    Raises HarnessError for the first invalid value. ``taken``: dense and sparse features."""
    dense, sparse = taken
    places = np.cumsum((0, *day.values)).tolist()

    def copy(start: int) -> None:
        end = min(start + _AT_ONCE, len(dense))
        rows = slice(first + start, first + end)
        with np.errstate(over="ignore"):  # a value that is too large becomes infinite, and is rejected
            dense[start:end] = day.dense[rows]
        check_dense(day.dense[rows], dense[start:end], rows.start, day.files[1])
        for table, (array, left, right) in enumerate(zip(day.sparse, places, places[1:], strict=False)):
            check_sparse(array[rows], day.tables[table], rows.start, day.files[2 + table], table)
            sparse[start:end, left:right] = array[rows]
        counter.bump(end - start)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(copy, range(0, len(dense), _AT_ONCE)))
    for array in taken:
        array.flush()


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
_ROW_FIX = "download it again, as described by `reconcile fetch dlrm-v2-99`, or fix the row; nothing was prepared"


def read_table_rows(source: Path, reference: Sequence[int]) -> Sequence[int]:
    """Read the rows of each table: the reference's, or those in ``table_rows.json`` next to the day, where they were
    cut."""
    path = source / TABLES
    if not is_there(path):
        return reference
    fix = f"list the rows of the {len(reference)} tables, or remove it where they are the reference's"
    rows = read_json(path, fix)
    counts: list[int] = rows if isinstance(rows, list) else []
    whole = len(counts) == len(reference)
    if not whole or not all(type(count) is int and 0 < count < 1 << 31 for count in counts):
        raise HarnessError(f"{path} does not list the rows of {len(reference)} tables", "input", fix)
    return counts


def check_labels(labels: np.ndarray, first: int, path: str) -> None:
    """``first``: the row of the day at which they begin."""
    if _as_unsigned(labels).max(initial=0) > 1:
        row = int(np.flatnonzero((labels != 0) & (labels != 1))[0])
        raise HarnessError(f"{path}: row {first + row:,} has the label {labels[row]}, not 0 or 1", "input", _ROW_FIX)


def check_dense(given: np.ndarray, taken: np.ndarray, first: int, path: str) -> None:
    """``given``: on disk; ``taken``: the same in the type of the samples."""
    if not np.isfinite(taken).all():
        row, column = np.argwhere(~np.isfinite(taken))[0].tolist()
        value = f"{given[row, column]} as dense feature {column}"
        raise HarnessError(
            f"{path}: row {first + row:,} has {value}, not a finite {taken.dtype.name}", "input", _ROW_FIX
        )


def check_sparse(values: np.ndarray, rows: int, first: int, path: str, table: int) -> None:
    """``rows``: of the table, which is also the number of the array in the file."""
    if _as_unsigned(values).max(initial=0) >= rows:  # a value below 0 is a large one here
        row, column = np.argwhere((values < 0) | (values >= rows))[0].tolist()
        problem = f"{path}: row {first + row:,} has the value {values[row, column]:,}"
        raise HarnessError(f"{problem}, and table {table} has rows 0 to {rows - 1:,}", "input", _ROW_FIX)


def _as_unsigned(values: np.ndarray) -> np.ndarray:
    return values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))


# What an accuracy log says of the samples.

_AGAIN = "run accuracy again"


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return auc and accuracy in percent, over the pairs of the answered samples: good of total."""
    labels = load_labels(dataset)
    found = [_read(data, labels[int(index)]) for index, data in zip(log.indices, log.data, strict=True)]
    pairs = np.concatenate(found)
    auc = compute_auc(pairs[:, 0], pairs[:, 1])
    good, total = int((pairs[:, 0].round() == pairs[:, 1]).sum()), len(pairs)
    metrics = {"auc": 100.0 * auc, "accuracy": 100.0 * (good / total), "good": good, "total": total}
    text = "AUC={auc:.3f}%, accuracy={accuracy:.3f}%, good={good}, total={total}, queries={queries}\n"
    (output / "accuracy.txt").write_text(text.format(**metrics, queries=len(found)), encoding="ascii")
    return metrics


def _read(data: bytes, labels: np.ndarray) -> np.ndarray:
    """[pairs, 2]. The official script takes the labels of the log, so that they must be those of the dataset."""
    if len(data) != 8 * len(labels):
        problem = f"a response holds {len(data)} bytes, a sample of {len(labels)} pairs makes {8 * len(labels)}"
        raise HarnessError(problem, "input", _AGAIN)
    pairs = np.frombuffer(data, np.float32).reshape(-1, 2)
    if not np.array_equal(pairs[:, 1], labels):
        raise HarnessError("a response does not carry the labels of its sample", "input", _AGAIN)
    if not np.isfinite(pairs[:, 0]).all():
        raise HarnessError("a response holds a prediction that is not a number", "input", _AGAIN)
    return pairs


def compute_auc(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Compute how often a clicked pair is predicted higher than one not clicked; equal predictions count half."""
    order = np.argsort(predictions, kind="stable")
    clicked = labels[order] == 1
    last = np.append(np.flatnonzero(np.diff(predictions[order])), len(order) - 1)  # of each run of equals
    positive = np.diff(np.cumsum(clicked)[last], prepend=0)
    negative = np.diff(np.cumsum(~clicked)[last], prepend=0)
    everything = int(positive.sum()) * int(negative.sum())
    if not everything:
        raise HarnessError("the labels are all alike: no area under a curve", "input", "score more samples")
    below = np.cumsum(negative) - negative
    return (int((positive * below).sum()) + int((positive * negative).sum()) / 2) / everything


class CriteoBenchmark(LoopBenchmark):
    """The parts that all versions of DLRM share: samples of several pairs, their answers and the score."""

    outputs = OUTPUTS
    response_dtype = RESPONSE_DTYPE
    one_call = ONE_CALL
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    loop = staticmethod(loop)
    score = staticmethod(score)
