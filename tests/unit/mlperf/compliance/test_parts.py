"""Accuracy logs, audit settings, the tests of earlier rounds, and what judging does without logs."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from reconciler.errors import LogError
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.log_files import ACCURACY_LOG, BASELINE, COMPLIANCE, DETAIL, SUMMARY, TRUNCATED
from reconciler.loadgen.summary import SummaryLog, parse_summary
from reconciler.loadgen.user_conf import audit_settings, write_audit_settings
from reconciler.rules.compliance.definition import MissingLogError, RunLogs, VerdictInputs
from reconciler.rules.compliance.entries import Entry, read_entries, read_held_entries
from reconciler.rules.compliance.judging import choose_dtype, collect_verdict_inputs, find_test, judge
from reconciler.rules.compliance.legacy_tests import verify_test04_ab, verify_test05
from reconciler.rules.compliance.scores import find_score_key
from reconciler.rules.compliance.test01 import Fallback, compare_accuracies, compare_answers
from reconciler.rules.compliance.test06 import judge_test06
from reconciler.rules.compliance.verdict import Part
from reconciler.rules.rounds import list_rounds, load_ruleset
from reconciler.tree.compliance_files import audit_files
from reconciler.tree.content import LogRef

LOG = b'[\n{ "seq_id" : 0, "qsl_idx" : 3, "data" : "0A00" },\n{ "seq_id" : 1, "qsl_idx" : 4, "data" : "" }\n]\n'


def test_reading_a_log_gives_its_entries() -> None:
    assert list(read_entries(LOG.splitlines())) == [Entry(3, b"\n\0"), Entry(4, b"")]


@pytest.mark.parametrize(
    "log",
    [
        LOG,
        LOG.replace(b"},\n", b"}, "),
        LOG.replace(b"\n", b"\r\n"),
        LOG.replace(b', "data"', b',\n"data"'),
        LOG.replace(b"]", b""),
        LOG.replace(b"0A00", b"0A0"),
        LOG.replace(b'"qsl_idx" : 4', b'"qsl_idx" : "4"'),
        LOG.replace(b"},", b"}"),
        LOG + b"more",
        b"[\n]\n",
        b"",
    ],
    ids=["whole", "one-line", "crlf", "split", "cut", "odd", "text", "no-comma", "more", "no-entry", "nothing"],
)
def test_a_log_in_memory_is_read_as_line_by_line(log: bytes) -> None:
    def read(entries: Callable[[], Iterable[Entry]]) -> list[Entry] | str:
        try:
            return list(entries())
        except LogError as error:
            return str(error)

    assert read(lambda: read_held_entries(log)) == read(lambda: read_entries(log.splitlines()))


def test_reading_an_empty_log_gives_none() -> None:
    assert list(read_entries([b"[\n", b"]\n"])) == []


def test_reading_a_log_on_one_line_gives_its_entries() -> None:
    first, other = {"qsl_idx": 1, "data": "00", "token_count": 1, "token_data": "01"}, {"qsl_idx": 2, "data": "02"}
    assert list(read_entries([json.dumps([first]).encode()])) == [Entry(1, b"\0", 1, b"\1")]
    entries = [Entry(1, b"\0", 1, b"\1"), Entry(2, b"\2", None, None)]
    assert list(read_entries([json.dumps([first, other]).encode()])) == entries


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (LOG.replace(b"]\n", b""), "the log ends before its list does"),
        (LOG[:40] + b"\n\n...\n\n" + LOG[40:], "no answer of LoadGen"),
        (b"not a log\n", ":1: the list of answers does not begin here"),
        (LOG + b"{}\n", ":5: there is more"),
        (LOG.replace(b"0A00", b"0A0"), ":2: no answer of LoadGen"),
        (b"", "the log ends before its list does"),
    ],
    ids=["cut", "truncated", "other", "more", "half a byte", "empty"],
)
def test_reading_a_broken_log_names_the_line(text: bytes, where: str) -> None:
    with pytest.raises(LogError, match=where):
        list(read_entries(text.splitlines()))


def test_audit_settings_are_lines_that_loadgen_reads(loadgen_read: Callable[..., list[dict[str, Any]]]) -> None:
    settings = audit_settings({"audit.mode": 2, "audit.min_query_count": 500, "audit.min_duration": 0, "target_qps": 1})
    text = write_audit_settings(settings, ["a cell: TEST04"])
    assert text == b"# a cell: TEST04\n*.*.mode = 2\n*.*.min_query_count = 500\n*.*.min_duration = 0\n"
    (read,) = loadgen_read([(text, "stable-diffusion-xl", "Offline")])
    assert (read["code"], read["min_query_count"], read["min_duration_ms"]) == (0, 500, 0)


@pytest.mark.parametrize("round_name", list_rounds())
def test_every_audit_setting_of_a_round_is_taken_by_loadgen(
    round_name: str, loadgen_read: Callable[..., list[dict[str, Any]]]
) -> None:
    confs = [
        (write_audit_settings({name: value.value for name, value in test.settings.items()}), "*", "Offline")
        for rules in load_ruleset(round_name).benchmarks.values()
        for test in rules.tests("Offline")
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
def test_test05_allows_better_and_five_percent_worse(
    scenario: str, key: str, before: str, after: str, passes: bool
) -> None:
    assert verify_test05(summary(scenario, before, key), summary(scenario, after, key)).passed is passes


@pytest.mark.parametrize(("after", "passes"), [("1049", True), ("1051", False), ("949", False)])
def test_test05_of_older_rounds_allows_five_percent_either_way(after: str, passes: bool) -> None:
    key = "Samples per second"
    before = summary("Offline", "1000", key)
    assert verify_test05(before, summary("Offline", after, key), both_ways=True).passed is passes


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
def test_test04_a_and_b_allow_slower_and_ten_percent_faster(
    scenario: str, key: str, unique: str, same: str, passes: bool
) -> None:
    assert verify_test04_ab(summary(scenario, unique, key), summary(scenario, same, key)).passed is passes


def test_test04_a_and_b_without_their_settings_fail() -> None:
    key = "Samples per second"
    found = verify_test04_ab(
        summary("Offline", "10", key, "performance_issue_unique : false"), summary("Offline", "10", key)
    )
    assert found.reasons == ("TEST04-A did not issue different samples (performance_issue_unique is off)",)
    off = summary("Offline", "10", key, "performance_issue_same : 0")
    found = verify_test04_ab(summary("Offline", "10", key), off)
    assert found.reasons == ("TEST04-B did not issue the same sample (performance_issue_same is off)",)


def test_test04_a_and_b_are_of_one_scenario_and_have_scores() -> None:
    offline, server = summary("Offline", "10", "Samples per second"), summary("Server", "x", "Nothing")
    assert verify_test04_ab(offline, server).reasons == (
        "TEST04-A is Offline, TEST04-B Server",
        "TEST04-B holds no score",
    )
    assert verify_test04_ab(server, offline).reasons == (
        "TEST04-A is Server, TEST04-B Offline",
        "TEST04-A holds no score",
    )
    assert verify_test04_ab(parse_summary(b""), offline).reasons[0] == "TEST04-A is unknown, TEST04-B Offline"


def test_test04_a_and_b_are_the_runs_of_different_and_of_the_same_samples() -> None:
    """As they are judged by name, with the figures of both and the file that the script left."""
    slow, fast = (f"Scenario : Offline\nSamples per second: {rate}\n".encode() for rate in (10, 12))
    verdict = judge("TEST04-A", VerdictInputs(performance=RunLogs(summary=slow), audit=RunLogs(summary=fast)))
    assert verdict.test == "TEST04-A"
    assert verdict.reasons == ("TEST04-B is faster: +20.00 % of TEST04-A's score",)
    assert verdict.figures == {"TEST04-A score": "10", "TEST04-B score": "12"}
    (text,) = verdict.files.values()
    assert text.splitlines()[0] == "TEST04-A: speed against the run it is compared with"
    back = judge("TEST04-A", VerdictInputs(performance=RunLogs(summary=fast), audit=RunLogs(summary=slow)))
    assert back.passed


@pytest.mark.parametrize(
    ("baseline", "compliance", "allowed", "passes"),
    [("76.4", "76.0", "1", True), ("76.4", "75.0", "1", False), ("76.4", "76.3", "0.1", False), ("0", "1", "1", False)],
)
def test_fallback_allows_a_percentage_of_the_accuracy(
    baseline: str, compliance: str, allowed: str, passes: bool
) -> None:
    part = compare_accuracies(
        Fallback({"acc": Decimal(baseline)}, {"acc": Decimal(compliance)}, {"acc": Decimal(allowed)})
    )
    assert part.passed is passes


def test_fallback_without_a_metric_fails() -> None:
    assert not compare_accuracies(Fallback({}, {}, {})).passed


@pytest.mark.parametrize("test", ["TEST01", "TEST06", "TEST08", "TEST09"])
def test_judging_without_answers_says_whose_are_missing(test: str) -> None:
    limits = {"least_mean_tokens": "1", "most_mean_tokens": "2"}
    with pytest.raises(MissingLogError):
        judge(test, VerdictInputs(audit=RunLogs(), limits=limits))


@pytest.mark.parametrize(
    ("test", "folders"),
    [
        ("TEST01", {"performance/run_1", "accuracy"}),
        ("TEST04", {"performance/run_1"}),
        ("TEST04-A", set()),
        ("TEST05", {"performance/run_1"}),
        ("TEST06", {"accuracy"}),
        ("TEST07", {"performance/run_1", "accuracy"}),
        ("TEST08", set()),
        ("TEST09", {"performance/run_1", "accuracy"}),
        ("TEST99", set()),
    ],
)
def test_folder_of_a_test_shows_its_run_and_its_answers_where_its_script_leaves_them(
    test: str, folders: set[str]
) -> None:
    run = {name: LogRef(name, 1) for name in (SUMMARY, DETAIL, ACCURACY_LOG, TRUNCATED)}
    assert {path.rpartition("/")[0] for path in audit_files(test, run, {})} == folders


def test_known_comparison_of_answers_stands_without_logs() -> None:
    detail = b"\n".join(
        b':::MLLOG {"key": "%s", "value": %s, "metadata": {}}' % pair
        for pair in (
            (b"effective_scenario", b'"Offline"'),
            (b"result_validity", b'"VALID"'),
            (b"result_samples_per_second", b"10.0"),
        )
    )
    logs = RunLogs(detail=detail)
    verdict = judge("TEST01", VerdictInputs(audit=logs, performance=logs, known_answers=Part(("they differ",))))
    assert verdict.reasons == ("they differ",)
    assert judge("TEST01", VerdictInputs(audit=logs, performance=logs, known_answers=Part())).passed
    reports = {BASELINE: "accuracy=76.1%", COMPLIANCE: "accuracy=76.0%"}
    question = VerdictInputs(
        audit=logs, performance=logs, known_answers=Part(("they differ",)), metrics=("acc",), reports=reports
    )
    assert judge("TEST01", question).notes == ("compared by accuracy, because they differ",)
    reports = {BASELINE: "accuracy=76.1%", COMPLIANCE: "accuracy=70%"}
    failed = judge("TEST01", replace(question, reports=reports))
    (differ, far), notes = failed.reasons, failed.notes
    assert (failed.passed, differ, notes) == (False, "they differ", ())
    assert far == "acc: 70 differs by 8.714 % from 76.1; 1 % allowed"
    (alone,) = judge("TEST01", replace(question, reports={BASELINE: "accuracy=76.1%"})).reasons
    assert alone == "they differ"  # one report is compared with nothing


@pytest.mark.parametrize(
    ("declared", "response", "read_as"),
    [("", "int32", "int32"), ("", "int64", "int64"), ("int64", "int32", "int64"), ("", "float16", ""), ("", "", "")],
    ids=["as the run answered", "in its longer type", "as declared", "not offered by the script", "nobody says"],
)
def test_answers_are_read_as_what_the_run_answered_with(declared: str, response: str, read_as: str) -> None:
    assert choose_dtype("TEST01", declared, response) == read_as


def test_limits_of_a_verdict_are_those_of_its_inputs_by_the_rounds_names() -> None:
    inputs = {"test": "TEST09", "limit.least_mean_tokens": "1147.8", "limit.most_mean_tokens": "1402.8", "other": 1}
    question = collect_verdict_inputs(inputs, {}, "Offline", ())
    assert question.limits == {"least_mean_tokens": "1147.8", "most_mean_tokens": "1402.8"}


@pytest.mark.parametrize("read", [RunLogs.entries, RunLogs.detail_log, RunLogs.summary_log])
def test_a_log_that_is_not_at_hand_is_told_by_its_run(read: Callable[[RunLogs, str], object]) -> None:
    with pytest.raises(MissingLogError, match="accuracy"):
        read(RunLogs(), "accuracy")


@pytest.mark.parametrize(("tokens", "ending"), [((7, 8, 2, 2), 2), ((7, 8, 2, 2, 2), 3), ((7, 2, 2, 2), 3)])
def test_more_than_one_end_of_sequence_is_counted(tokens: tuple[int, ...], ending: int) -> None:
    entry = Entry(5, np.array(tokens, "<i4").tobytes(), len(tokens), None)
    (reason,) = judge_test06([entry], "Offline").reasons
    assert f"sample 5 ends with {ending} tokens 2 (end of sequence)" in reason


@pytest.mark.parametrize(
    ("release", "early_stopping", "keys"),
    [
        ("6.0.17", True, ("early_stopping_latency_ss", "result_completed_samples_per_sec")),
        ("6.0.17", False, ("early_stopping_latency_ss", "result_completed_samples_per_sec")),
        ("2.1", False, ("early_stopping_latency_ss", "result_completed_samples_per_sec")),
        ("2.0", True, ("result_90.00_percentile_latency_ns", "result_scheduled_samples_per_sec")),
        ("1.1", True, ("early_stopping_latency_ss", "result_completed_samples_per_sec")),
        ("1.1", False, ("result_90.00_percentile_latency_ns", "result_scheduled_samples_per_sec")),
        (".5a1", False, ("result_90.00_percentile_latency_ns", "result_scheduled_samples_per_sec")),
    ],
)
def test_scores_are_estimates_since_loadgen_stops_early(
    release: str, early_stopping: bool, keys: tuple[str, str]
) -> None:
    for scenario, key in zip(("SingleStream", "Server"), keys, strict=True):
        lines = {"loadgen_version": release, "effective_scenario": scenario}
        lines |= {"early_stopping_met": True} if early_stopping else {}
        text = "".join(f":::MLLOG {json.dumps({'key': k, 'value': v, 'metadata': {}})}\n" for k, v in lines.items())
        assert find_score_key(parse_detail(text.encode())) == key


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
@pytest.mark.parametrize("scenario", ["Server", "Offline"])
def test_each_check_of_tokens_names_its_first_offender_wherever_it_is(scenario: str, order: tuple[int, ...]) -> None:
    def entry(index: int, *tokens: int, counted: int, began: int) -> Entry:
        return Entry(index, np.array(tokens, "<i4").tobytes(), counted, np.array([began], "<i4").tobytes())

    wrong = (
        (entry(5, 7, 8, 9, counted=3, began=6), "sample 5 begins with (7,), and (6,) was reported first"),
        (
            entry(6, 7, 8, 2, 2, counted=4, began=7),
            "sample 6 ends with 2 tokens 2 (end of sequence), one at most is allowed",
        ),
        (entry(7, 7, 8, 9, counted=4, began=7), "sample 7 has 3 tokens, and 4 were reported"),
    )
    good = entry(8, 7, 8, 2, counted=3, began=7)
    found = judge_test06([good, *(wrong[number][0] for number in order), good], scenario)
    named = [why for _, why in wrong]
    assert list(found.reasons) == (named if scenario == "Server" else named[1:])


def encode(dtype: str, numbers: Iterable[int]) -> list[Entry]:
    code = {"float32": "f", "int32": "i", "int64": "q"}[dtype]
    return [Entry(index, struct.pack(f"<{code}", number)) for index, number in enumerate(numbers)]


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
@pytest.mark.parametrize("read_as", ["own", "any"])
def test_class_numbers_that_all_begin_with_the_same_byte_are_told_apart(dtype: str, read_as: str) -> None:
    read_as = dtype if read_as == "own" else read_as
    accuracy, audit = encode(dtype, range(256, 4096, 256)), encode(dtype, range(512, 4352, 256))
    assert {entry.data[0] for entry in accuracy + audit} == {0}
    found = compare_answers(accuracy, audit, read_as)
    assert (found.passed, found.figures["differing"]) == (False, str(len(audit)))
    assert compare_answers(accuracy, accuracy, read_as).passed
    assert compare_answers(accuracy, audit, "byte").passed  # as the official script does by default


def test_answers_of_no_known_type_may_differ_behind_the_longest_first_element() -> None:
    one, other = Entry(0, bytes(8) + b"\1"), Entry(0, bytes(8) + b"\2")
    assert not compare_answers([Entry(0, b"\1")], [Entry(0, b"\2")], "any").passed
    assert compare_answers([one], [other], "any").passed
    assert not compare_answers([Entry(0, b"")], [one], "any").passed


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
