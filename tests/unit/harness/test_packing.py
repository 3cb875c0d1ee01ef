"""Samples of different lengths put end to end, cut into batches, and padded again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.run.packing import BOUNDS, POSITIONS, PackedSamples, Packing, make_memory
from harness.run.qsl import Rows, count_rows

LONGEST = 12
PACKING = Packing("mask", ("ids", "kinds"), LONGEST, fill=-1.0)
INPUTS = {"ids": "int32", POSITIONS: "int32", "kinds": "int64", BOUNDS: "int32"}
lengths_of = st.lists(st.integers(1, LONGEST), min_size=1, max_size=20)


def make_samples(lengths: list[int]) -> dict[str, np.ndarray]:
    """Every element is different, also those of the padding."""
    shape = (len(lengths), LONGEST)
    ids = np.arange(1, 1 + len(lengths) * LONGEST).reshape(shape)
    mask = (np.arange(LONGEST) < np.array(lengths)[:, None]).astype(np.int64)
    return {"ids": ids, "kinds": -ids, "mask": mask}


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[int], Rows]:
    """Some samples in any order, some of them twice, or neighbours."""
    lengths = draw(lengths_of)
    some = st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=30)
    if draw(st.booleans()):
        return lengths, np.array(draw(some), np.intp)
    first = draw(st.integers(0, len(lengths) - 1))
    return lengths, slice(first, draw(st.integers(first + 1, len(lengths))))


@given(batches())
def test_what_is_packed_comes_back_padded(drawn: tuple[list[int], Rows]) -> None:
    lengths, rows = drawn
    samples = make_samples(lengths)
    packed = PackedSamples(PACKING, samples)
    memory = make_memory(INPUTS, 30, 30 * LONGEST)
    count, tokens = packed.pack(rows, memory)
    assert count == count_rows(rows)
    assert tokens == sum(np.array(lengths)[rows])
    inside = samples["mask"][rows] == 1
    for name, back in zip(("ids", "kinds"), packed.unpack(rows, [memory["ids"], memory["kinds"]]), strict=True):
        assert np.array_equal(back, np.where(inside, samples[name][rows], -1))


@given(batches())
def test_bounds_and_positions_name_each_token(drawn: tuple[list[int], Rows]) -> None:
    lengths, rows = drawn
    packed = PackedSamples(PACKING, make_samples(lengths))
    memory = make_memory(INPUTS, 40, 40 * LONGEST)
    memory[BOUNDS][:] = 7  # of an earlier batch
    count, tokens = packed.pack(rows, memory)
    bounds = memory[BOUNDS]
    assert (bounds[count:] == tokens).all()
    for first, end, length in zip(bounds[:count], bounds[1:], np.array(lengths)[rows], strict=False):
        assert end - first == length
        assert memory[POSITIONS][first:end].tolist() == list(range(length))


@given(batches(), st.integers(1, 5), st.integers(LONGEST, 5 * LONGEST))
def test_batches_keep_to_their_size_and_order(drawn: tuple[list[int], Rows], most: int, tokens: int) -> None:
    lengths, rows = drawn
    packed = PackedSamples(PACKING, make_samples(lengths))
    parts = list(packed.split(rows, most, tokens))
    numbers = np.arange(len(lengths))
    assert np.concatenate([numbers[part] for part in parts]).tolist() == numbers[rows].tolist()
    for number, part in enumerate(parts):
        own = packed.lengths[part]
        assert len(own) <= most
        assert own.sum() <= tokens
        if number + 1 < len(parts) and len(own) < most:
            assert own.sum() + packed.lengths[parts[number + 1]][0] > tokens  # the next did not fit


@pytest.mark.parametrize(
    "mask",
    [
        [[0, 1, 1, 0]],  # padded in front
        [[1, 0, 1, 0]],
        [[0, 0, 0, 0]],
        [[1] * (LONGEST + 1)],
    ],
)
def test_padding_elsewhere_is_refused(mask: Any) -> None:
    array = np.array(mask)
    with pytest.raises(HarnessError, match="mask"):
        PackedSamples(PACKING, {"ids": array, "kinds": array, "mask": array})


def test_a_missing_input_is_named() -> None:
    samples = make_samples([1, 2])
    del samples["kinds"]
    with pytest.raises(HarnessError, match="kinds"):
        PackedSamples(PACKING, samples)
