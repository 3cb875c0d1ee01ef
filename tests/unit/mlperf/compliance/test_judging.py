"""What each compliance test is, and the whole texts of verdicts that a few made-up answers and scores give."""

from __future__ import annotations

import json
import struct
from decimal import Decimal

import pytest
from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen.log_files import BASELINE, COMPLIANCE
from reconciler.loadgen.summary import SummaryLog, parse_summary
from reconciler.rules.compliance.definition import ComplianceTest, MissingLogError, RunLogs, VerdictInputs, name_answers
from reconciler.rules.compliance.entries import Entry, measure, read_entries
from reconciler.rules.compliance.judging import (
    SAME,
    TESTS,
    UNIQUE,
    choose_dtype,
    collect_verdict_inputs,
    find_test,
    judge,
)
from reconciler.rules.compliance.legacy_tests import verify_test05
from reconciler.rules.compliance.scores import Scored, Slack, show_score
from reconciler.rules.compliance.test01 import Fallback, compare_accuracies, compare_answers, find_slack
from reconciler.rules.compliance.test04 import compare_speed
from reconciler.rules.compliance.test06 import judge_test06
from reconciler.rules.compliance.test07 import judge_test07
from reconciler.rules.compliance.test08 import judge_test08
from reconciler.rules.compliance.test09 import judge_test09
from reconciler.rules.compliance.verdict import AuditVerdict, Part, merge_parts, verify_text
from reconciler.rules.ruled_value import RuledValue
from reconciler.rules.ruleset import BenchmarkRules

EVERY_DTYPE = ("byte", "float32", "int32", "int64")
BOTH = ("audit", "accuracy")
# What is not the default of a test.
SPECIAL = {
    "TEST01": {
        "reads_answers": BOTH,
        "dtypes": EVERY_DTYPE,
        "speed_file": "verify_performance.txt",
        "marks": ("accuracy_log_sampling_target", "accuracy_log_probability"),
        "asks_scorer": True,
    },
    "TEST04": {"shows_answers": False, "marks": ("performance_issue_same",)},
    "TEST04-A": {"shows_run": False, "shows_answers": False, "own_files": ("verify_performance.txt",)},
    "TEST05": {"shows_answers": False},
    "TEST06": {
        "reads_answers": ("audit",),
        "dtypes": ("int32", "int64", "int16", "float32"),
        "shows_run": False,
        "shown_whole": True,
        "sure": False,
    },
    "TEST07": {"reads_answers": ("audit",), "scored": True, "asks_scorer": True},
    "TEST08": {"reads_answers": BOTH, "shows_run": False, "shows_answers": False},
    "TEST09": {"reads_answers": ("audit",)},
    "TEST77": {"shows_run": False, "shows_answers": False},
}
USUAL = {
    "reads_answers": (),
    "scored": False,
    "dtypes": (),
    "speed_file": "",
    "shows_run": True,
    "shows_answers": True,
    "shown_whole": False,
    "own_files": (),
    "sure": True,
    "marks": (),
    "asks_scorer": False,
}


def test_each_test_is_what_its_script_reads_and_leaves() -> None:
    assert [*TESTS, "TEST77"] == list(SPECIAL)
    for name, special in SPECIAL.items():
        test: ComplianceTest = find_test(name)
        assert {part: getattr(test, part) for part in USUAL} == {**USUAL, **special}, name
    assert (UNIQUE, SAME) == ("TEST04-A", "TEST04-B")
    with pytest.raises(KeyError, match="a test that is not known here has no verdict"):
        judge("TEST77", VerdictInputs(RunLogs()))


def test_a_text_names_its_figures_and_its_reasons() -> None:
    figures = {"one": "1", "two": "2"}
    assert verify_text("title", Part(figures=figures)) == "title\none: 1\ntwo: 2\nTEST PASS\n"
    failed = Part(("bad", "worse"), figures)
    assert verify_text("title", failed) == "title\none: 1\ntwo: 2\nTEST FAIL: bad\nTEST FAIL: worse\n"
    assert merge_parts([("a", failed), ("b", Part(figures={"one": "3"}))]) == {"a.one": "1", "a.two": "2", "b.one": "3"}
    assert (Part().passed, failed.passed, Part().by_speed, AuditVerdict("T").by_speed) == (True, False, False, False)
    assert (AuditVerdict("T").passed, AuditVerdict("T", ("bad",)).passed) == (True, False)


