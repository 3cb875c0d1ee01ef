"""The ends of an accuracy log that was truncated for submission."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.loadgen.log_files import is_truncated, log_hash, split_answers, truncate_text
from reconciler.resource.ruled_values import AccuracyLogRule
from reconciler.rules.accuracy import find_lines, parse_accuracy, split_lines


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lines of the script", "lines of Windows"])
def test_a_truncated_log_has_the_whole_lines_of_both_ends(end: bytes) -> None:
    log = end.join([b"[", b"first,", b"second,", b"cut he", b"", b"...", b"", b"last but one,", b"last]"])
    assert is_truncated(log)
    assert split_answers(log) == ([b"[", b"first,", b"second,", b"last but one,", b"last]"], False)


def test_a_whole_log_has_all_of_its_lines() -> None:
    log = b"[\nfirst,\nlast ... ]"
    assert not is_truncated(log)
    assert split_answers(log) == ([b"[", b"first,", b"last ... ]"], True)


@pytest.mark.parametrize("dots", [b"...", b"\n...", b"\n...\n", b"\n...\n\n"])
def test_dots_before_the_cut_are_no_cut(dots: bytes) -> None:
    log = b"[\nfirst," + dots + b"second,\ncut he\n\n...\n\nlast]"
    assert is_truncated(log)
    assert split_answers(log) == ([*(b"[\nfirst," + dots + b"second,").splitlines(), b"last]"], False)
    assert not is_truncated(b"[\nfirst," + dots + b"second]")


RULE = AccuracyLogRule(limit=30, whole_below=9, keep=4)


def test_a_log_is_cut_from_a_size_on() -> None:
    assert truncate_text(b"12345678", b"5678", 8, RULE) == b"12345678"
    assert truncate_text(b"1234", b"6789", 9, RULE) == b"1234\n\n...\n\n6789"
    assert log_hash(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("log", "answers", "whole"),
    [
        (b"", [], True),
        (b"one\ntwo", [b"one", b"two"], True),
        (b"one\ntwo\n\n...\n\nthree\nfour", [b"one", b"three", b"four"], False),
        (b"\n\n...\n\nthree", [b"three"], False),
        (b"one\n\n...\n\n", [], False),
        (b"one\n...\n\ntwo", [b"one", b"...", b"", b"two"], True),
        (b"one\n\n...\ntwo", [b"one", b"", b"...", b"two"], True),
        (b"one\n\n..\n\ntwo", [b"one", b"", b"..", b"", b"two"], True),
        (b"one\ntwo\r\n\r\n...\r\n\r\nthree", [b"one", b"three"], False),
        (b"one\ntwo\r\n\n...\n\r\nthree", [b"one", b"three"], False),
    ],
)
def test_answers_of_a_log_are_the_whole_lines_around_its_cut(log: bytes, answers: list[bytes], whole: bool) -> None:
    assert split_answers(log) == (answers, whole)
    assert is_truncated(log) is not whole


@pytest.mark.parametrize("size", [4096, 5000, 8000])
def test_what_is_in_both_ends_of_a_short_log_is_one(size: int) -> None:
    """Below twice what is kept, the two ends overlap."""
    line = b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "0A" },\n'
    log = b"[\n" + b"".join(line % (number, number * 7) for number in range(size))
    log = log[: size - 2] + b"\n]"
    cut = truncate_text(log[:4096], log[-4096:], size, AccuracyLogRule(limit=10240, keep=4096, whole_below=4096))
    assert split_answers(cut) == (log.splitlines(), False)


@pytest.mark.parametrize("end", [b",\n]\n", b",]", b" , \r\n]\r\n"])
def test_a_log_that_ends_in_a_comma_was_cut_by_hand(end: bytes) -> None:
    """LoadGen writes none behind the last entry."""
    log = b'[\n{ "seq_id" : 816, "qsl_idx" : 1227, "data" : "17" }' + end
    assert is_truncated(log)
    assert split_answers(log) == (log.splitlines(), False)
    assert not is_truncated(log.replace(end, b"\n]\n"))


@pytest.mark.parametrize(
    ("text", "words", "found"),
    [
        ("", ("a",), []),
        ("a", ("a",), [(1, "a")]),
        ("b\nxaxa\nb\n\nya", ("a",), [(2, "xaxa"), (5, "ya")]),
        ("a\na\n", ("a",), [(1, "a"), (2, "a")]),
        ("b\nc", ("a",), []),
        ("b\r\na\rc\nxa", ("a",), [(2, "a"), (4, "xa")]),
        ("a\nb\nc", ("c", "a"), [(1, "a"), (3, "c")]),
        ("a\nb\nc", ("x", "b"), [(2, "b")]),
        ("a", ("x", "y"), []),
        ("a", (), []),
    ],
)
def test_lines_are_those_that_hold_a_word(text: str, words: tuple[str, ...], found: list[tuple[int, str]]) -> None:
    assert list(find_lines(text, *words)) == found


@given(st.text(alphabet="ab\r\n", max_size=40))
def test_lines_are_as_text_mode_splits_them(text: str) -> None:
    wanted = [(number, line) for number, line in enumerate(split_lines(text), start=1) if "a" in line]
    assert list(find_lines(text, "a")) == wanted


def test_a_score_behind_a_line_for_each_sample_has_its_own_line() -> None:
    text = "".join(f"{number}.jpg, expected: 3, found 4\n" for number in range(1000))
    report = parse_accuracy(f"{text}accuracy=70.100%, good=701, total=1000\nhash={'a' * 64}\n", ("acc", "mAP"))
    (measured,) = report.metrics["acc"]
    assert (str(measured.value), measured.line, report.metrics["mAP"], report.hash_line) == ("70.100", 1001, (), 1002)
