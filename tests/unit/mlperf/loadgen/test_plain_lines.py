"""Lines that LoadGen wrote itself are read without a JSON reader, to the same values."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

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


NUMBERS = ("0", "-3", "18209322760996052031", "1.9", "1e+06", "2.5E-3", "-0.5", "12345678901234567890.125")
OTHERS = ("true", "false", "null", '""', '"PySUT"', '"caf\u00e9"', '"a \\"b\\""', '"\\n"', "[]", "[1,2,3]", '{"a": 1}')


@pytest.mark.parametrize("value", [*NUMBERS, *OTHERS])
def test_a_value_is_that_of_its_json(value: str) -> None:
    (entry,) = parse_detail(line(value)).lines
    expected: Any = json.loads(value, parse_float=Decimal)
    assert entry.read() == expected
    assert type(entry.read()) is type(expected)


@pytest.mark.parametrize(("error", "warning"), [("true", "false"), ("false", "true"), ("false", "false")])
@pytest.mark.parametrize("value", ["1", '"text"', "[1,2]"])
def test_errors_and_warnings_are_seen(value: str, error: str, warning: str) -> None:
    log = parse_detail(line(value, error, warning))
    assert (len(log.errors), len(log.warnings)) == (error == "true", warning == "true")


@pytest.mark.parametrize("broken", ["01", "1.", "tru", "--1", "+1", '"a', "1 2", "NaN1", ".5"])
def test_a_broken_value_names_its_line(broken: str) -> None:
    with pytest.raises(LogError, match=r"log:2: broken log entry"):
        parse_detail(line("1") + line(broken), "log")


@pytest.mark.parametrize("value", ["1", '"text"', "[1,2,3]", '"a \\"b\\""', "null"])
@pytest.mark.parametrize("error", ["true", "false"])
def test_the_process_of_every_line_counts(value: str, error: str) -> None:
    own, other = line("1"), line(value, error).replace(b'"pid": 1,', b'"pid": 12,')
    assert parse_detail(own + line(value, error) + own).index.one_process
    for text in (own + other, other + own, own + other.rstrip(b"\n")):
        assert not parse_detail(text).index.one_process


def test_a_log_whose_lines_name_no_process_is_of_one() -> None:
    assert parse_detail(line("1").replace(b'"pid": 1,', b"") * 2).index.one_process


@pytest.mark.parametrize("pid", [b"1", b"12", b"2"])
def test_the_process_of_a_line_that_ends_otherwise_counts(pid: bytes) -> None:
    other = line("1").replace(b'"pid": 1,', b'"pid": %b,' % pid)
    for odd in (other.replace(b"}}", b"} }"), other.replace(b'"tid": 2', b'"tid": 2.5')):
        assert parse_detail(line("1") + odd).index.one_process is (pid == b"1")
        assert parse_detail(odd + line("1")).index.one_process is (pid == b"1")


def test_texts_of_lines_are_whole_and_of_plain_values_alone() -> None:
    plain, listed = line("1"), line("[1,2,3]").replace(b'"k"', b'"kept"')
    index = parse_detail(plain + listed + plain.replace(b'"k"', b'"known"')).index
    texts = index.list_texts(re.compile("k.*"))
    assert [(key, at) for key, at, _ in texts] == [("k", 1), ("known", 3)]
    assert all(text.count(b'"pid": 1,') == 1 and b'"time_ms"' in text for _, _, text in texts)


def test_a_process_that_only_a_text_names_is_none_of_the_log() -> None:
    assert parse_detail(line("1") + line('"the \\"pid\\": 7, of another"')).index.one_process


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b" \n"])
def test_lines_are_counted_and_found_whatever_their_ends(ending: bytes) -> None:
    rows = [line("1"), b"of a program\n", line("[1,2]"), b"\n", line('"text"'), line("2", error="true")]
    for last in (ending, b""):
        log = parse_detail(b"".join(row[:-1] + ending for row in rows[:-1]) + rows[-1][:-1] + last)
        assert log.length == 6
        assert [(entry.line, entry.read()) for entry in log.lines] == [(1, 1), (3, [1, 2]), (5, "text"), (6, 2)]
        assert [entry.line for entry in log.errors] == [6]


@pytest.mark.parametrize("value", ["1", '"text"', "[1,2,3]", '"a \\"b\\""', "null"])
@pytest.mark.parametrize("error", ["true", "false"])
@pytest.mark.parametrize("part", ['"time_ms": ', '"line_no": ', '"pid": ', '"tid": '])
def test_digits_that_no_json_has_are_broken_on_every_line(value: str, error: str, part: str) -> None:
    with pytest.raises(LogError, match=r"log:2: broken log entry"):
        parse_detail(line("1") + line(value, error).replace(part.encode(), part.encode() + b"0"), "log")


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


def test_a_key_is_what_its_text_says() -> None:
    for text, key in ((rb"a\u0062", "ab"), (b"a\xffb", "a\ufffdb"), ("caf\u00e9".encode(), "caf\u00e9")):
        data = line("1").replace(b'"k"', b'"%b"' % text)
        for value in (data, data.replace(b'"value": 1', b'"value": [1]'), data.replace(b'"value": 1', b'"value": {}')):
            log = parse_detail(line("7") + value + line("8") + value + line("9"))
            assert list(log.index) == ["k", key]
            assert [entry.line for entry in log.all_of(key)] == [2, 4]


@pytest.mark.parametrize(
    ("text", "value"), [("0e999", 0), ("-0e-999", 0), ("1e400", Decimal("1e400")), ("1e-400", Decimal("1e-400"))]
)
def test_a_number_is_read_as_far_as_doubles_are_thought_to_go(text: str, value: object) -> None:
    assert parse_detail(line(text)).get("k") == value


@pytest.mark.parametrize("text", ["1e401", "-1e401", "1e-401"])
def test_a_number_beyond_is_refused(text: str) -> None:
    with pytest.raises(LogError, match="a number is out of range"):
        parse_detail(line(text))


def test_names_of_more_keys_than_logs_have_are_forgotten() -> None:
    data = b"".join(line("1").replace(b'"k"', b'"k%d"' % number) for number in range(5000))
    assert list(parse_detail(data).index) == [f"k{number}" for number in range(5000)]
    assert len(log_line.NAMES) <= 4096


def test_what_a_log_has_of_its_keys() -> None:
    log = parse_detail(line("1") + line("2") + line('"x"').replace(b'"k"', b'"other"') + b"noise\n" + line("3"))
    index = log.index
    assert (len(index), list(index), "k" in index, "x" in index) == (2, ["k", "other"], True, False)
    assert (index["k"].line, index["other"].value, index.number("x")) == (1, "x", 0)
    assert index.list_absent(("x", "k", "y")) == ["x", "y"]
    assert [entry.line for entry in index.repeated(("k",))] == [2, 5]
    assert list(index.repeated(("o", "x"))) == []
    assert index.choose(re.compile("o.*")) == ["other"]
    assert [(key, at) for key, at, _ in index.list_texts()] == [("k", 1), ("other", 3)]
    with pytest.raises(KeyError):
        index["x"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "1", True),
        ("1", "1.0", False),
        ("1", '"1"', False),
        ('"a"', '"a"', True),
        ("true", "true", True),
        ("[1]", "[1]", False),
        ("1", "[1]", False),
        ("[1]", "1", False),
        (r'"\n"', '"n"', False),
        ('"n"', r'"\n"', False),
    ],
)
def test_pairs_are_those_that_do_not_plainly_say_the_same(one: str, other: str, same: bool) -> None:
    pair = [line(one).replace(b'"k"', b'"a_k"'), line(other).replace(b'"k"', b'"b_k"')]
    for data in (b"".join(pair), b"".join(reversed(pair))):
        assert parse_detail(data).index.list_pairs("a_", "b_") == ([] if same else [("a_k", "b_k")])
    assert parse_detail(pair[0]).index.list_pairs("a_", "b_") == []


def test_lists_of_a_key_are_found_where_each_of_its_lines_is_one() -> None:
    first, second = line("[1,2]"), line("[3]")
    found = parse_detail(first + line("7").replace(b'"k"', b'"other"') + second).index.find_lists("k")
    assert [text[begin:end] for text, begin, end in found] == [b"[1,2]", b"[3]"]
    for other in (line("7"), line("[3]").replace(b"}}", b"} }")):
        assert parse_detail(first + other).index.find_lists("k") == []
    assert parse_detail(first).index.find_lists("other") == []


def test_clocks_of_loadgens_logger_are_those_of_both_ends() -> None:
    begun, ended = (line('"x"').replace(b'"k"', key) for key in (b'"power_begin"', b'"power_end"'))
    index = parse_detail(begun + ended.replace(b"0.048126", b"7.5")).index
    assert (index.began_at, index.ended_at) == (Decimal("0.048126"), Decimal("7.5"))
    assert (parse_detail(ended).index.began_at, parse_detail(begun).index.ended_at) == (None, None)
    assert parse_detail(begun.replace(b'"x"', b"[1]")).index.began_at is None


def test_integers_of_a_list_are_read_whatever_else_it_has() -> None:
    for text, integers in (("[1,2]", [1, 2]), ('[1,"x",2.5,3]', [1, 3]), ("[]", []), ("[1,x]", [])):
        (entry,) = parse_detail(line(text)).lines
        assert entry.read_integers() == integers
    (plain,) = parse_detail(line("7")).lines
    assert plain.read_integers() == []
    assert (plain.error, plain.warning, plain.raw) == (False, False, b"")