def test_the_inputs_of_a_verdict_are_those_of_its_record() -> None:
    audit, performance, accuracy = (RunLogs(detail=name.encode()) for name in ("a", "p", "c"))
    inputs = {"test": "TEST06", "dtype": "int64", "eos_token_id": "7", "limit.x": 5, "limit.y": Decimal("1.5"), "z": 1}
    found = collect_verdict_inputs(
        inputs,
        {"audit": audit, "performance": performance, "accuracy": accuracy},
        "Server",
        ["acc", "F1"],
        known={"reasons": ["differs"], "figures": {"n": "1"}},
    )
    assert found == VerdictInputs(
        audit=audit,
        performance=performance,
        accuracy=accuracy,
        scenario="Server",
        dtype="int64",
        eos_token_id=7,
        limits={"x": "5", "y": "1.5"},
        metrics=("acc", "F1"),
        known_answers=Part(("differs",), {"n": "1"}),
    )
    least = collect_verdict_inputs({"test": "TEST06"}, {}, "Offline", (), response="int16")
    assert least == VerdictInputs(audit=RunLogs(), scenario="Offline", dtype="int16")
    assert (least.eos_token_id, least.limit("x", "0.5"), found.limit("x", "1")) == (2, Decimal("0.5"), 5)
    assert (found.slack("x").usual, choose_dtype("TEST06", "", "byte")) == (5, "")


def test_logs_are_called_by_their_run() -> None:
    assert name_answers("audit") == "mlperf_log_accuracy.json of the audit run"
    broken = RunLogs(detail=b"x", summary=b"", answers=lambda: [b"x"])
    with pytest.raises(LogError) as caught:
        list(broken.entries("accuracy"))
    assert caught.value.message == (
        "mlperf_log_accuracy.json of the accuracy run:1: the list of answers does not begin here"
    )


@pytest.mark.parametrize(
    ("limits", "scenario", "score", "part"),
    [
        ({}, "Offline", 1, 0.1),
        ({}, "Server", 1, 0.1),
        ({}, "", -1, 0.2),
        ({}, "SingleStream", 200_000, 0.2),
        ({}, "SingleStream", 200_001, 0.1),
        ({}, "MultiStream", 1_600_000, 0.2),
        ({}, "MultiStream", 1_600_001, 0.1),
        ({"gain": "3"}, "Offline", 1, 0.03),
        ({"gain": "3"}, "SingleStream", 1, 0.2),
        ({"gain_when_short": 30}, "SingleStream", 1, 0.3),
        ({"gain_when_short": 30}, "SingleStream", 10**9, 0.1),
        ({"short_single_stream_latency": "5"}, "SingleStream", 6, 0.1),
        ({"short_single_stream_latency": "5"}, "MultiStream", 6, 0.2),
        ({"short_multi_stream_latency": "5"}, "MultiStream", 6, 0.1),
        ({"other": "3"}, "Offline", 1, 0.1),
    ],
)
def test_a_score_may_be_off_by_a_tenth_and_a_short_latency_by_a_fifth(
    limits: dict[str, object], scenario: str, score: float, part: float
) -> None:
    assert Slack.ruled(limits, "gain").of(scenario, score) == part


def test_the_slack_of_a_repeat_is_what_the_round_says_of_test01() -> None:
    assert find_slack(None, "Offline") == Slack(10, 20, 200_000, 1_600_000)
    stated = {"files": (), "compared_with": (), "expects": {}, "performance_checks": False}
    stated |= {"limits.most_score_change": "5", "limits.short_single_stream_latency": 7}
    ruled = {f"tests.TEST01.{name}": RuledValue(value, ("verification",)) for name, value in stated.items()}
    rules = BenchmarkRules("net", "v0.1", {}, RuledValue({}, ("checker",)), {"": (ruled,)})
    assert find_slack(rules, "Offline") == Slack(5, 20, 7, 1_600_000)
    assert find_slack(BenchmarkRules("net", "v0.1", {}, rules.tables_ruled, {"": ({},)}), "Offline") == Slack()
    assert (show_score(None), show_score(1234567890.125), show_score(0.0)) == ("none", "1234567890", "0")


def numbers(index: int, *values: int, code: str = "i", counted: int | None = None, began: bytes | None = None) -> Entry:
    return Entry(index, struct.pack(f"<{len(values)}{code}", *values), counted, began)


