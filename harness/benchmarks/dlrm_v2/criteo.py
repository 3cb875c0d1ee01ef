"""Prepare day 23 of Criteo from the files of the reference's preparation: arrange it by pairs, so that a sample is
contiguous.

The first half of the day is evaluated; calibration uses the first 128,000 rows of the second half, as in
calibration/CriteoTerabyte of mlcommons/inference.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from harness.backends import Outputs
from harness.benchmarks import LoopBenchmark
from harness.benchmarks.accuracy import AnswerLog
from harness.benchmarks.dlrm_v2.layers import DENSE, MULTI_HOT, OUTPUT, TABLE_ROWS
from harness.benchmarks.mapped_arrays import NPY, map_npy
from harness.benchmarks.sources import (
    FileRule,
    check_files,
    choose_count,
    choose_dtype,
    find_stored,
    is_there,
    read_json,
)
from harness.contract import Counter
from harness.errors import HarnessError
from harness.run.one_call import OneCall
from harness.run.qsl import Arrays, Consecutive, Ragged

DENSE_FILE, LABELS_FILE, SPARSE_FILE = "day_23_dense.npy", "day_23_labels.npy", "day_23_sparse_multi_hot.npz"
ROWS = 178_274_637  # rows of the day
CALIBRATED = 128_000  # rows
_AT_ONCE = 1 << 12  # rows per copy of a thread: 4 MB stay in the cache after the check
ZIP = b"PK\x03\x04"
_FIX = "download it again, as described by `reconcile fetch dlrm-v2-99`; nothing was prepared"


class Rows(Protocol):
    """Rows on disk, such as a memory-mapped array."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> np.ndarray: ...


class Day(NamedTuple):
    """A day on disk: dense [rows, 13], labels [rows], and one array [rows, values] per categorical feature.

    ``values``: values per pair of each feature; ``tables``: rows in each feature's table; ``files``: paths of the
    labels, the dense features and each categorical feature, for messages.
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
    """Write dense.npy [pairs, 13], sparse.npy int32 [pairs, values], labels.npy float32 [pairs], bounds.npy (the starts
    of samples), calibration_dense.npy and calibration_sparse.npy. ``whole``: require as many rows as the published day
    has."""
    dtype = choose_dtype(settings)
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
    """Load the samples and their labels, which are copied into the answers."""
    bounds = np.load(dataset / "bounds.npy")
    arrays = {name: np.load(dataset / f"{name}.npy", mmap_mode="r") for name in ("dense", "sparse", "labels")}
    return {name: Ragged(Consecutive(array, bounds)) for name, array in arrays.items()}


def load_labels(dataset: Path) -> Sequence[np.ndarray]:
    return Consecutive(np.load(dataset / "labels.npy", mmap_mode="r"), np.load(dataset / "bounds.npy"))


def load_calibration(dataset: Path) -> Mapping[str, np.ndarray]:
    paths = {name: dataset / f"calibration_{name}.npy" for name in ("dense", "sparse")}
    return {name: np.load(path, mmap_mode="r") for name, path in paths.items()}


def read_day(source: Path) -> Day:
    """Read the day. Raises HarnessError with the name of a missing, truncated or invalid file."""
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
    """Map the arrays of an uncompressed npz without unpacking it."""
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
                begins = find_stored(stream, item.header_offset)
        except (OSError, struct.error) as error:
            raise HarnessError(f"{path} is damaged where {number}.npy should be: {error}", "input", _FIX) from error
        yield map_npy(path, ["int32"], width, _FIX, offset=begins, name=f"/{number}.npy")


def _take_labels(day: Day, count: int) -> np.ndarray:
    taken = np.empty(count, np.float32)
    for start in range(0, count, _AT_ONCE):
        part = day.labels[start : min(start + _AT_ONCE, count)]
        check_labels(part, start, day.files[0])
        taken[start : start + len(part)] = part
    return taken


def _copy(day: Day, first: int, taken: Sequence[np.memmap], threads: int, counter: Counter) -> None:
    """Copy rows to new files in chunks, on several threads, since copying and checking release the interpreter lock.
    Raises HarnessError for the first invalid value. ``taken``: the new dense and sparse features."""
    dense, sparse = taken
    places = np.cumsum((0, *day.values)).tolist()

    def copy(start: int) -> None:
        end = min(start + _AT_ONCE, len(dense))
        rows = slice(first + start, first + end)
        with np.errstate(over="ignore"):  # a value that is too large becomes infinite and is rejected
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


# Samples are groups of 100 to 700 consecutive user-item pairs, drawn as in the reference.
#
# For the published day 23, this reproduces dlrm_trace_of_aggregated_samples.txt byte for byte: 330,067 samples.

SEED = 123
# tools/dist_quantile.txt of recommendation/dlrm_v2 in mlcommons/inference: a quantile per twentieth of all samples.
SIZES = (100, 100, *[200] * 12, 300, 300, 400, 500, 600, 700)
_DRAWN = 1 << 16


def count_evaluated(rows: int) -> int:
    """Return the number of rows in the first half, which is evaluated; the second half is for calibration."""
    return rows // 2 + rows % 2


def group_pairs(pairs: int) -> NDArray[np.int64]:
    """Return the starts of the samples and the end of the last one, which takes all remaining pairs."""
    random = np.random.RandomState(SEED)
    sizes = np.array(SIZES)
    ends: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
    while ends[-1][-1] < pairs:
        drawn = sizes[random.randint(0, len(sizes), _DRAWN)]
        ends.append(ends[-1][-1] + np.cumsum(drawn))
    bounds = np.concatenate(ends)
    last = int(np.searchsorted(bounds, pairs))
    return np.append(bounds[:last], pairs)


# Parts are checked when they are copied, so that no byte is read twice. Rows that are not copied are not checked.

TABLES = "table_rows.json"
_ROW_FIX = "download it again, as described by `reconcile fetch dlrm-v2-99`, or fix the row; nothing was prepared"


def read_table_rows(source: Path, reference: Sequence[int]) -> Sequence[int]:
    """Read the number of rows of each table: the reference's, or, for a day with smaller tables, those in
    ``table_rows.json`` next to it."""
    path = source / TABLES
    if not is_there(path):
        return reference
    fix = f"list the rows of the {len(reference)} tables, or remove it if they are the reference's"
    rows = read_json(path, fix)
    counts: list[int] = rows if isinstance(rows, list) else []
    whole = len(counts) == len(reference)
    if not whole or not all(type(count) is int and 0 < count < 1 << 31 for count in counts):
        raise HarnessError(f"{path} does not list the rows of {len(reference)} tables", "input", fix)
    return counts


def check_labels(labels: np.ndarray, first: int, path: str) -> None:
    """Check that labels are 0 or 1. ``first``: the day's row that the first label belongs to."""
    if _view_unsigned(labels).max(initial=0) > 1:
        row = int(np.flatnonzero((labels != 0) & (labels != 1))[0])
        raise HarnessError(f"{path}: row {first + row:,} has the label {labels[row]}, not 0 or 1", "input", _ROW_FIX)


