"""Entries taken out of a spec, or moved within it: every other byte stays, comments go along."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.spec.edit import EditError, move, remove
from reconciler.spec.nodes import convert_plain, parse

QUICKSTART = (Path(__file__).parents[3] / "specs/quickstart.yaml").read_text()

TEXT = """\
# head
spec:
  divisions:
    closed:
      box:            # the box
        resnet:
          # why this target
          Offline:    # all at once
            target_qps: 54   # measured
            # a note inside
            min_query_count: 7

          SingleStream: {target_latency: 10 ms}  # quick
    open:
      other: {bert: {Offline: {target_qps: 1}}}
# tail
"""
CELL = ("spec", "divisions", "closed", "box", "resnet", "Offline")


def values(text: str) -> object:
    tree, problems = parse(text, "t")
    assert tree is not None
    assert not problems
    return convert_plain(tree)


def test_an_entry_moves_with_its_comments() -> None:
    edited = move(TEXT, CELL, ("spec", "divisions", "open", "box", "resnet", "Offline"), 2)
    assert (
        edited
        == """\
# head
spec:
  divisions:
    closed:
      box:            # the box
        resnet:

          SingleStream: {target_latency: 10 ms}  # quick
    open:
      other: {bert: {Offline: {target_qps: 1}}}
      box:
        resnet:
          # why this target
          Offline:    # all at once
            target_qps: 54   # measured
            # a note inside
            min_query_count: 7
# tail
"""
    )


def test_groups_that_become_empty_go() -> None:
    once = remove(TEXT, CELL)
    twice = remove(once, (*CELL[:-1], "SingleStream"), 2)
    assert (
        twice
        == """\
# head
spec:
  divisions:
    open:
      other: {bert: {Offline: {target_qps: 1}}}
# tail
"""
    )


def test_from_and_to_flow_style() -> None:
    edited = move(
        TEXT, ("spec", "divisions", "open", "other", "bert", "Offline"), (*CELL[:3], "other", "x", "Server"), 2
    )
    assert "open" not in edited
    assert "      other: {x: {Server: {target_qps: 1}}}\n" in edited
    edited = move(TEXT, CELL, ("spec", "divisions", "open", "other", "bert", "Server"), 2)
    assert "other: {bert: {Offline: {target_qps: 1}, Server: {target_qps: 54, min_query_count: 7}}}" in edited
    flow = "a: {b: 1, c: {d: 2}, e: 3}\n"
    assert remove(flow, ("a", "b")) == "a: {c: {d: 2}, e: 3}\n"
    assert remove(flow, ("a", "c", "d")) == "a: {b: 1, e: 3}\n"
    assert remove(flow, ("a", "e")) == "a: {b: 1, c: {d: 2}}\n"


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(EditError, match="not found"):
        remove(TEXT, ("spec", "nothing"))
    with pytest.raises(EditError, match="already exists"):
        move(TEXT, CELL, (*CELL[:-1], "SingleStream"))
    with pytest.raises(EditError, match="alias"):
        remove("a: &x {b: 1, c: 2}\nd: *x\n", ("d", "b"))


SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
# A spec's divisions alone: reading all the rest again at each step would test nothing more.
DIVISIONS = "spec:\n" + QUICKSTART[QUICKSTART.index("  divisions:\n") :]


def assert_moves_there_and_back(text: str, scenarios: Sequence[str], division: str) -> None:
    moved = text
    for scenario in scenarios:
        here = ("spec", "divisions", "open", "this-machine", "digits", scenario)
        there = ("spec", "divisions", division, "this-machine", "digits", scenario)
        moved = move(move(moved, here, there, 2), there, here, 2)
    assert values(moved) == values(text)
    assert sorted(map(str.strip, moved.splitlines())) == sorted(map(str.strip, text.splitlines()))


@settings(max_examples=20)
@given(st.lists(st.sampled_from(SCENARIOS), min_size=1, max_size=6), st.sampled_from(("closed", "network")))
def test_moving_there_and_back_in_any_order_keeps_every_value_and_line(scenarios: list[str], division: str) -> None:
    assert_moves_there_and_back(DIVISIONS, scenarios, division)


def test_moving_every_cell_of_the_quickstart_there_and_back_keeps_every_value_and_line() -> None:
    assert_moves_there_and_back(QUICKSTART, SCENARIOS, "closed")