def test_numbers_of_an_answer_are_of_one_size() -> None:
    sizes = {"byte": 1, "int16": 2, "int32": 4, "int64": 8, "float32": 4}
    assert {dtype: measure(dtype) for dtype in sizes} == sizes
    entry = numbers(1, 10, 20, 30)
    assert (entry.values("int32"), entry.count("int32"), entry.count("byte")) == ((10, 20, 30), 3, 12)
    assert (entry.first("int32"), entry.first("int32", 2), entry.first("int32", 9)) == ((10,), (10, 20), (10, 20, 30))
    assert (entry.last("int32", 1), entry.last("int32", 3), Entry(1, b"").first("int32")) == ((30,), (10, 20, 30), ())
    for read in (entry.values, entry.count, entry.first):
        with pytest.raises(ValueError, match=r"^12 bytes are not a whole number of int64$"):
            read("int64")
    with pytest.raises(ValueError, match=r"^1 bytes are not a whole number of int16$"):
        Entry(1, b"x").count("int16")


def test_answers_are_counted_and_compared_by_their_first_number() -> None:
    accuracy = [numbers(1, 5), numbers(2, 6), numbers(1, 9), Entry(3, b""), numbers(4, 8)]
    audit = [numbers(1, 5), numbers(1, 5, 9), numbers(2, 7), Entry(3, b""), Entry(4, b""), numbers(9, 1)]
    part = compare_answers(accuracy, audit, "int32")
    assert part.reasons == ("2 of 5 answers differ from the accuracy run's, as of samples 2, 4",)
    assert part.figures == {
        "compared as": "int32, first element",
        "answers in the accuracy run": "5 (1 repeated)",
        "answers in the audit run": "6",
        "found in the accuracy run": "5",
        "not in the accuracy run": "1",
        "differing": "2",
    }
    many = compare_answers([numbers(n, 1) for n in range(9)], [numbers(n, 2) for n in range(9)])
    assert many.reasons == ("9 of 9 answers differ from the accuracy run's, as of samples 0, 1, 2, 3, 4",)
    assert many.figures["compared as"] == "byte, first element"
    strange = compare_answers([], [numbers(1, 2), numbers(2, 2)])
    assert strange.reasons == ("none of the audit run's 2 logged answers belongs to a sample of the accuracy run",)
    assert compare_answers([Entry(1, b"abc")], [Entry(1, b"abc")], "int32").reasons == (
        "the answers cannot be compared: 3 bytes are not a whole number of int32",
    )
    broken = compare_answers(read_entries([b"x"]), [])
    assert broken.reasons[0].startswith("the answers cannot be compared: mlperf_log_accuracy.json:1: ")


def accuracies(baseline: str | None, compliance: str | None, allowed: str = "1") -> Part:
    stated = [{} if value is None else {"acc": Decimal(value)} for value in (baseline, compliance)]
    return compare_accuracies(Fallback(stated[0], stated[1], {"acc": Decimal(allowed)}))


@pytest.mark.parametrize(
    ("baseline", "compliance", "reasons"),
    [
        ("70", "70", ()),
        ("99.01", "100", ()),
        ("100.99", "100", ()),
        ("99", "100", ("acc: 100 differs by 1.000 % from 99; 1 % allowed",)),  # on the very edge
        ("101", "100", ("acc: 100 differs by 1.000 % from 101; 1 % allowed",)),
        ("98.9", "100", ("acc: 100 differs by 1.100 % from 98.9; 1 % allowed",)),
        ("101.1", "100", ("acc: 100 differs by 1.100 % from 101.1; 1 % allowed",)),
        (None, "1", ("acc: the baseline accuracy is not known or zero",)),
        ("0", None, ("acc: the baseline accuracy is not known or zero",)),
        ("1", "0", ("acc: the compliance accuracy is not known or zero",)),
    ],
)
def test_accuracies_of_both_runs_may_differ_by_a_percentage(
    baseline: str | None, compliance: str | None, reasons: tuple[str, ...]
) -> None:
    part = accuracies(baseline, compliance)
    assert part.reasons == reasons
    assert part.figures == {"acc": f"{baseline} baseline, {compliance} compliance, 1 % allowed"}
    assert compare_accuracies(Fallback({}, {}, {})).reasons == ("the round names no accuracy metric to compare",)


def valid(scenario: str, score: float | None) -> Scored:
    return Scored(scenario, "VALID", score)


