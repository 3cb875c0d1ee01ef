"""Keys of logs in their order: what is found in an order, remembered or not, is what looking at each key finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.loadgen import log_index
from reconciler.loadgen.log_index import order_keys

KEYS = st.lists(st.sampled_from([None, "", "on_a", "on_b", "off_a", "off_on_a", "on_", "b\n"]), max_size=12).map(tuple)


@given(KEYS, st.integers(0, 12))
def test_rows_are_found_as_one_by_one(keys: tuple[str | None, ...], longest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_index, "_LONGEST", longest)
        order = order_keys(keys)
    named = [(key, at) for at, key in enumerate(keys) if key is not None]
    first = [(key, at) for key, at in named if keys.index(key) == at]
    assert list(order.first.items()) == first
    assert list(order.others) == [item for item in named if item not in first]
    for _ in range(2):  # the second time as remembered
        assert list(order.choose(re.compile(r"on_\w*"))) == [(k, at) for k, at in first if re.fullmatch(r"on_\w*", k)]
        assert list(order.pair("on_", "off_")) == [
            (key, at, twin, twin_at)
            for key, at in first
            for twin, twin_at in first
            if key.startswith("on_") and twin == f"off_{key[3:]}"
        ]
