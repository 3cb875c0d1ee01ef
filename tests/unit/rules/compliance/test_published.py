"""Verify files that somebody published, against the limits of the round and what accompanies them."""

from __future__ import annotations

import json

import pytest

from reconciler.resource.ruled_values import TestRules
from reconciler.rules.compliance.definition import RunLogs
from reconciler.rules.compliance.published import Published, judge_files
from reconciler.rules.rounds import load_ruleset
from tests.unit.rules.compliance.runs import write_answers, write_detail

NONE = RunLogs()
ACCURACY, PERFORMANCE = "verify_accuracy.txt", "verify_performance.txt"
LEAST = "60.698"


def rules_of(test: str, benchmark: str = "resnet") -> TestRules:
    return load_ruleset("v6.1").benchmarks[benchmark].find_test(test, "Offline")


@pytest.mark.parametrize(
    ("score", "word", "said", "found"),
    [
        (LEAST, "TEST PASS", True, True),
        ("60.697", "TEST PASS", True, False),
        ("60.697", "said no more", False, False),
        (LEAST, "said no more", False, True),
    ],
)
def test_a_published_score_is_checked_against_the_limit(score: str, word: str, said: bool, found: bool) -> None:
    texts, rules = {ACCURACY: f"'exact_match': {score}\n{word}\n"}, rules_of("TEST07", "gpt-oss-120b")
    (judged,) = judge_files(Published("TEST07", rules, "Offline", (), NONE, NONE, NONE, texts.get))
    assert (judged.file, judged.said, judged.found, judged.sure) == (ACCURACY, said, found, True)
    assert judged.again.figures == {"accuracy": score, "threshold": LEAST}
    assert judged.reasons == (() if found else (f"the accuracy {score} is below the threshold {LEAST}",))


def log_answers(*answers: str) -> RunLogs:
    detail = write_detail(result_samples_per_second=100.0)
    summary = b"Scenario : Offline\nResult is : VALID\nSamples per second: 100\n"
    return RunLogs(detail, summary, lambda: write_answers(*answers))


def judge_all(
    test: str, rules: TestRules | None, texts: dict[str, str], audit: RunLogs, performance: RunLogs, accuracy: RunLogs
) -> list[tuple[str, bool, bool, bool, tuple[str, ...]]]:
    """(file, what it says, what its logs say, whether that is sure, why they do not pass)."""
    found = judge_files(Published(test, rules, "Offline", ("acc",), audit, performance, accuracy, texts.get))
    return [(each.file, each.said, each.found, each.sure, each.reasons) for each in found]


PASS, FAIL = "x\n  TEST PASS \n", "x\nTEST FAIL\n"
RUN = log_answers("01020304", "05060708")
OTHER = log_answers("01020304", "09060708")
DIFFERS = "1 of 2 answers differ from the accuracy run's, as of samples 1"


def test_answers_that_differ_in_every_type_are_compared_by_what_the_scorer_said() -> None:
    rules = rules_of("TEST01")
    assert judge_all("TEST01", rules, {ACCURACY: PASS}, OTHER, RUN, RUN) == [(ACCURACY, True, False, True, (DIFFERS,))]
    reports = {"accuracy/baseline_accuracy.txt": "accuracy=70", "accuracy/compliance_accuracy.txt": "accuracy=70"}
    (judged,) = judge_files(
        Published("TEST01", rules, "Offline", ("acc",), OTHER, RUN, RUN, {ACCURACY: PASS, **reports}.get)
    )
    assert (judged.found, judged.reasons) == (False, (DIFFERS,))
    assert judged.again.notes == (f"compared by accuracy, because {DIFFERS}",)
    # the first bytes are the same, the first integers are not
    alike = log_answers("01FFFFFF", "05060708")
    assert judge_all("TEST01", rules, {ACCURACY: FAIL}, alike, RUN, RUN) == [(ACCURACY, False, True, True, ())]


def test_tests_of_earlier_rounds_are_checked_against_their_logs_too() -> None:
    fast = RunLogs(summary=RUN.summary.replace(b"100", b"120"))
    assert judge_all("TEST04-A", None, {PERFORMANCE: PASS}, fast, RUN, NONE) == [
        (PERFORMANCE, True, False, True, ("TEST04-B is faster: 20.00 % above 100 of TEST04-A",))
    ]
    assert judge_all("TEST04-A", None, {PERFORMANCE: "TEST PASSED"}, RUN, RUN, NONE) == [
        (PERFORMANCE, False, True, True, ())
    ]
    assert judge_all("TEST05", None, {PERFORMANCE: PASS}, RUN, RUN, NONE) == []
    assert judge_all("TEST77", rules_of("TEST04"), {PERFORMANCE: PASS}, RUN, RUN, NONE) == []
    assert judge_all("TEST04", rules_of("TEST04", "stable-diffusion-xl"), {PERFORMANCE: PASS}, fast, RUN, NONE) == [
        (PERFORMANCE, True, False, True, ("the score 120 is 20.00 % above 100; less than 10 % above is allowed",))
    ]


def test_answers_are_read_as_the_first_type_as_which_they_pass() -> None:
    """Tokens of eight bytes are twice as many of four."""
    entry = {"seq_id": 0, "qsl_idx": 0, "data": "07000000000000000200000000000000", "token_count": 2}
    run = RunLogs(answers=lambda: [b"[", json.dumps(entry).encode(), b"]"])
    text = "First token check pass: Skipped\nEOS check pass: True\nSample length check pass: True\n"
    rules = rules_of("TEST06", "llama2-70b-99.9")
    (judged,) = judge_files(Published("TEST06", rules, "Offline", (), run, NONE, NONE, {ACCURACY: text}.get))
    assert (judged.found, judged.reasons, judged.again.figures["dtype"]) == (True, (), "int64")
    (first, _) = judge_files(
        Published("TEST01", rules_of("TEST01"), "Offline", (), RUN, RUN, RUN, {ACCURACY: PASS, PERFORMANCE: PASS}.get)
    )
    assert first.again.figures["accuracy.compared as"] == "byte, first element"
