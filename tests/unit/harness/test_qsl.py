"""Which samples are resident, where they are found, and how a batch is put together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.backends.staging import Staging
from harness.run.qsl import Arrays, Rows, SampleLibrary, count_rows, find_runs, gather, split_rows

DATA = np.arange(120, dtype=np.float32).reshape(40, 3)


class Resident:
    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def place(self, samples: Arrays) -> None:
        self.arrays = samples


def library(resident: Resident, **counts: int) -> SampleLibrary:
    def fail(error: BaseException) -> None:
        raise error

    return SampleLibrary({"x": DATA, "y": DATA * 2}, resident.place, fail, **counts)


@given(st.lists(st.integers(0, 39), min_size=1, max_size=60), st.data())
def test_rows_find_the_samples_that_were_asked_for(loaded: list[int], data: st.DataObject) -> None:
    resident = Resident()
    samples = library(resident)
    samples.load(loaded)
    asked = data.draw(st.lists(st.sampled_from(loaded), min_size=1, max_size=30))
    rows = samples.rows(asked)
    assert count_rows(rows) == len(asked)
    staging = np.empty((30, 3), np.float32)
    for name, factor in (("x", 1), ("y", 2)):
        assert np.array_equal(gather(resident.arrays[name], rows, staging), DATA[asked] * factor)


def test_neighbours_in_load_order_are_read_in_place() -> None:
    resident = Resident()
    samples = library(resident)
    samples.load([30, 7, 9, 2, 30, 7])  # MultiStream pads the loaded set with its first samples
    rows = samples.rows([7, 9, 2])
    assert rows == slice(1, 4)
    assert np.shares_memory(gather(resident.arrays["x"], rows, np.empty((3, 3))), resident.arrays["x"])
    assert isinstance(samples.rows([9, 7]), np.ndarray)
    assert isinstance(samples.rows([7, 2, 2]), np.ndarray)


@given(
    st.lists(st.integers(0, 39), min_size=1, max_size=60).map(lambda rows: np.array(rows, np.intp))
    | st.tuples(st.integers(0, 20), st.integers(1, 20)).map(lambda part: slice(part[0], sum(part))),
    st.integers(1, 9),
)
def test_parts_of_rows_are_all_of_them_in_order(rows: Rows, size: int) -> None:
    parts = list(split_rows(rows, size))
    sizes = [count_rows(part) for part in parts]
    assert sizes[:-1] == [size] * (len(parts) - 1)
    assert 0 < sizes[-1] <= size
    assert np.array_equal(np.concatenate([DATA[part] for part in parts]), DATA[rows])
    if isinstance(rows, slice) or size == 1:
        assert all(isinstance(part, slice) for part in parts)


@given(st.integers(1, 8), st.booleans())
def test_staging_pads_to_the_next_size(count: int, contiguous: bool) -> None:
    rows = slice(5, 5 + count) if contiguous else np.arange(count)[::-1] + 5
    (batch,) = Staging([DATA], 8, (2, 4, 8)).batch(rows)
    assert len(batch) == next(size for size in (2, 4, 8) if size >= count)
    assert np.array_equal(batch[:count], DATA[rows])
    (exact,) = Staging([DATA], 8).batch(rows)
    assert np.array_equal(exact, DATA[rows])


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 20)), min_size=1))
def test_runs_of_neighbours_are_all_rows_in_order(pieces: list[tuple[int, int]]) -> None:
    rows = np.concatenate([np.arange(first, first + count) for first, count in pieces])
    begins, lengths = find_runs(rows)
    assert len(begins) <= len(pieces)
    found = [np.arange(rows[first], rows[first] + count) for first, count in zip(begins, lengths, strict=True)]
    np.testing.assert_array_equal(np.concatenate(found), rows)
    np.testing.assert_array_equal(np.cumsum(lengths) - lengths, begins)
