"""Lines that LoadGen wrote itself are read without a JSON reader, to the same values."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import LogError
from reconciler.loadgen import log_line
from reconciler.loadgen.log import parse_detail

TAIL = (
    ', "time_ms": 0.048126, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", "metadata": '
    '{{"is_error": {}, "is_warning": {}, "file": "loadgen.cc", "line_no": 7, "pid": 1, "tid": 2}}}}'
)


def line(value: str, error: str = "false", warning: str = "false") -> bytes:
    return f':::MLLOG {{"key": "k", "value": {value}{TAIL.format(error, warning)}\n'.encode()


def test_a_log_whose_lines_name_no_process_is_of_one() -> None:
    assert parse_detail(line("1").replace(b'"pid": 1,', b"") * 2).index.one_process


@pytest.mark.parametrize("tail", ["", " "], ids=["as LoadGen writes it", "otherwise"])
def test_a_number_that_no_double_comes_near_to_is_broken_on_every_line(tail: str) -> None:
    with pytest.raises(LogError, match="a number is out of range"):
        parse_detail(line("1e999").replace(b'"time_ms":', f'"time_ms":{tail}'.encode()))


SOURCES = '{"/a.cc": "01ab", "/caf\u00e9": ["x", 1.5]}'
ODD = st.sampled_from(
    ["", '"', "\\", "{", "}", ", ", '"time_ms": ', ', "time_ms": 1.5', ', "value": 3', "\\u12", "1e999", "\x01", "NaN"]
)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30), ODD), max_size=2), st.booleans())
@example([(0, 0, "")], False)
def test_a_value_that_many_logs_have_is_that_of_its_whole_line(damages: list[tuple[int, int, str]], text: bool) -> None:
    """LoadGen says the same of its sources in all logs of a release: it is decoded once, and apart from its line."""
    written = line('"two\\nlines"' if text else SOURCES).decode()
    for at, count, piece in damages:
        written = written[:at] + piece + written[at + count :]
    data = line("1") + written.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_line, "_read_recent", lambda _: None)
        alone = read(data)
    assert read(data) == read(data) == alone


def read(data: bytes) -> object:
    try:
        return [(entry, entry.read()) for entry in parse_detail(data).lines]
    except LogError as error:
        return error.message, error.fix


@pytest.mark.parametrize("text", ["1e401", "-1e401", "1e-401"])
def test_a_number_beyond_is_refused(text: str) -> None:
    with pytest.raises(LogError, match="a number is out of range"):
        parse_detail(line(text))
