"""Accuracy logs, audit settings, the tests of earlier rounds, and what judging does without logs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen.summary import SummaryLog, parse_summary
from reconciler.loadgen.user_conf import select_audit_settings, write_audit_config
from reconciler.rules.compliance.definition import MissingLogError, Part, RunLogs, VerdictInputs
from reconciler.rules.compliance.entries import Entry, read_entries
from reconciler.rules.compliance.judging import choose_dtype, find_test
from reconciler.rules.compliance.legacy_tests import verify_test04_ab, verify_test05
from reconciler.rules.compliance.test01 import Fallback, compare_accuracies, compare_answers
from reconciler.rules.rounds import list_rounds, load_ruleset

LOG = b'[\n{ "seq_id" : 0, "qsl_idx" : 3, "data" : "0A00" },\n{ "seq_id" : 1, "qsl_idx" : 4, "data" : "" }\n]\n'


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (LOG.replace(b"]\n", b""), "the log ends before its list does"),
        (LOG[:40] + b"\n\n...\n\n" + LOG[40:], "no answer of LoadGen"),
        (b"not a log\n", ":1: the list of answers does not begin here"),
        (LOG + b"{}\n", ":5: there is more"),
        (LOG.replace(b"0A00", b"0A0"), ":2: no answer of LoadGen"),
        (
            LOG.replace(b'{ "seq_id" : 1', b'null, { "seq_id" : 1'),
            ":3: no answer of LoadGen: expected qsl_idx and data, ",
        ),
        (LOG.replace(b'"data" : ""', b'"data" : null'), ":3: no answer of LoadGen: expected qsl_idx and"),
        (b"", "the log ends before its list does"),
    ],
    ids=["cut", "truncated", "other", "more", "half a byte", "null", "no data", "empty"],
)
def test_reading_a_broken_log_names_the_line(text: bytes, where: str) -> None:
    with pytest.raises(LogError, match=where):
        list(read_entries(text.splitlines()))


def test_audit_settings_are_lines_that_loadgen_reads(loadgen_read: Callable[..., list[dict[str, Any]]]) -> None:
    settings = select_audit_settings(
        {"audit.mode": 2, "audit.min_query_count": 500, "audit.min_duration": 0, "target_qps": 1}
    )
    text = write_audit_config(settings, ["a cell: TEST04"])
    assert text == b"# a cell: TEST04\n*.*.mode = 2\n*.*.min_query_count = 500\n*.*.min_duration = 0\n"
    (read,) = loadgen_read([(text, "stable-diffusion-xl", "Offline")])
    assert (read["code"], read["min_query_count"], read["min_duration_ms"]) == (0, 500, 0)


@pytest.mark.parametrize("round_name", list_rounds())
def test_loadgen_takes_audit_settings(round_name: str, loadgen_read: Callable[..., list[dict[str, Any]]]) -> None:
    confs = [
        (write_audit_config({name: value.value for name, value in test.settings.items()}), "*", "Offline")
        for rules in load_ruleset(round_name).benchmarks.values()
        for test in (rules.find_test(name, "Offline") for name in rules.compliance_tests)
    ]
    assert all(read["code"] == 0 for read in loadgen_read(confs))


def summary(scenario: str, score: str, key: str, *more: str) -> SummaryLog:
    lines = [f"Scenario : {scenario}", f"{key}: {score}", "Result is : VALID", *more]
    return parse_summary("\n".join(lines).encode())


@pytest.mark.parametrize(
    ("scenario", "key", "before", "after", "passes"),
    [
        ("Offline", "Samples per second", "1000", "951", True),
        ("Offline", "Samples per second", "1000", "950", False),
        ("Offline", "Samples per second", "1000", "9000", True),
        ("Server", "Completed samples per second", "1000", "900", False),
        ("SingleStream", " * Early stopping 90.0th percentile estimate", "1000000", "1049999", True),
        ("SingleStream", " * Early stopping 90.0th percentile estimate", "1000000", "1050000", False),
        ("SingleStream", " * Early stopping 90.0th percentile estimate", "100000", "119000", True),
        ("MultiStream", " * Early stopping 99th percentile estimate", "9000000", "100", True),
        # Before early stopping.
        ("SingleStream", "90th percentile latency (ns)", "1000000", "1050000", False),
        ("Server", "Scheduled samples per second", "1000", "951", True),
        ("MultiStream", "Samples per query", "100", "200", True),
        ("MultiStream", "Samples per query", "1600000", "1", False),
    ],
)
def test_test05_allows_five_percent_worse(scenario: str, key: str, before: str, after: str, passes: bool) -> None:
    assert verify_test05(summary(scenario, before, key), summary(scenario, after, key)).passed is passes


@pytest.mark.parametrize(
    ("scenario", "key", "unique", "same", "passes"),
    [
        ("Offline", "Samples per second", "1000", "1099", True),
        ("Offline", "Samples per second", "1000", "1100", False),
        ("Offline", "Samples per second", "1000", "10", True),
        ("SingleStream", "90th percentile latency (ns)", "1000000", "1500000", True),
        ("SingleStream", "90th percentile latency (ns)", "1000000", "900000", False),
        ("SingleStream", "90th percentile latency (ns)", "100000", "81000", True),
        ("Server", "Scheduled samples per second", "100", "120", False),
        ("MultiStream", "Samples per query", "100", "109", True),
        # the bounds themselves, and runs that did nothing
        ("SingleStream", "90th percentile latency (ns)", "200000", "161000", True),
        ("SingleStream", "90th percentile latency (ns)", "200001", "161000", False),
        ("Offline", "Samples per second", "100", "110.1", False),
        ("Offline", "Samples per second", "100", "109.9", True),
        ("SingleStream", "90th percentile latency (ns)", "0", "0", False),
        ("Offline", "Samples per second", "0", "0", False),
    ],
)
def test_test04_a_and_b_allow_ten_percent_faster(scenario: str, key: str, unique: str, same: str, passes: bool) -> None:
    assert verify_test04_ab(summary(scenario, unique, key), summary(scenario, same, key)).passed is passes


@pytest.mark.parametrize(
    ("baseline", "compliance", "allowed", "passes"),
    [("76.4", "76.0", "1", True), ("76.4", "75.0", "1", False), ("76.4", "76.3", "0.1", False), ("0", "1", "1", False)],
)
def test_fallback_allows_a_share_of_the_accuracy(baseline: str, compliance: str, allowed: str, passes: bool) -> None:
    part = compare_accuracies(
        Fallback({"acc": Decimal(baseline)}, {"acc": Decimal(compliance)}, {"acc": Decimal(allowed)})
    )
    assert part.passed is passes


@pytest.mark.parametrize(
    ("declared", "response", "read_as"),
    [("", "int32", "int32"), ("", "int64", "int64"), ("int64", "int32", "int64"), ("", "float16", ""), ("", "", "")],
    ids=["as the run answered", "in its longer type", "as declared", "not offered by the script", "not stated"],
)
def test_answers_are_read_as_what_the_run_answered_with(declared: str, response: str, read_as: str) -> None:
    assert choose_dtype("TEST01", declared, response) == read_as


def encode(dtype: str, numbers: Iterable[int]) -> list[Entry]:
    code = {"float32": "f", "int32": "i", "int64": "q"}[dtype]
    return [Entry(index, struct.pack(f"<{code}", number)) for index, number in enumerate(numbers)]


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("read_as", ["own", "any"])
def test_class_numbers_that_all_begin_with_the_same_byte_are_distinguished(dtype: str, read_as: str) -> None:
    read_as = dtype if read_as == "own" else read_as
    accuracy, audit = encode(dtype, range(256, 4096, 256)), encode(dtype, range(512, 4352, 256))
    assert {entry.data[0] for entry in accuracy + audit} == {0}
    found = compare_answers(accuracy, audit, read_as)
    assert (found.passed, found.figures["differing"]) == (False, str(len(audit)))
    assert compare_answers(accuracy, accuracy, read_as).passed


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_a_type_that_compares_only_a_byte_of_class_numbers_does_not_pass_other_ones(dtype: str) -> None:
    """The official script passes these."""
    accuracy, audit = encode(dtype, range(256, 4096, 256)), encode(dtype, range(512, 4352, 256))
    found = compare_answers(accuracy, audit, "byte")
    assert (found.passed, found.by_type, found.where) == (False, True, "mlperf_log_accuracy.json:2")
    assert found.figures["differing"] == "15"
    length = len(audit[0].data)
    assert found.reasons == (
        "15 of 15 answers differ from the accuracy run's, as of samples 0, 1, 2, 3, 4, but not in the first byte, "
        f"and type byte compares no more: the answers have {length} bytes; declare dtype: {dtype}",
    )
    assert compare_answers(accuracy, accuracy, "byte").passed


def pack(code: str, *answers: tuple[float, ...]) -> list[Entry]:
    return [Entry(index, struct.pack(f"<{code}", *values)) for index, values in enumerate(answers)]


@pytest.mark.parametrize(
    ("accuracy", "audit", "dtype"),
    [
        (pack("if", (7, 0.5), (8, 0.5), (9, 0.5)), pack("if", (7, 0.51), (8, 0.51), (9, 0.51)), "int32"),
        (pack("if", (7, 0.5), (8, 0.5), (9, 0.5)), pack("if", (7, 0.51), (8, 0.51), (9, 0.51)), "byte"),
        (pack("BBB", *[(1, 2, 3)] * 3), pack("BBB", *[(1, 2, 4)] * 3), "byte"),
        (pack("12B", *[(1,) * 12] * 3), pack("12B", *[(1,) * 11 + (2,)] * 3), "byte"),
        ([*pack("i", (256,), (512,)), Entry(2, b"text")], [*pack("i", (512,), (768,)), Entry(2, b"texts")], "byte"),
        (pack("f", *[(1,)] * 300), pack("f", *[(2,)] * 3, *[(1,)] * 297), "byte"),
        (pack("f", (1,), (1,)), pack("f", (2,), (1,)), "byte"),
    ],
    ids=[
        "class numbers with probabilities",
        "class numbers with probabilities, by the first byte",
        "no number's length",
        "images",
        "answers of several lengths",
        "1 percent",
        "one",
    ],
)
def test_answers_that_the_type_may_fit_pass_as_in_the_official_script(
    accuracy: list[Entry], audit: list[Entry], dtype: str
) -> None:
    assert compare_answers(accuracy, audit, dtype).passed


def test_numbers_of_8_bytes_whose_first_4_are_equal_are_compared_whole() -> None:
    accuracy, audit = pack("d", (1,), (2,), (3,)), pack("d", (2,), (3,), (4,))
    found = compare_answers(accuracy, audit, "int32")
    assert [reason.partition(", but ")[2] for reason in found.reasons] == [
        "not in the first 4 bytes, and type int32 compares no more: the answers have 8 bytes; declare dtype: int64"
    ]


def test_a_comparison_as_another_type_is_not_taken_over() -> None:
    """Where the answers are not at hand, an earlier comparison speaks for them: one of their first bytes does not."""
    logs = RunLogs(b"", b"", None)
    known = Part((), {"compared as": "byte, first element"})
    question = VerdictInputs(audit=logs, performance=logs, accuracy=logs, known_answers=known)
    compare = find_test("TEST01").compare_answers
    assert compare is not None
    assert compare(replace(question, dtype="byte")) == compare(question) == known
    with pytest.raises(MissingLogError):
        compare(replace(question, dtype="int32"))