@pytest.mark.parametrize(
    ("before", "after", "figures", "reasons"),
    [
        (
            valid("Offline", 100),
            valid("Offline", 110.1),
            ("100", "110.1", "+10.10 %", "less than +10%"),
            ("the score 110.1 is +10.10 % of 100; less than +10% allowed",),
        ),
        (valid("Offline", 100), valid("Offline", 109.9), ("100", "109.9", "+9.90 %", "less than +10%"), ()),
        (valid("Server", 100), valid("Server", 1), ("100", "1", "-99.00 %", "less than +10%"), ()),
        # a latency in ns, as queries a second
        (
            valid("SingleStream", 10**7),
            valid("SingleStream", 8 * 10**6),
            ("100", "125", "+25.00 %", "less than +20%"),
            ("the score 125 is +25.00 % of 100; less than +20% allowed",),
        ),
        (
            valid("MultiStream", 500),
            valid("MultiStream", 450),
            ("2000000", "2222222.222", "+11.11 %", "less than +10%"),
            ("the score 2222222.222 is +11.11 % of 2000000; less than +10% allowed",),
        ),
        (valid("SingleStream", 0), valid("SingleStream", 5), ("none", "200000000"), ()),
        (valid("Offline", 5), valid("Offline", None), ("5", "none"), ("the audit run's log holds no score",)),
        (
            valid("Offline", 1),
            valid("Server", 5),
            ("1", "5", "+400.00 %", "less than +10%"),
            ("the performance run is Offline, the audit run Server",),
        ),
    ],
)
def test_a_run_of_the_same_sample_may_not_be_faster(
    before: Scored, after: Scored, figures: tuple[str, ...], reasons: tuple[str, ...]
) -> None:
    part = compare_speed(before, after, Slack())
    names = ("performance run", "audit run", "difference", "allowed")
    assert part.figures == dict(zip(names, figures, strict=False))
    assert part.reasons == reasons
    assert part.by_speed is any("the score" in reason for reason in reasons)


def test_a_run_that_is_faster_by_just_what_is_allowed_fails() -> None:
    half = Slack(usual=50)
    assert compare_speed(valid("Offline", 100), valid("Offline", 149.9), half).passed
    part = compare_speed(valid("Offline", 100), valid("Offline", 150), half)
    assert part.reasons == ("the score 150 is +50.00 % of 100; less than +50% allowed",)


def test_tokens_are_told_whole() -> None:
    good = numbers(3, 7, 8, 2, counted=3, began=struct.pack("<i", 7))
    passed = judge_test06([good, good], "Server")
    assert passed == AuditVerdict(
        "TEST06",
        files={
            "verify_accuracy.txt": "First token check pass: True\nEOS check pass: True\n"
            "Sample length check pass: True\n2 answers as int32, end of sequence 2\nTEST06 verification complete\n"
        },
        figures={"answers": "2", "eos_token_id": "2", "dtype": "int32"},
    )
    none = judge_test06([], "Offline", eos_token_id=5, dtype="int64")
    assert none.reasons == ("the audit run logged no answers",)
    assert none.files == {
        "verify_accuracy.txt": "First token check pass: Skipped\nEOS check pass: True\n"
        "Sample length check pass: False\n0 answers as int64, end of sequence 5\nTEST06 verification failed\n"
        "the audit run logged no answers\n"
    }
    broken = judge_test06(read_entries([b"x"]), "Server")
    assert broken.reasons[0].startswith("the answers cannot be read: mlperf_log_accuracy.json:1: ")
    assert broken.files["verify_accuracy.txt"].startswith(
        "First token check pass: False\nEOS check pass: False\nSample length check pass: False\n"
        "TEST06 verification failed\nmlperf_log_accuracy.json:1: "
    )


TWO, BEGAN = struct.pack("<i", 2), struct.pack("<i", 7)


@pytest.mark.parametrize(
    ("entry", "scenario", "dtype", "reasons"),
    [
        (numbers(3, 2, 2, counted=2, began=TWO), "Server", "int32", []),
        (numbers(3, 7, 2, 2, counted=3), "Offline", "int32", ["sample 3 ends with 2 tokens 2"]),
        (numbers(3, 2, 2, 2, counted=3), "Offline", "int32", ["sample 3 ends with 2 tokens 2"]),
        (numbers(3, 7, 8, 2, counted=2), "Offline", "int32", ["sample 3 has 3 tokens, and 2 were reported"]),
        (numbers(3, 7, 8, 2), "Offline", "int32", ["sample 3 has 3 tokens, and None were reported"]),
        (numbers(3, 7, 8, 2, counted=3), "Server", "int32", ["sample 3: no first token was logged"]),
        (
            numbers(3, 7, 8, 2, counted=3, began=b"abc"),
            "Server",
            "int32",
            ["sample 3: first token: 3 bytes are not a whole number of int32"],
        ),
        (
            numbers(3, 7, 8, 2, counted=3, began=BEGAN + BEGAN),
            "Server",
            "int32",
            ["sample 3 begins with (7, 8), and (7, 7) was reported first"],
        ),
        (
            Entry(3, b"abc", 1, b"abc"),
            "Server",
            "int32",
            ["sample 3: 3 bytes are not a whole number of int32"] * 3,
        ),
        (Entry(3, b"abc", 1), "Offline", "int32", ["sample 3: 3 bytes are not a whole number of int32"] * 2),
        (
            Entry(3, struct.pack("<4f", 7, 8, 2, 2), 4, struct.pack("<f", 7)),
            "Server",
            "float32",
            ["sample 3 ends with 2 tokens 2"],
        ),
        (
            Entry(3, struct.pack("<3f", 7, 8, 2), 3, struct.pack("<f", 6)),
            "Server",
            "float32",
            ["sample 3 begins with (7.0,), and (6.0,) was reported first"],
        ),
    ],
)
def test_each_check_of_tokens_says_what_it_found(entry: Entry, scenario: str, dtype: str, reasons: list[str]) -> None:
    found = judge_test06([entry], scenario, dtype=dtype).reasons
    assert [reason.partition(" (end of")[0] for reason in found] == reasons


