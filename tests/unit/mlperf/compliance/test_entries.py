"""Answers of a log, line by line: what is read of each, and where a log that is none is said to break."""

from __future__ import annotations

import pytest

from reconciler.errors import LogError
from reconciler.rules.compliance.entries import Entry, read_entries, read_held_entries

FIX = "verification needs the whole accuracy log as LoadGen wrote it, not the one truncated for submission"
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


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "0: the log ends before its list does"),
        ([b"[", ONE], "2: the log ends before its list does"),
        ([b"", b"{"], "2: the list of answers does not begin here"),
        ([b"[", b"]", b"", b"x"], "4: there is more after the end of the list"),
        ([b"[", ONE, b'{"qsl_idx": 1}', b"]"], "3: no answer of LoadGen: 'data'"),
        ([b"[", b"7", b"]"], "2: no answer of LoadGen: 'int' object has no attribute 'get'"),
        (
            [b"[", b'{"qsl_idx": 1, "data": 5}', b"]"],
            "2: no answer of LoadGen: fromhex() argument must be str, not int",
        ),
        ([b"[", b'{"qsl_idx": 1e999, "data": ""}', b"]"], "2: no answer of LoadGen: cannot convert float infinity"),
        ([b"[", b"\xff", b"]"], "2: no answer of LoadGen: 'utf-8' codec can't decode byte 0xff"),
    ],
    ids=["empty", "cut", "no list", "more", "no data", "a number", "no text", "too large", "no characters"],
)
def test_a_log_that_breaks_is_told_by_its_file_and_line(lines: list[bytes], said: str) -> None:
    for name, reader in (
        ("mlperf_log_accuracy.json", lambda: read_entries(lines)),
        ("other.json", lambda: read_entries(lines, "other.json")),
        ("held.json", lambda: read_held_entries(b"\n".join(lines), "held.json")),
    ):
        with pytest.raises(LogError) as caught:
            list(reader())
        assert caught.value.message.startswith(f"{name}:{said}")
        assert caught.value.fix == FIX


def test_entries_before_a_break_are_given_already() -> None:
    found = iter(read_entries([b"[", ONE, b"x"]))
    assert next(found) == BOTH[0]
    with pytest.raises(LogError, match=":3: "):
        next(found)
