"""Verify files that somebody published, against the limits of the round and what stands beside them."""

from __future__ import annotations

import pytest

from reconciler.mlperf.compliance.definition import RunLogs
from reconciler.mlperf.compliance.published import Judged, Published, judge_files
from reconciler.mlperf.rules.rounds import load_ruleset
from reconciler.mlperf.rules.values import TestRules

NONE = RunLogs()
FILE = "verify_accuracy.txt"
LEAST = "60.698"


def find_rules() -> TestRules:
    rules = load_ruleset("v6.1").benchmark("gpt-oss-120b")
    assert rules is not None
    return rules.test("TEST07", "Offline")


def judge(text: str, rules: TestRules | None) -> list[Judged]:
    texts = {FILE: text}
    return list(judge_files(Published("TEST07", rules, "Offline", (), NONE, NONE, NONE, texts.get)))


@pytest.mark.parametrize(
    ("score", "word", "said", "found"),
    [
        (LEAST, "TEST PASS", True, True),
        ("60.697", "TEST PASS", True, False),
        ("60.697", "said no more", False, False),
        (LEAST, "said no more", False, True),
    ],
)
def test_a_score_that_was_published_is_held_against_the_limit_of_the_round(
    score: str, word: str, said: bool, found: bool
) -> None:
    (judged,) = judge(f"'exact_match': {score}\n{word}\n", find_rules())
    assert (judged.file, judged.said, judged.found, judged.sure) == (FILE, said, found, True)
    assert judged.again.figures == {"accuracy": score, "threshold": LEAST}
    assert judged.reasons == (() if found else (f"the accuracy {score} is below the threshold {LEAST}",))


def test_a_test_that_the_round_does_not_have_is_held_against_no_limit() -> None:
    assert judge(f"'exact_match': {LEAST}\nTEST PASS\n", None) == []