@pytest.mark.parametrize(
    ("report", "found", "reason"),
    [
        ("x {'exact_match': 81.5} {'exact_match': 1}\n\n", "81.5", ""),
        ("'exact_match':80", "80", ""),
        ("'exact_match': 79.9", "79.9", "the accuracy 79.9 is below the threshold 80"),
        ("'exact_match': 8.1.2", "none", r"the scorer's report holds no score of the form 'exact_match':\s*([\d.]+)"),
        ("TEST PASS", "none", r"the scorer's report holds no score of the form 'exact_match':\s*([\d.]+)"),
        ("", "none", r"the scorer's report holds no score of the form 'exact_match':\s*([\d.]+)"),
    ],
)
def test_a_score_is_told_behind_the_scorers_words(report: str, found: str, reason: str) -> None:
    verdict = judge_test07(report, Decimal(80))
    assert verdict.reasons == ((reason,) if reason else ())
    assert verdict.figures == {"accuracy": found, "threshold": "80"}
    said = report.replace("TEST PASS", "TEST-PASS").rstrip("\n")
    end = f"TEST FAIL: {reason}" if reason else "TEST PASS"
    assert verdict.files == {
        "verify_accuracy.txt": (f"{said}\n\n" if said else "")
        + f"TEST07: accuracy of the audit run\naccuracy: {found}\nthreshold: 80\n{end}\n"
    }
    assert judge_test07("score 81", Decimal(80), r"score \d+").figures["accuracy"] == "none"


def predictions(index: int, *values: float) -> Entry:
    return Entry(index, struct.pack(f"<{len(values)}f", *values))


def test_predictions_are_told_whole() -> None:
    accuracy = [
        predictions(0, 1, 7, 0.5, 0.25, 1, 0, 1, 1, 2),
        predictions(1, 1, 8, 0.5, 1, 1, 1),
        predictions(2, 1, 9, 0.5, 1, 1, 1),
    ]
    verdict = judge_test08(accuracy, [predictions(0, 1, 7, 0.5, 0.25)])
    figures = {
        "answers in the accuracy run": "3",
        "answers in the audit run": "1",
        "not in the accuracy run": "0",
        "differing": "0",
        "tolerance": "0.10%",
    }
    assert (verdict.passed, verdict.figures) == (True, figures)
    assert verdict.files["verify_accuracy.txt"].startswith(
        "TEST08: the audit run's predictions against the accuracy run's\nanswers in the accuracy run: 3\n"
    )
    audit = [predictions(0, 1, 7, 0.5), predictions(1, 1, 8, 0.25), predictions(2, 2, 9, 0.5), predictions(3, 3, 9)]
    failed = judge_test08(accuracy, audit, 0.01)
    assert failed.reasons == (
        "2 of 4 samples differ by more than 1.00%: (1, 7): 1 predictions, 2 in the accuracy run",
        "2 samples of the audit run are not in the accuracy run",
    )
    assert failed.figures == {
        **figures,
        "answers in the audit run": "4",
        "not in the accuracy run": "2",
        "differing": "2",
        "tolerance": "1.00%",
    }
    assert judge_test08(accuracy, [audit[2]]).reasons == (
        "1 samples of the audit run are not in the accuracy run",
        "no sample is in both runs",
    )
    assert judge_test08(accuracy, []).reasons == ("no sample is in both runs",)


