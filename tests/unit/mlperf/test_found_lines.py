"""Lines of accuracy.txt that hold a word, with their numbers, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.rules.accuracy import parse_accuracy
from reconciler.rules.accuracy_lines import find_lines, split_lines


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
