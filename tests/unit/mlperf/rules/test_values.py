"""The values that rules are made of: what a verdict file must say, and which metric of a benchmark is published."""

from __future__ import annotations

import pytest

from reconciler.resource.ruled_values import (
    Expected,
    parse_expected,
)


def test_a_text_is_expected_anywhere_or_as_a_whole_line_and_a_list_in_a_list_holds_alternatives() -> None:
    entry = {"a.txt": ["= TEST PASS", "pass"], "b.txt": [["= yes", "= no"], ["one", "= two"], ("x",)], "c.txt": []}
    assert parse_expected(entry) == (
        Expected("a.txt", ("TEST PASS",), True),
        Expected("a.txt", ("pass",), False),
        Expected("b.txt", ("yes", "no"), True),
        Expected("b.txt", ("one", "two"), False),
        Expected("b.txt", ("x",), False),
    )


@pytest.mark.parametrize(
    ("lines", "whole", "anywhere"),
    [
        (["TEST PASS"], True, True),
        (["x", "  OK\t"], True, True),
        (["a TEST PASS"], False, True),
        (["TEST FAIL"], False, False),
        ([], False, False),
    ],
    ids=str,
)
def test_a_line_says_what_is_expected(lines: list[str], whole: bool, anywhere: bool) -> None:
    texts = ("TEST PASS", "OK")
    assert Expected("f", texts, True).stands_in(lines) is whole
    assert Expected("f", texts, False).stands_in(lines) is anywhere