@pytest.mark.parametrize(
    ("accuracy", "audit", "why"),
    [
        ([predictions(0, 1, 7, 0.5, 1, 1, 2)], [], "sample 0 of the accuracy run has 6 numbers, not 3 + 3 for each"),
        ([predictions(4)], [], "sample 4 of the accuracy run has 0 numbers, not 3 + 3 for each"),
        ([], [predictions(0, 1)], "an answer holds no timestamp and query"),
        ([], [Entry(0, b"abc")], "3 bytes are not a whole number of float32"),
        ([], [predictions(0, float("inf"), 1)], "cannot convert float infinity to integer"),
        ([], [predictions(0, float("nan"), 1)], "cannot convert float NaN to integer"),
    ],
)
def test_predictions_that_are_none_are_told(accuracy: list[Entry], audit: list[Entry], why: str) -> None:
    assert judge_test08(accuracy, audit).reasons == (f"the answers cannot be compared: {why}",)


def test_lengths_are_told_whole() -> None:
    entries = [Entry(0, b"x" * 8), Entry(1, b""), Entry(2, b"x" * 19)]
    verdict = judge_test09(entries, Decimal(2), Decimal("2.5"))
    figures = {"answers": "3", "mean tokens": "2.00", "shortest and longest": "0 and 4", "bounds": "2 to 2.5"}
    assert (verdict.test, verdict.reasons, verdict.figures) == ("TEST09", (), figures)
    assert verdict.files["verify_output_len.txt"].startswith("TEST09: mean output length of the audit run\nanswers: 3")
    assert judge_test09(entries, Decimal(1), Decimal(2)).passed
    assert judge_test09(entries, Decimal("2.01"), Decimal(3)).reasons == (
        "the mean output of 2.00 tokens is not within 2.01 to 3",
    )
    assert judge_test09(entries, Decimal(1), Decimal("1.99")).reasons == (
        "the mean output of 2.00 tokens is not within 1 to 1.99",
    )
    assert judge_test09([], Decimal(1), Decimal(2)).reasons == ("the audit run logged no answers",)
    (why,) = judge_test09(read_entries([b"x"]), Decimal(1), Decimal(2)).reasons
    assert why.startswith("the answers cannot be read: mlperf_log_accuracy.json:1: ")


def summary(scenario: str, *lines: str) -> SummaryLog:
    return parse_summary("\n".join([f"Scenario : {scenario}", "Result is : VALID", *lines]).encode())


@pytest.mark.parametrize(
    ("before", "after", "both_ways", "allowed", "why"),
    [
        (100, 95.1, False, "5% worse", ""),
        (100, 95, False, "5% worse", "the score 95 is -5.00 % of that measured"),
        (100, 200, False, "5% worse", ""),
        (100, 104.9, True, "+-5%", ""),
        (100, 106, True, "+-5%", "the score 106 is +6.00 % of that measured"),
    ],
)
def test_other_seeds_are_told_whole(before: float, after: float, both_ways: bool, allowed: str, why: str) -> None:
    runs = [summary("Offline", f"Samples per second: {rate}") for rate in (before, after)]
    verdict = verify_test05(runs[0], runs[1], both_ways=both_ways)
    assert verdict.reasons == ((why,) if why else ())
    off = f"{(after / before - 1) * 100:+.2f} %"
    figures = {"performance run": f"{before:g}", "audit run": f"{after:g}", "difference": off, "allowed": allowed}
    assert (verdict.test, verdict.figures) == ("TEST05", figures)
    assert verdict.files == {
        "verify_performance.txt": verify_text(
            "TEST05: speed against the run it is compared with", Part(verdict.reasons, figures)
        )
    }


def detail(**values: object) -> RunLogs:
    lines = (
        json.dumps({"key": key, "value": value, "metadata": {"is_error": key.startswith("error")}})
        for key, value in values.items()
    )
    return RunLogs(detail="".join(f":::MLLOG {line}\n" for line in lines).encode())


FAST: dict[str, object] = {
    "loadgen_version": "6.0",
    "effective_scenario": "Offline",
    "result_validity": "VALID",
    "result_samples_per_second": 100.0,
}


