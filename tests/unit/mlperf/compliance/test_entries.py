"""Answers of a log, line by line: what is read of each, and where a log that is none is said to break."""

from __future__ import annotations

import pytest

from reconciler.rules.compliance.entries import Entry, read_entries, read_held_entries

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
    assert list(read_held_entries(b"\n".join(line.rstrip(b"\n") for line in lines))) == entries
