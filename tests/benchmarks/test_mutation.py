"""Mutants are of the kind that a slip of the hand makes, each in one place, and each can be read by Python."""

from __future__ import annotations

import ast

import pytest

from tests.benchmarks.mutation import mutants_of


def changes(text: str) -> set[tuple[str, str]]:
    return {(mutant.before, mutant.after) for mutant in mutants_of("module.py", text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", {("a < b", "(a <= b)"), ("a < b", "(a >= b)")}),
        ("a in b", {("a in b", "(a not in b)")}),
        ("a and b", {("a and b", "(a or b)"), ("a and b", "a"), ("a and b", "b")}),
        ("not a", {("not a", "a")}),
        ("a if b else c", {("a if b else c", "a"), ("a if b else c", "c")}),
        ("a - b", {("a - b", "(a + b)")}),
        ("f'{a}' + b", set()),
        ("x = 'name'", {("'name'", "'nameX'")}),
        ("x = 'words that a person reads'", set()),
        ("x = True", {("True", "False")}),
        ("any(a)", {("any(a)", "all(a)"), ("any(a)", "pass")}),
        ("[a for a in b if c]", {("[a for a in b if c]", "[a for a in b]")}),
        ("[a, b]", {("[a, b]", "[a]"), ("[a, b]", "[b]")}),
        ("if a: b", {("a", "(not a)")}),
        ("def f(a: 'A' = 1) -> 'B': return a", {("1", "2"), ("return a", "return None")}),
        ("@d('x')\nclass C('y'): pass", set()),
    ],
)
def test_a_mutant_changes_what_may_be_slipped(text: str, expected: set[tuple[str, str]]) -> None:
    assert changes(text) == expected


def test_a_mutant_leaves_every_other_byte_as_it_is() -> None:
    text = "# ä comment\ndef f(a):\n    'Says é.'\n    return a > 1  # ü\n"
    for mutant in mutants_of("module.py", text):
        mutated = mutant.applied_to(text.encode()).decode()
        assert mutated != text
        ast.parse(mutated)
        assert mutated.startswith("# ä comment\ndef f(a):\n    'Says é.'\n    ")
        assert mutated.endswith("  # ü\n")
