"""Which samples are resident, where they are found, and how a batch is put together."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
from queue import SimpleQueue

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backends import Tensor
from harness.backends.streams import CollatedBatches, Staging
from harness.errors import HarnessError
from harness.run.pool import BatchRoom
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


INPUTS = (Tensor("places", (), "int64"), Tensor("features", (2,), "float32"))
SAMPLES = {"first": np.array([3, 1, 2])}


def spread(samples: Arrays) -> Arrays:
    """As many rows of each as the samples say."""
    count = int(samples["first"].sum())
    return {
        "features": np.arange(2 * count, dtype=np.float16).reshape(2, count).T,
        "places": np.arange(len(samples["first"])),
    }


def test_a_batch_has_what_is_made_of_its_samples_alone() -> None:
    batches = CollatedBatches(spread, SAMPLES, INPUTS)
    places, features = batches.batch(slice(1, 3))
    assert places.tolist() == [0, 1]
    assert features.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert features.dtype == np.float32
    assert features.flags.c_contiguous
    assert len(batches.batch(np.array([0, 2]))[1]) == 5


def test_what_does_not_fit_the_engine_is_refused() -> None:
    other = (Tensor("places", (), "int64"), Tensor("features", (3,), "float32"))
    with pytest.raises(HarnessError, match=r"input features of the engine takes float32 \[3\] per sample"):
        CollatedBatches(spread, SAMPLES, other).batch(slice(0, 1))


def take_all(room: BatchRoom, count: int, taken: list[int]) -> threading.Thread:
    def work() -> None:
        for number in range(count):
            room.take()
            taken.append(number)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_caller_that_finds_it_full_goes_on_when_so_few_are_left() -> None:
    room, taken = BatchRoom(4, 1), list[int]()
    for _ in range(4):
        room.take()
    thread = take_all(room, 3, taken)
    room.give_back()
    room.give_back()
    thread.join(0.1)
    assert not taken, "two are left, and one may be"
    room.give_back()
    thread.join(10)
    assert taken == [0, 1, 2]


def test_what_several_threads_give_back_is_all_there_in_the_end() -> None:
    room, work, done = BatchRoom(64, 32), SimpleQueue[int | None](), list[int]()

    def serve() -> None:
        while (item := work.get()) is not None:
            done.append(item)
            room.give_back()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5_000):
        room.take()
        work.put(number)
        if number % 700 == 0:
            room.drain()
            assert len(done) == number + 1
    room.drain()
    assert sorted(done) == list(range(5_000))
    for _ in threads:
        work.put(None)


TIMES, MEGABYTES = 20, 9
PROGRAM = f"""
import resource, threading
import numpy as np
from harness.verbs.run import keep_freed_memory

def take_and_free():
    for _ in range({TIMES}):
        sample = [np.ones(3_000_000, np.uint8) for _ in range({MEGABYTES // 3})]
        while sample:
            sample.pop()

keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
thread = threading.Thread(target=take_and_free)
thread.start()
thread.join()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_arrays_of_each_sample_take_pages_from_the_system_once() -> None:
    taken = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert int(taken) < 3 * MEGABYTES * 1_000_000, f"{TIMES} times {MEGABYTES} MB were used one after the other"
