"""DLRM on Criteo 1 TB for rounds up to v3.0: which of a user's items are clicked, by the area under the ROC curve.

Its samples and answers are like those of ``dlrm_v2``; each categorical feature has one value, and the network has no
cross network.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from harness.benchmarks import copy_model
from harness.benchmarks.dlrm_v2.checkpoint import write_model
from harness.benchmarks.dlrm_v2.criteo import ZIP, CriteoBenchmark, Day, prepare_day, read_table_rows
from harness.benchmarks.dlrm_v2.layers import DENSE, Shape, find_shape, name_bottom, name_table, name_top
from harness.benchmarks.mapped_arrays import parse_header
from harness.benchmarks.sources import FileRule, check_files, is_rehearsal, require_source
from harness.contract import Counter
from harness.errors import HarnessError

TABLE_ROWS = (
    *(39_884_406, 39_043, 17_289, 7_420, 20_263, 3, 7_120, 1_543, 63, 38_532_951, 2_953_546, 403_346, 10),
    *(2_208, 11_938, 155, 4, 976, 14, 39_979_771, 25_641_295, 39_664_984, 585_935, 12_972, 108, 36),
)
MOST_ROWS = 40_000_000  # the reference's --max-ind-range
REFERENCE = Shape(rows=TABLE_ROWS, values=(1,) * len(TABLE_ROWS), crosses=0)
DAY_FILE = "day_23_reordered.npz"
LABELS, DENSE_FEATURES, SPARSE_FEATURES = "y", "X_int", "X_cat"
_FIX = "download it again, as described by `reconcile fetch dlrm-99`; nothing was prepared"


class StreamedRows:
    """Rows of an array of integers in a compressed npz. They are unpacked in order, and the rows read last are kept."""

    def __init__(
        self, archive: zipfile.ZipFile, name: str, width: int, change: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        """``width``: number of columns, 0 for [rows]. ``change``: converts the rows read (int32)."""
        self.shown = f"{archive.filename}/{name}.npy"
        self._change = change
        try:
            self._stream = archive.open(f"{name}.npy")
            header = parse_header(self._stream)
        except (KeyError, ValueError, TypeError, SyntaxError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise HarnessError(f"{self.shown} is missing, or no array: {error}", "input", _FIX) from error
        rows, *others = header.shape or (0,)
        if others != ([width] if width else []) or not rows or (width and header.columns_first):
            problem = f"{self.shown} contains {header.dtype.name} {list(header.shape)}"
            raise HarnessError(f"{problem}, not [rows{f', {width}' if width else ''}] row by row", "input", _FIX)
        self._rows, self._row, self._header = rows, tuple(others), header
        self._last: tuple[slice, np.ndarray] = (slice(0, 0), np.empty((0, *others), np.int32))

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> np.ndarray:
        if rows != self._last[0]:
            self._last = (rows, self._change(self._read(rows)))
        return self._last[1]

    def _read(self, rows: slice) -> np.ndarray:
        size = prod(self._row) * self._header.dtype.itemsize
        try:
            self._stream.seek(self._header.start + rows.start * size)
            data = self._stream.read((rows.stop - rows.start) * size)
            found = np.frombuffer(data, self._header.dtype).reshape(rows.stop - rows.start, *self._row)
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise HarnessError(f"{self.shown} is cut off or damaged: {error}", "input", _FIX) from error
        with np.errstate(invalid="ignore"):  # NaN never equals its conversion
            whole: np.ndarray = found.astype(np.int32)
        if not np.array_equal(whole, found):
            place = np.argwhere(whole != found)[0].tolist()
            problem = f"{self.shown}: row {rows.start + place[0]:,} has {found[tuple(place)]}, not a whole number"
            raise HarnessError(problem, "input", _FIX)
        return whole


class Column:
    """One column of the array, as rows of one value."""

    def __init__(self, rows: StreamedRows, number: int) -> None:
        self._rows, self._number = rows, number

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._rows[rows][:, self._number : self._number + 1]


def compute_logarithms(dense: np.ndarray) -> np.ndarray:
    """Compute log(x + 1) in float32. The reference's preparation has already replaced negative values by 0."""
    with np.errstate(divide="ignore", invalid="ignore"):  # invalid results are refused later as not finite
        logarithms: np.ndarray = np.log(dense.astype(np.float32) + np.float32(1))
    return logarithms


