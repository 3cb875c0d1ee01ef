"""Entries added to a spec, taken out or moved: every other byte stays, and comments go along."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reconciler.spec.edit import EditError, append_values, move, remove, render_value, set_value
from reconciler.spec.nodes import convert_plain, parse

QUICKSTART = (Path(__file__).parents[3] / "specs/quickstart.yaml").read_text()
DIGITS = "spec.divisions.open.this-machine.digits"


def changed(before: str, after: str) -> list[str]:
    """Removed and added lines."""
    return [line for line in difflib.ndiff(before.splitlines(True), after.splitlines(True)) if line[0] in "+-"]


def leaves(node: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(node, dict):
        return [leaf for name, item in node.items() for leaf in leaves(item, (*path, name))]
    return [path]


DOCUMENT = convert_plain(parse(QUICKSTART, "q")[0])  # type: ignore[arg-type]
LEAVES = leaves(DOCUMENT)
GROUPS = sorted({leaf[:length] for leaf in LEAVES for length in range(1, len(leaf))})
new_values = st.text(max_size=40) | st.integers(0, 10**12) | st.booleans() | st.decimals(0, 10**6, places=3)


def at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        document = document[name]
    return document


@settings(max_examples=40)
@given(st.sampled_from(LEAVES), new_values, st.booleans())
def test_only_the_line_of_the_value_changes(path: tuple[str, ...], value: Any, windows: bool) -> None:
    before = QUICKSTART.replace("\n", "\r\n") if windows else QUICKSTART
    after = set_value(before, path, value)
    old, new = before.split("\n"), after.split("\n")
    assert len(old) == len(new)
    assert sum(one != other for one, other in zip(old, new, strict=True)) <= 1
    assert str(at(convert_plain(parse(after, "q")[0]), path)) == str(value)  # type: ignore[arg-type]


@settings(max_examples=40)
@given(st.sampled_from(GROUPS), st.text(min_size=1, max_size=12).filter(str.isprintable), new_values)
def test_adding_keeps_every_line(group: tuple[str, ...], name: str, value: Any) -> None:
    assume(name not in at(DOCUMENT, group))
    after = set_value(QUICKSTART, [*group, name], value)
    assert str(at(convert_plain(parse(after, "q")[0]), (*group, name))) == str(value)  # type: ignore[arg-type]
    assert len(changed(QUICKSTART, after)) <= 3
    assert len([line for line in QUICKSTART.splitlines() if line not in after.splitlines()]) <= 1


@given(st.text())
def test_rendered_text_reads_back_as_the_same_text(text: str) -> None:
    printable = text.encode("utf-8", "replace").decode()
    tree, problems = parse(f"a: {render_value(printable)}\n", "x")
    assert not problems
    assert tree is not None
    assert convert_plain(tree) == {"a": printable}
    assert type(convert_plain(tree)["a"]) is str


def test_a_target_patch_keeps_the_comment() -> None:
    after = set_value(QUICKSTART, f"{DIGITS}.Server.target_qps", 180)
    removed, added = changed(QUICKSTART, after)
    assert removed.startswith("-             target_qps: 200              # queries per second")
    assert added == removed.replace("- ", "+ ", 1).replace("200", "180")


@pytest.mark.parametrize(
    ("path", "value", "added"),
    [
        (f"{DIGITS}.Server.attempts", 3, "            attempts: 3"),
        (f"{DIGITS}.Offline.run.streams", 2, "            run: {streams: 2}"),
        ("spec.divisions.closed.box.digits", {"Offline": {}}, "    closed: {box: {digits: {Offline: {}}}}"),
        (["spec", "systems", "llama3.1"], {"category": "edge"}, "    llama3.1: {category: edge}"),
    ],
)
def test_adding(path: Any, value: Any, added: str) -> None:
    after = set_value(QUICKSTART, path, value)
    assert changed(QUICKSTART, after) == [f"+ {added}\n"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n  b:\n  c: 1\n", "a:\n  b: {d: 5}\n  c: 1\n"),
        ("a: {b: }\n", "a: {b: {d: 5} }\n"),
        ("a: {b: {}}", "a: {b: {d: 5}}"),
        ("a:\n  b:\n    x: |\n      text\n  # behind\n", "a:\n  b:\n    x: |\n      text\n    d: 5\n  # behind\n"),
        ("a:\n  b:\n    - c: 1\n", None),
        ("a: &x {b: {c: 1}}\ny: *x\n", None),
        ("a: {b: 7}\n", None),
    ],
)
def test_adding_below_a_b(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(EditError):
            set_value(text, "a.b.d", 5)
    else:
        assert set_value(text, "a.b.d", 5) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("points: auto  # by rule", "points: [auto, 12, 40]  # by rule"),
        ("points: [1, 8]  # by hand", "points: [1, 8, 12, 40]  # by hand"),
        ("points:\n  - 1\n  - 8  # why\nmore: 3", "points:\n  - 1\n  - 8  # why\n  - 12\n  - 40\nmore: 3"),
        ("points:\n- 1\n- 8", "points:\n- 1\n- 8\n- 12\n- 40\n"),
        ("points: {auto: , 8: {a: 1}}", "points: {auto: , 8: {a: 1}, 12: {}, 40: {}}"),
        ("points:\n  1:\n  8: {a: 1}\n", "points:\n  1:\n  8: {a: 1}\n  12: {}\n  40: {}\n"),
    ],
)
def test_values_are_added_to_what_is_listed_in_its_own_style(written: str, expected: str, newline: str) -> None:
    text = f"c: 1\n{written}".replace("\n", newline)
    assert append_values(text, ("points",), (12, 40)) == f"c: 1\n{expected}".replace("\n", newline)


@pytest.mark.parametrize("text", ["a: 1\n", "points:\n", "a: &p [1]\npoints: *p\n"])
def test_values_are_not_added_where_nothing_is_listed_or_it_is_shared(text: str) -> None:
    with pytest.raises(EditError):
        append_values(text, ("points",), (12,))


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


@settings(max_examples=12)
@given(st.lists(st.sampled_from(SCENARIOS), min_size=1, max_size=6), st.sampled_from(("closed", "network")))
def test_moving_there_and_back_in_any_order_keeps_every_value_and_line(scenarios: list[str], division: str) -> None:
    assert_moves_there_and_back(DIVISIONS, scenarios, division)


def test_moving_every_cell_of_the_quickstart_there_and_back_keeps_every_value_and_line() -> None:
    assert_moves_there_and_back(QUICKSTART, SCENARIOS, "closed")