@pytest.mark.parametrize(
    ("changes", "reasons", "by_speed"),
    [
        ({}, (), False),
        ({"result_completed_samples_per_sec": 110.0}, (), False),
        ({"result_completed_samples_per_sec": 90.0}, (), False),
        (
            {"result_completed_samples_per_sec": 89.0},
            ("the score 89 is -11.00 % of 100; 10% allowed",),
            True,
        ),
        (
            {"effective_target_latency_ns": 7},
            ("the target latency is 7 ns, that of the performance run 5 ns",),
            False,
        ),
        (
            {"effective_target_latency_ns": 7, "result_completed_samples_per_sec": 1.0},
            ("the target latency is 7 ns, that of the performance run 5 ns",),
            False,
        ),
        ({"result_completed_samples_per_sec": None}, ("the audit run's log holds no score",), False),
    ],
    ids=str,
)
def test_the_speed_of_a_server_is_compared_under_one_target(
    changes: dict[str, object], reasons: tuple[str, ...], by_speed: bool
) -> None:
    base: dict[str, object] = {
        "loadgen_version": "6.0",
        "effective_scenario": "Server",
        "result_validity": "VALID",
        "effective_target_latency_ns": 5,
        "result_completed_samples_per_sec": 100.0,
    }
    runs = detail(**base), detail(**{**base, **changes})
    verdict = judge("TEST01", VerdictInputs(audit=runs[1], performance=runs[0], known_answers=Part()))
    assert (verdict.reasons, verdict.by_speed) == (reasons, by_speed)


@pytest.mark.parametrize(
    ("before", "after", "reasons"),
    [
        ({}, {"error_runtime": "x"}, ("the audit run's log has 1 ERROR lines",)),
        ({"error_a": "x", "error_b": "y"}, {}, ("the performance run's log has 2 ERROR lines",)),
        (
            {"loadgen_version": "2.0", "error_a": "x"},
            {"loadgen_version": "1.9", "error_b": "x"},
            ("the performance run's log has 1 ERROR lines",),
        ),
        ({"result_samples_per_second": None}, {}, ("the performance run's log holds no score",)),
        ({"effective_target_latency_ns": 5}, {"effective_target_latency_ns": 7}, ()),
    ],
    ids=str,
)
def test_lines_of_errors_stop_the_comparison_since_loadgen_2(
    before: dict[str, object], after: dict[str, object], reasons: tuple[str, ...]
) -> None:
    audit, performance = detail(**{**FAST, **after}), detail(**{**FAST, **before})
    assert judge("TEST01", VerdictInputs(audit, performance, known_answers=Part())).reasons == reasons


def log_answers(*answers: str) -> RunLogs:
    entries = (json.dumps({"seq_id": n, "qsl_idx": n, "data": data}) for n, data in enumerate(answers))
    lines = ["[", *",\n".join(entries).split("\n"), "]"]
    return RunLogs(detail(**FAST).detail, answers=lambda: [line.encode() for line in lines])


def test_test01_is_judged_by_its_logs() -> None:
    performance, other = detail(**FAST), log_answers("0105", "02")
    verdict = judge("TEST01", VerdictInputs(log_answers("0106", "02"), performance, other, limits={"x": "1"}))
    assert verdict.passed
    assert verdict.figures == {
        "accuracy.compared as": "byte, first element",
        "accuracy.answers in the accuracy run": "2 (0 repeated)",
        "accuracy.answers in the audit run": "2",
        "accuracy.found in the accuracy run": "2",
        "accuracy.not in the accuracy run": "0",
        "accuracy.differing": "0",
        "performance.performance run": "100",
        "performance.audit run": "100",
        "performance.difference": "+0.00 %",
        "performance.allowed": "+-10%",
    }
    as_whole = VerdictInputs(log_answers("0106"), performance, log_answers("0105"), dtype="int32")
    assert judge("TEST01", as_whole).reasons == (
        "the answers cannot be compared: 2 bytes are not a whole number of int32",
    )
    strict = VerdictInputs(log_answers("01"), detail(**{**FAST, "result_samples_per_second": 103.0}), other)
    assert judge("TEST01", strict).passed
    assert judge("TEST01", replace(strict, limits={"most_score_change": "2"})).reasons == (
        "the score 100 is -2.91 % of 103; 2% allowed",
    )


def test_a_log_that_test01_lacks_is_told_by_its_run() -> None:
    run = log_answers("01")
    for inputs, lacking in (
        (VerdictInputs(run, RunLogs(), run), "performance"),
        (VerdictInputs(RunLogs(answers=run.answers), run, run), "audit"),
        (VerdictInputs(detail(**FAST), run, run), "audit"),
        (VerdictInputs(run, run, detail(**FAST)), "accuracy"),
    ):
        with pytest.raises(MissingLogError, match=f"^{lacking}$"):
            judge("TEST01", inputs)
    half = VerdictInputs(run, run, log_answers("02"), metrics=("acc",), reports={BASELINE: "accuracy=1"})
    for reports in (half.reports, {COMPLIANCE: "accuracy=1"}, {}):
        assert judge("TEST01", replace(half, reports=reports)).reasons == (
            "1 of 1 answers differ from the accuracy run's, as of samples 0",
        )
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


