"""What each compliance test is, and the whole texts of verdicts that a few made-up answers and scores give."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from msgspec.structs import replace

from reconciler.loadgen.log_files import BASELINE, COMPLIANCE
from reconciler.rules.compliance.definition import MissingLogError, Part, RunLogs, VerdictInputs
from reconciler.rules.compliance.entries import Entry
from reconciler.rules.compliance.judging import judge
from reconciler.rules.compliance.test06 import judge_test06
from reconciler.rules.compliance.test07 import judge_test07
from tests.unit.rules.compliance.runs import write_answers, write_detail


def numbers(index: int, *values: int, code: str = "i", counted: int | None = None, began: bytes | None = None) -> Entry:
    return Entry(index, struct.pack(f"<{len(values)}{code}", *values), counted, began)


BEGAN = struct.pack("<i", 7)


@pytest.mark.parametrize(
    ("report", "found", "passed"),
    [
        ("x {'exact_match': 81.5} {'exact_match': 1}\n\n", "81.5", True),
        ("'exact_match':80", "80", True),
        ("'exact_match': 79.9", "79.9", False),
        ("'exact_match': 8.1.2", "none", False),
        ("TEST PASS", "none", False),
        ("", "none", False),
    ],
)
def test_a_score_is_reported_behind_the_scorers_words(report: str, found: str, passed: bool) -> None:
    verdict = judge_test07(report, Decimal(80))
    assert verdict.passed is passed
    assert verdict.figures == {"accuracy": found, "threshold": "80"}
    (text,) = verdict.files.values()
    assert ("TEST PASS" in text.splitlines()) is passed


@pytest.mark.parametrize(
    ("changes", "passed", "by_speed"),
    [
        ({}, True, False),
        ({"result_completed_samples_per_sec": 110.0}, True, False),
        ({"result_completed_samples_per_sec": 90.0}, True, False),
        ({"result_completed_samples_per_sec": 89.0}, False, True),
        ({"effective_target_latency_ns": 7}, False, False),
        ({"effective_target_latency_ns": 7, "result_completed_samples_per_sec": 1.0}, False, False),
        ({"result_completed_samples_per_sec": None}, False, False),
    ],
    ids=str,
)
def test_speed_is_compared_at_one_target(changes: dict[str, object], passed: bool, by_speed: bool) -> None:
    base: dict[str, object] = {"effective_scenario": "Server", "effective_target_latency_ns": 5}
    base["result_completed_samples_per_sec"] = 100.0
    performance, audit = (RunLogs(write_detail(**{**base, **more})) for more in ({}, changes))
    verdict = judge("TEST01", VerdictInputs(audit=audit, performance=performance, known_answers=Part()))
    assert (verdict.passed, verdict.by_speed) == (passed, by_speed)


FAST = RunLogs(write_detail(result_samples_per_second=100.0))


def log_answers(*answers: str) -> RunLogs:
    return replace(FAST, answers=lambda: write_answers(*answers))


def test_a_log_that_test01_lacks_is_identified_by_its_run() -> None:
    run = log_answers("01")
    for inputs, absent in (
        (VerdictInputs(run, RunLogs(), run), "performance"),
        (VerdictInputs(RunLogs(answers=run.answers), run, run), "audit"),
        (VerdictInputs(FAST, run, run), "audit"),
        (VerdictInputs(run, run, FAST), "accuracy"),
    ):
        with pytest.raises(MissingLogError, match=f"^{absent}$"):
            judge("TEST01", inputs)
    half = VerdictInputs(run, run, log_answers("02"), metrics=("acc",), reports={BASELINE: "accuracy=1"})
    for reports in (half.reports, {COMPLIANCE: "accuracy=1"}, {}):
        assert not judge("TEST01", replace(half, reports=reports)).passed
    assert judge("TEST01", replace(half, reports={BASELINE: "accuracy=1", COMPLIANCE: "accuracy=1"})).passed


def test_numbers_that_are_no_integers_are_compared_as_numbers() -> None:
    zeros = Entry(3, struct.pack("<3f", 7, 0.0, -0.0), 3, struct.pack("<f", 7))
    (reason,) = judge_test06([zeros], "Server", eos_token_id=0, dtype="float32").reasons
    assert reason == "sample 3 ends with 2 tokens 0 (end of sequence), one at most is allowed"
    odd = Entry(3, struct.pack("<3f", float("nan"), 8, 2), 3, struct.pack("<f", float("nan")))
    assert judge_test06([odd], "Server", dtype="float32").reasons == (
        "sample 3 begins with (nan,), and (nan,) was reported first",
    )
    cut = numbers(3, 7, 8, 2, counted=3, began=BEGAN[:3])
    assert judge_test06([cut], "Server").reasons == ("sample 3: first token: 3 bytes are not a whole number of int32",)


@pytest.mark.parametrize(
    ("inputs", "figures"),
    [
        ({"dtype": "int64"}, {"answers": "1", "eos_token_id": "2", "dtype": "int64"}),
        ({"eos_token_id": 5}, {"answers": "1", "eos_token_id": "5", "dtype": "int32"}),
    ],
)
def test_tokens_are_read_as_they_are_declared(inputs: dict[str, object], figures: dict[str, str]) -> None:
    run = log_answers(struct.pack("<2i", 7, 0).hex())
    verdict = judge("TEST06", replace(VerdictInputs(run, scenario="Offline"), **inputs))
    assert verdict.figures == figures
    assert verdict.files["verify_accuracy.txt"].startswith("First token check pass: Skipped\n")
    served = judge("TEST06", VerdictInputs(run, scenario="Server"))
    assert not served.files["verify_accuracy.txt"].startswith("First token check pass: Skipped")


def test_lengths_and_entropies_are_checked_against_the_limits_of_the_round() -> None:
    limits = {"least_mean_tokens": "1.5", "most_mean_tokens": "2"}
    run = log_answers("00" * 8, "00" * 4)
    assert judge("TEST09", VerdictInputs(run, limits=limits)).passed
    assert not judge("TEST09", VerdictInputs(run, limits={**limits, "least_mean_tokens": "1.6"})).passed
    whole = log_answers(struct.pack("<6f", 1, 7, 0.5, 1, 1, 1).hex())
    audit = log_answers(struct.pack("<3f", 1, 7, 0.505).hex())
    assert judge("TEST08", VerdictInputs(audit, accuracy=whole)).figures["tolerance"] == "0.10%"
    loose = VerdictInputs(audit, accuracy=whole, limits={"most_entropy_change": "5"})
    assert (judge("TEST08", loose).passed, judge("TEST08", loose).figures["tolerance"]) == (True, "5.00%")
