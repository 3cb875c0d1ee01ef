"""A whole accuracy log is decoded at once to the entries that its lines have one by one, or refused as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import LogError
from reconciler.rules.compliance.entries import Entry, read_cached_entries, read_entries

LINES = [f'{{ "seq_id" : {at}, "qsl_idx" : {at * 3}, "data" : "0{at}FF", "token_count" : 1 }}' for at in range(6)]
LOG = ("[\n" + ",\n".join(LINES) + "\n]\n").encode()


def read(reader: Callable[[bytes], Iterable[Entry]], data: bytes) -> list[Entry] | tuple[str, str]:
    try:
        return list(reader(data))
    except LogError as error:
        return error.message, error.fix


def read_singly(data: bytes) -> Iterable[Entry]:
    return read_entries(data.splitlines())


def test_entries_are_those_of_their_lines() -> None:
    assert [(entry.index, entry.data, entry.token_count) for entry in read_cached_entries(LOG)] == [
        (at * 3, bytes([at, 255]), 1) for at in range(6)
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"[\n]\n",
        b"[]",
        b"",
        LOG.rstrip(b"\n"),
        LOG.replace(b"\n", b"\r\n"),
        LOG.replace(b",\n", b",\n\n"),
        LOG.replace(b",\n", b","),
        LOG.replace(b',\n{ "seq_id" : 3', b',{ "seq_id" :\n3'),
        LOG.replace(b'"seq_id" : 3', b'"seq_id" : {\n}'),
        LOG.replace(b'"seq_id" : 5', b'"seq_id" :\n5'),
        LOG.replace(b"\n]\n", b"]\n"),
        LOG.replace(b'{ "seq_id" : 3,', b'{ "more" : [{},\n{}],').replace(b",\n{ ", b",{ ", 1),
        LOG.replace(b'"seq_id" : 3', b'"seq_id" : "three"'),
        LOG.replace(b'"seq_id" : 3', b'"qsl_idx" : 3'),
        LOG.replace(b'"qsl_idx" : 9', b'"qsl_idx" : 09'),
        LOG.replace(b'"qsl_idx" : 9', b'"qsl_idx" : -9'),
        LOG.replace(b'"qsl_idx" : 9', b'"qsl_idx" : 9' + b"0" * 30),
        LOG.replace(b'"token_count" : 1', b'"token_count" : 1.0'),
        LOG.replace(b'"token_count" : 1', b'"token_data" : "0A", "token_count" : 1'),
        LOG.replace(b'"token_count" : 1', b'"token_count" : 1, "token_data" : "0A"'),
        LOG.replace(b', "token_count" : 1', b""),
        LOG.replace(b"03FF", b"03 FF"),
        LOG.replace(b"03FF", b"\\u00303FF"),
        LOG.replace(b"03FF", b"03F"),
        LOG.replace(b"03FF", b"03FG"),
        LOG.replace(b'"token_count" : 1', b'"token_data" : "0A"'),
        LOG.replace(b'"token_count" : 1', b'"token_count" : null'),
        LOG + b"[]",
        LOG[:-20],
    ],
)
def test_a_log_that_is_written_otherwise_says_the_same_at_once_and_line_by_line(data: bytes) -> None:
    assert read(read_cached_entries, data) == read(read_singly, data)


PIECES = st.sampled_from(
    [b"", b"\n", b"\r", b" ", b",", b"{", b"}", b"[", b"]", b'"', b"\\", b"0", b"g", b"\xff", b"},\n{", b'"x" : {}, ']
)


@given(st.lists(st.tuples(st.integers(0, len(LOG)), st.integers(0, 90), PIECES), min_size=1, max_size=4))
def test_a_damaged_log_says_the_same_at_once_and_line_by_line(damages: list[tuple[int, int, bytes]]) -> None:
    data = LOG
    for at, count, piece in damages:
        data = data[:at] + piece + data[at + count :]
    assert read(read_cached_entries, data) == read(read_singly, data)


ONE = b'{ "seq_id" : 0, "qsl_idx" : 3, "data" : "0A00" }'
TWO = b'{ "seq_id" : 1, "qsl_idx" : 4, "data" : "ff", "token_data" : "07", "token_count" : 2 }'
BOTH = [Entry(3, b"\n\0"), Entry(4, b"\xff", 2, b"\x07")]


@pytest.mark.parametrize(
    ("lines", "entries"),
    [
        ([b"[", ONE + b",", TWO, b"]"], BOTH),
        ([b"\n", b"  [\n", b" " + ONE + b" , \n", b"\n", TWO + b"\n", b"]\n", b"\n"], BOTH),
        ([b"[" + ONE + b",", TWO + b"]"], BOTH),
        ([b"[" + ONE + b"," + TWO + b"]"], BOTH),
        ([b"[", ONE + b", " + TWO + b",", ONE, b"]"], [*BOTH, BOTH[0]]),
        ([b"[]"], []),
        ([b"[", b"]"], []),
        ([b'[{"qsl_idx": "5", "data": "01", "more": [1]}]'], [Entry(5, b"\1")]),
        ([b'[{"qsl_idx": 5, "data": "01", "token_count": "3", "token_data": ""}]'], [Entry(5, b"\1", 3, b"")]),
        ([b'[{"qsl_idx": 5, "data": "01", "token_count": null, "token_data": null}]'], [Entry(5, b"\1")]),
    ],
    ids=["lines", "blanks", "brackets", "one line", "two in a line", "none", "nothing", "text", "counts", "null"],
)
def test_answers_are_read_in_the_order_of_the_log(lines: list[bytes], entries: list[Entry]) -> None:
    assert list(read_entries(lines)) == entries
    assert list(read_cached_entries(b"\n".join(line.rstrip(b"\n") for line in lines))) == entries