def check_dense(given: np.ndarray, taken: np.ndarray, first: int, path: str) -> None:
    """Check that values are finite. ``given``: the values on disk; ``taken``: the same values in the type of the
    samples."""
    if not np.isfinite(taken).all():
        row, column = np.argwhere(~np.isfinite(taken))[0].tolist()
        value = f"{given[row, column]} as dense feature {column}"
        raise HarnessError(
            f"{path}: row {first + row:,} has {value}, not a finite {taken.dtype.name}", "input", _ROW_FIX
        )


def check_sparse(values: np.ndarray, rows: int, first: int, path: str, table: int) -> None:
    """Check that values are rows of the table. ``rows``: number of rows of the table; ``table``: the number of the
    table, and of its array in the file."""
    if _view_unsigned(values).max(initial=0) >= rows:  # values below 0 become large ones
        row, column = np.argwhere((values < 0) | (values >= rows))[0].tolist()
        problem = f"{path}: row {first + row:,} has the value {values[row, column]:,}"
        raise HarnessError(f"{problem}, and table {table} has rows 0 to {rows - 1:,}", "input", _ROW_FIX)


def _view_unsigned(values: np.ndarray) -> np.ndarray:
    return values.view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))


# The answer of a sample: for each of its pairs, how likely the item is clicked, and whether it was clicked, as the
# official script reads them.


def loop(sample: Arrays) -> Generator[Arrays, Outputs, NDArray[np.float32]]:
    """Map "dense" [pairs, 13], "sparse" [pairs, 214] and "labels" [pairs] to float32 [pairs, 2]. Samples of different
    sizes share batches of pairs."""
    found = yield {"dense": sample["dense"], "sparse": sample["sparse"]}
    return answer_pairs(found, sample)


def answer_pairs(outputs: Outputs, given: Arrays) -> NDArray[np.float32]:
    """Join the network's answer for pairs with their "labels": float32 [pairs, 2]."""
    return np.stack([outputs[0].reshape(-1).astype(np.float32, copy=False), given["labels"]], axis=1)


_AGAIN = "run accuracy again"


def score(log: AnswerLog, dataset: Path, output: Path) -> Mapping[str, Any]:
    """Return AUC and accuracy in percent, over the pairs of the answered samples, with the counts good and total."""
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
    """Read a response as [pairs, 2]. Its labels must be the dataset's, because the official script uses the log's
    labels."""
    if len(data) != 8 * len(labels):
        problem = f"a response has {len(data)} bytes, a sample of {len(labels)} pairs needs {8 * len(labels)}"
        raise HarnessError(problem, "input", _AGAIN)
    pairs = np.frombuffer(data, np.float32).reshape(-1, 2)
    if not np.array_equal(pairs[:, 1], labels):
        raise HarnessError("a response does not carry the labels of its sample", "input", _AGAIN)
    if not np.isfinite(pairs[:, 0]).all():
        raise HarnessError("a response contains a prediction that is not a number", "input", _AGAIN)
    return pairs


def compute_auc(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Compute how often a clicked pair is predicted higher than one that was not clicked. Equal predictions count
    half."""
    order = np.argsort(predictions, kind="stable")
    clicked = labels[order] == 1
    last = np.append(np.flatnonzero(np.diff(predictions[order])), len(order) - 1)  # per group of equal predictions
    positive = np.diff(np.cumsum(clicked)[last], prepend=0)
    negative = np.diff(np.cumsum(~clicked)[last], prepend=0)
    everything = int(positive.sum()) * int(negative.sum())
    if not everything:
        raise HarnessError("the labels are all alike: no area under a curve", "input", "score more samples")
    below = np.cumsum(negative) - negative
    return (int((positive * below).sum()) + int((positive * negative).sum()) / 2) / everything


class CriteoBenchmark(LoopBenchmark):
    """The common parts of all versions of DLRM: samples of several pairs, their answers and the score."""

    outputs = {OUTPUT: ((1,), "float32")}
    response_dtype = "float32"
    one_call = OneCall(inputs=("dense", "sparse"), least_rows=min(SIZES), most_rows=max(SIZES), answer=answer_pairs)
    load_samples = staticmethod(load_samples)
    load_calibration = staticmethod(load_calibration)
    loop = staticmethod(loop)
    score = staticmethod(score)