def build_dataset(source: Path | None, settings: Mapping[str, Any], output: Path, counter: Counter) -> None:
    source = require_source(source, "day 23 of Criteo 1 TB")
    check_files(source, [FileRule(DAY_FILE, kind="npz file", start=ZIP)], fix=_FIX)
    try:
        archive = zipfile.ZipFile(source / DAY_FILE)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise HarnessError(f"{source / DAY_FILE} is cut off, or no npz file: {error}", "input", _FIX) from error
    with archive:
        labels = StreamedRows(archive, LABELS, 0, np.asarray)
        dense = StreamedRows(archive, DENSE_FEATURES, DENSE, compute_logarithms)
        sparse = StreamedRows(archive, SPARSE_FEATURES, len(TABLE_ROWS), lambda rows: rows % np.int32(MOST_ROWS))
        for array in (dense, sparse):
            if len(array) != len(labels):
                problem = f"{array.shown} has {len(array):,} rows, {LABELS}.npy has {len(labels):,}"
                raise HarnessError(problem, "input", _FIX)
        columns = [Column(sparse, number) for number in range(len(TABLE_ROWS))]
        files = [labels.shown, dense.shown, *[sparse.shown] * len(columns)]
        day = Day(dense, labels, columns, REFERENCE.values, read_table_rows(source, TABLE_ROWS), files)
        # One thread only, since rows are unpacked in their order.
        prepare_day(day, settings, output, counter, threads=1, whole=not is_rehearsal(source))


def list_names(shape: Shape) -> Iterator[tuple[str, str]]:
    """Yield (the reference's name, the name in ``dlrm_v2``) of each weight."""
    for number in range(len(shape.rows)):
        yield f"emb_l.{number}.weight", name_table(number)
    depth = len(shape.top)
    layers = [(f"bot_l.{2 * layer}", name_bottom(layer)) for layer in range(len(shape.bottom))]
    layers += [(f"top_l.{2 * layer}", name_top(layer, depth)) for layer in range(depth)]
    for theirs, ours in layers:
        for kind in ("weight", "bias"):
            yield f"{theirs}.{kind}", f"{ours}.{kind}"


class SavedWeights:
    """The reference's checkpoint, by the names of ``dlrm_v2``."""

    def __init__(self, path: Path) -> None:
        from harness.benchmarks.saved_tensors import load_state

        state = load_state(path, "DLRM", _FIX, mapped=True)
        missing = [theirs for theirs, _ in list_names(REFERENCE) if theirs not in state]
        if missing:
            raise HarnessError(f"{path} has no {', '.join(missing[:3])}", "input", _FIX)
        self._state = {ours: state[theirs] for theirs, ours in list_names(REFERENCE)}
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._state.items()}

    def read(self, name: str, out: np.ndarray | None = None) -> np.ndarray:
        array: np.ndarray = self._state[name].float().numpy()
        if out is None:
            return array
        out[...] = array
        return out


def build_model(
    source: Path | None, settings: Mapping[str, Any], inputs: Mapping[str, Path], output: Path, counter: Counter
) -> None:
    if source is None or source.suffix in (".onnx", ".pt2"):
        copy_model(source, settings, inputs, output, counter)
        return
    weights = SavedWeights(source)
    write_model(weights, find_shape(weights.shapes, REFERENCE), settings, output, counter)


class Dlrm(CriteoBenchmark):
    build_dataset = staticmethod(build_dataset)
    build_model = staticmethod(build_model)


BENCHMARK = Dlrm()
