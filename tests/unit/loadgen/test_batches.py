"""Batches of samples are matched as a whole, and say what their lines say one by one, whatever is damaged in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import LogError
from reconciler.loadgen import log as reader
from reconciler.loadgen.answers import LoadedSamples, summarize_loaded
from reconciler.loadgen.keys import LOADED_QSL_SET as LOADED
from reconciler.loadgen.log import DetailLog, parse_detail

KEYS = ("generated_query_count", "power_begin", "power_end")
BATCHES = 12


def line(key: str, value: str, at: int, pid: int = 41, flags: str = "false", file: str = "loadgen.cc") -> bytes:
    stamp = f'"time_ms": {at}.25, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME"'
    metadata = f'{{"is_error": {flags}, "is_warning": false, "file": "{file}", "line_no": 7, "pid": {pid}, "tid": 9}}'
    return f':::MLLOG {{"key": "{key}", "value": {value}, {stamp}, "metadata": {metadata}}}\n'.encode()


def batch(at: int, **more: Any) -> bytes:
    values = (str(at), f'"07-31-2025 04:25:{at:02}.000"', f'"07-31-2025 04:26:{at:02}.000"')
    listed = line(LOADED, str([at, at + 100]), at)
    return listed + b"".join(line(key, value, at, **more) for key, value in zip(KEYS, values, strict=True))


HEAD = line("effective_test_mode", '"AccuracyOnly"', 0)
LOG = HEAD + b"".join(batch(at) for at in range(BATCHES)) + line("result_validity", '"VALID"', 99)


def read_singly(data: bytes) -> DetailLog:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "list_batch_lines", lambda *_: ())
        return parse_detail(data)


def describe(log: DetailLog) -> list[Any]:
    index = log.index
    keys = list(index)
    return [
        [keys, log.length, index.one_process, log.errors, log.warnings, index.began_at, index.ended_at],
        [(entry, entry.read()) for entry in log.lines],
        [(index.find_line_number(key), log.find_line(key), log.get(key), log.list_entries(key)) for key in keys],
        list(index.list_repeated(("power_", "loaded_", "effective_"))),
        index.list_texts(),
        summarize_loaded(log),
        [text[begin:end] for text, begin, end in index.find_lists(LOADED)],
    ]


def read(parse: Any, data: bytes) -> list[Any]:
    try:
        return describe(parse(data))
    except LogError as error:
        return [error.message, error.fix]


def are_matched(data: bytes) -> bool:
    """Whether some of its lines are of batches."""
    return len(parse_detail(data).index._texts) < parse_detail(data).length


def test_batches_are_matched_as_a_whole_to_what_their_lines_are() -> None:
    assert are_matched(LOG)
    log = parse_detail(LOG)
    assert describe(log) == describe(read_singly(LOG))
    assert log.length == LOG.count(b"\n") == log.find_line_number("result_validity")
    assert [entry.line for entry in log.list_entries("power_end")] == [5 + 4 * at for at in range(BATCHES)]
    assert summarize_loaded(log) == LoadedSamples(2 * BATCHES, BATCHES + 99)


def test_keys_of_batches_are_any_text() -> None:
    data = LOG.replace(b"power_begin", b"power\xff_begin").replace(b"generated_query_count", b"a.b+c")
    assert are_matched(data)
    assert describe(parse_detail(data)) == describe(read_singly(data))
    assert len(parse_detail(data).list_entries("power\ufffd_begin")) == BATCHES


SEVENTH = batch(7)
DAMAGED = {
    "an error": SEVENTH.replace(b'"is_error": false', b'"is_error": true'),
    "another process": SEVENTH.replace(b'"pid": 41', b'"pid": 42'),
    "another process of one line": SEVENTH.replace(b'"pid": 41', b'"pid": 42', 2),
    "another key": SEVENTH.replace(b"power_begin", b"power_began"),
    "a line more": SEVENTH + line("power_end", "7", 7),
    "a line of a program": SEVENTH + b"warning: slow\n",
    "an empty line": SEVENTH.replace(b"}}\n", b"}}\n\n"),
    "no line": b"",
    "a line less": SEVENTH.partition(b"\n")[2],
    "no number": SEVENTH.replace(b'"value": 7', b'"value": 07'),
    "a value within a value": SEVENTH.replace(b'"value": 7', b'"value": [[7], 8]'),
    "a list within a list": SEVENTH.replace(b"[7, 107]", b"[7, [107]]"),
    "a list that is none": SEVENTH.replace(b"[7, 107]", b"[7, oops]"),
    "a list of two lines": SEVENTH.replace(b"[7, 107]", b"[7,\n107]"),
    "a list that does not end": SEVENTH.replace(b"107]", b"107"),
    "a second value": SEVENTH.replace(b'"time_ms"', b'"value": [1], "time_ms"'),
    "an escaped text": SEVENTH.replace(b"loadgen.cc", b"C:\\\\loadgen.cc"),
    "a text that is not escaped": SEVENTH.replace(b"loadgen.cc", b"C:\\loadgen.cc"),
    "a text of two lines": SEVENTH.replace(b"loadgen.cc", b"load\ngen.cc"),
    "a text with a process": SEVENTH.replace(b"107]", b'107, "pid": 40, 0]'),
    "a process of many digits": SEVENTH.replace(b'"pid": 41', b'"pid": 4' + b"1" * 40),
    "blanks at the ends": SEVENTH.replace(b"}}\n", b"}} \n"),
    "line ends of Windows": SEVENTH.replace(b"}}\n", b"}}\r\n"),
    "a return alone": SEVENTH.replace(b"}}\n:::", b"}}\r:::"),
    "no UTF-8": SEVENTH.replace(b"power_begin", b"power\xff_begin"),
    "the end of the log": SEVENTH[:-40],
}


@pytest.mark.parametrize("other", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("place", [7, 0, BATCHES])
def test_a_batch_that_is_not_as_the_others_is_read_as_its_lines_are(other: bytes, place: int) -> None:
    batches = [batch(at) for at in range(2 * BATCHES)]
    data = HEAD + b"".join([*batches[:place], other, *batches[place + 1 :]])
    assert read(parse_detail, data) == read(read_singly, data)


PIECES = st.sampled_from(
    [b"", b"\n", b"\r", b'"', b"\\", b"[", b"]", b"{", b"}}", b" ", b"7", b"true", b"\xff", b":::MLLOG ", b'"pid": 7, ']
)
DAMAGES = st.lists(st.tuples(st.integers(0, len(LOG)), st.integers(0, 400), PIECES), min_size=1, max_size=3)


@given(DAMAGES)
@example([(LOG.index(b'"is_error": false', 900), 17, b'"is_error": true')])
@example([(LOG.index(b"power_begin", 2000), 11, b"power_end")])
def test_a_damaged_log_says_the_same_read_in_batches_and_line_by_line(damages: list[tuple[int, int, bytes]]) -> None:
    data = LOG
    for at, count, piece in damages:
        data = data[:at] + piece + data[at + count :]
    assert read(parse_detail, data) == read(read_singly, data)
