"""Whatever a file holds, reading it ends in a submission or in problems; nothing else escapes."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import Problem, SpecError
from reconciler.spec.files import Source, decode
from reconciler.spec.loading import load_sources

QUICKSTART = (Path(__file__).parents[3] / "specs/quickstart.yaml").read_bytes()
LINES = QUICKSTART.splitlines(keepends=True)
PIECES = [*(bytes([each]) for each in b"{}[]|\n\t'\"#\xff")]
PIECES += [b": ", b"- ", b"&a ", b"*a", b"!x ", b"${X}", b"null", b"? "]


def read(*files: bytes) -> None:
    decoded = [decode(data, f"{index}.yaml") for index, data in enumerate(files)]
    sources = [item for item in decoded if isinstance(item, Source)]
    problems = [item for item in decoded if not isinstance(item, Source)]
    found: list[Problem] | None = None
    try:
        load_sources(sources, Path(), {}, problems)
    except SpecError as raised:
        found = raised.problems
    assert found != []
    assert all(problem.line > 0 and problem.column > 0 and problem.message and problem.fix for problem in found or ())


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    read(data)


@given(
    st.lists(
        st.sampled_from(PIECES) | st.text(max_size=3).map(lambda text: text.encode("utf-8", "replace")), max_size=40
    )
)
def test_any_yaml_like_text(pieces: list[bytes]) -> None:
    read(b"".join(pieces))


@settings(max_examples=300)
@given(st.data())
def test_a_mutated_quickstart(data: st.DataObject) -> None:
    mutated = bytearray(QUICKSTART)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(mutated)))
        length = data.draw(st.integers(0, 12))
        mutated[place : place + length] = data.draw(st.sampled_from(PIECES) | st.binary(max_size=4))
    read(bytes(mutated))


@given(st.lists(st.sampled_from(LINES), max_size=60))
def test_lines_left_out_and_shuffled(lines: list[bytes]) -> None:
    read(b"".join(LINES[10:16]) + b"".join(lines))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.integers(10, len(LINES) - 1), values)
def test_any_value_on_any_line(index: int, value: object) -> None:
    written = LINES[index].split(b":")[0] + b": " + repr(value).encode("utf-8", "replace") + b"\n"
    read(b"".join([*LINES[:index], written, *LINES[index + 1 :]]))


@given(st.lists(st.integers(0, len(LINES)), min_size=1, max_size=3))
def test_a_spec_cut_into_files(cuts: list[int]) -> None:
    edges = sorted({0, len(LINES), *cuts})
    read(*(b"".join(LINES[begin:end]) for begin, end in itertools.pairwise(edges)))