def test_of_two_offenders_the_first_is_told() -> None:
    wrong = [numbers(index, 7, 2, 2, counted=4, began=struct.pack("<i", 6)) for index in (3, 4)]
    verdict = judge_test06(wrong, "Server")
    assert verdict.reasons == judge_test06(wrong[:1], "Server").reasons
    assert len(verdict.reasons) == 3


def test_the_first_offender_is_told_though_a_later_one_cannot_be_read() -> None:
    ends = numbers(3, 7, 2, 2, counted=4, began=struct.pack("<i", 6))
    verdict = judge_test06([ends, Entry(9, b"abc", 1)], "Server")
    assert [reason.partition(" ")[2][:2] for reason in verdict.reasons] == ["3 "] * 3
    later = judge_test06([Entry(9, b"abc", 1), ends], "Server")
    assert later.reasons == ("sample 9: 3 bytes are not a whole number of int32",) * 3


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
    assert (
        not judge("TEST06", VerdictInputs(run, scenario="Server"))
        .files["verify_accuracy.txt"]
        .startswith("First token check pass: Skipped")
    )


def test_a_score_of_a_scorer_is_held_against_the_limit_of_the_round() -> None:
    reports = {COMPLIANCE: "'exact_match': 81"}
    inputs = VerdictInputs(RunLogs(), limits={"least_accuracy": "81"}, reports=reports)
    assert judge("TEST07", inputs).passed
    assert not judge("TEST07", replace(inputs, limits={"least_accuracy": "81.1"})).passed
    assert judge("TEST07", replace(inputs, reports={})).figures == {"accuracy": "none", "threshold": "81"}


def test_lengths_and_entropies_are_held_against_the_limits_of_the_round() -> None:
    limits = {"least_mean_tokens": "1.5", "most_mean_tokens": "2"}
    run = log_answers("00" * 8, "00" * 4)
    assert judge("TEST09", VerdictInputs(run, limits=limits)).passed
    assert not judge("TEST09", VerdictInputs(run, limits={**limits, "least_mean_tokens": "1.6"})).passed
    whole = log_answers(struct.pack("<6f", 1, 7, 0.5, 1, 1, 1).hex())
    audit = log_answers(struct.pack("<3f", 1, 7, 0.505).hex())
    assert judge("TEST08", VerdictInputs(audit, accuracy=whole)).figures["tolerance"] == "0.10%"
    loose = VerdictInputs(audit, accuracy=whole, limits={"most_entropy_change": "5"})
    assert (judge("TEST08", loose).passed, judge("TEST08", loose).figures["tolerance"]) == (True, "5.00%")


def test_a_run_of_the_same_sample_is_judged_by_its_summary() -> None:
    slow, fast = (
        RunLogs(summary=f"Scenario : Offline\nResult is : VALID\nSamples per second: {rate}\n".encode())
        for rate in (100, 107)
    )
    verdict = judge("TEST04", VerdictInputs(fast, slow))
    assert verdict.figures == {
        "performance run": "100",
        "audit run": "107",
        "difference": "+7.00 %",
        "allowed": "less than +10%",
    }
    assert verdict.files == {
        "verify_performance.txt": verify_text(
            "TEST04: the audit run's speed against the performance run's", Part(figures=verdict.figures)
        )
    }
    strict = judge("TEST04", VerdictInputs(fast, slow, limits={"most_score_gain": "6"}))
    assert strict.reasons == ("the score 107 is +7.00 % of 100; less than +6% allowed",)
    assert (strict.test, strict.by_speed) == ("TEST04", True)
    for inputs, lacking in ((VerdictInputs(fast), "performance"), (VerdictInputs(RunLogs(), slow), "audit")):
        with pytest.raises(MissingLogError, match=f"^{lacking}$"):
            judge("TEST04", inputs)


@pytest.mark.parametrize("scored", [(), (0,), (1,)], ids=["neither", "the first", "the second"])
def test_other_seeds_without_a_score_are_told(scored: tuple[int, ...]) -> None:
    runs = [summary("Offline", *(["Samples per second: 9"] if number in scored else [])) for number in (0, 1)]
    verdict = verify_test05(*runs)
    names = [name for number, name in enumerate(("performance", "audit")) if number not in scored]
    assert verdict.reasons == tuple(f"the {name} run's log holds no score" for name in names)
    assert set(verdict.figures) == {"performance run", "audit run"}
