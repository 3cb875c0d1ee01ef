"""Logs as files: exact about what LoadGen writes, clear about what is broken; fingerprints, ends, and older text."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import LogError
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.log import DetailLog, find_fingerprints, parse_detail
from reconciler.loadgen.log_files import hash_log, is_truncated, split_answers, truncate_text
from reconciler.loadgen.summary import find_differing, parse_summary
from reconciler.loadgen.text_log import PASSED_OVER, is_text_log, parse_text_log
from reconciler.resource.ruled_values import AccuracyLogRule
from reconciler.rules.accuracy import find_lines, parse_accuracy, split_lines
from reconciler.tree.reading.cell import Folder, RunFolder
from tests.shared import need
from tests.unit.loadgen.conftest import RUNS, TOTAL, Run, make_run
from tests.unit.tree.small_cells import parse_log

Runs = Callable[[str], Run]


def entry(key: str, value: object, **metadata: object) -> bytes:
    return b":::MLLOG " + json.dumps({"key": key, "value": value, "metadata": metadata}).encode() + b"\n"


STAMP = (
    ', "time_ms": 1.5, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", "metadata": {"is_error": false, '
    '"is_warning": false, "file": "loadgen.cc", "line_no": 7, "pid": 1, "tid": 2}}'
)


@pytest.mark.parametrize("name", RUNS)
def test_real_logs_say_what_ran(loadgen_run: Runs, name: str) -> None:
    run = loadgen_run(name)
    log = run.detail
    assert log.complete
    assert (log.scenario, log.mode) == (run.case.scenario, run.case.mode)
    assert log.version.startswith(str(log.get("loadgen_version"))[:3])
    assert set(log.seeds) == {"qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"}
    assert log.started is not None
    assert log.ended is not None
    assert log.started <= log.ended
    assert log.length == run.bytes("detail.txt").count(b"\n")
    assert (log.audit is not None) == bool(run.case.audit)
    assert log.get("qsl_reported_total_count") == TOTAL
    if run.case.mode == "PerformanceOnly":
        assert log.get("num_errors") == len(log.errors)
        summary = parse_summary(run.bytes("summary.txt"))
        assert summary.validity == log.validity
        assert summary.errors == len(log.errors)
        assert summary.get("min_duration (ms)") == str(log.get_effective("min_duration_ms"))


@pytest.mark.parametrize("name", ["offline-valid", "server-tokens", "single-stream-too-few", "offline-accuracy"])
def test_the_loadgen_that_is_installed_writes_what_kept_logs_have(loadgen_run: Runs, name: str, tmp_path: Path) -> None:
    need("mlperf_loadgen")
    log, kept = make_run(RUNS[name], tmp_path).detail, loadgen_run(name).detail
    assert log.complete
    assert (log.scenario, log.mode, log.seeds) == (kept.scenario, kept.mode, kept.seeds)
    assert not find_inconsistencies(log)
    if log.version == kept.version:
        assert {line.key for line in log.lines} == {line.key for line in kept.lines}


def test_line_numbers_and_errors_of_a_real_log(loadgen_run: Runs) -> None:
    run = loadgen_run("single-stream-out-of-queries")
    lines = run.bytes("detail.txt").split(b"\n")
    log = run.detail
    assert b'"result_validity"' in lines[log.find_line_number("result_validity") - 1]
    assert len(log.errors) == 1
    assert b'"is_error": true' in lines[log.errors[0].line - 1]
    assert log.find_line_number("nothing") == 0
    assert log.find_line("nothing") is None


@pytest.mark.parametrize("value", ["[1]", f'"{"x" * 70_000}"'])
def test_a_key_that_a_line_names_again_counts_as_readers_of_json_take_it(value: str) -> None:
    text = f':::MLLOG {{"key": "a", "value": {value}{STAMP[:-1]}, "key": "b", "value": 2}}\n'
    log = parse_detail(text.encode())
    assert (log.find_line("a"), log.get("b")) == (None, 2)


@pytest.mark.parametrize("before", [b"noise", entry("a", 1).rstrip()])
def test_an_entry_behind_a_carriage_return_alone_is_refused_with_its_line(before: bytes) -> None:
    with pytest.raises(LogError, match=r"log:2: a lone carriage return precedes an entry"):
        parse_detail(entry("a", 1) + before + b"\r" + entry("b", 2), "log")
    assert parse_detail(entry("a", 1) + b"100 %\r200 %\r\n" + entry("b", 2)).get("b") == 2


def test_the_first_of_several_lines_counts_and_other_lines_are_skipped() -> None:
    log = parse_detail(entry("a", 1) + b"noise\n\n" + entry("a", 2) + entry("b", 3))
    assert log.get("a") == 1
    assert log.find_line_number("b") == 5
    assert log.length == 5


def test_decimals_keep_their_digits() -> None:
    log = parse_detail(b':::MLLOG {"key": "a", "value": 921.0230, "metadata": {}}\n')
    assert log.get("a") == Decimal("921.0230")
    assert str(log.get("a")) == "921.0230"


def test_undecodable_bytes_and_control_characters_are_tolerated() -> None:
    log = parse_detail(b':::MLLOG {"key": "loadgen_git_log_message", "value": "a\tb\xff", "metadata": {}}\n')
    assert log.get("loadgen_git_log_message") == "a\tb\ufffd"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "log.txt:1: it is empty"),
        (b"\n" + entry("a", 1), "log.txt:1: the first line"),
        (entry("a", 1) + b':::MLLOG {"key": "b", "val\n', "log.txt:2: broken log entry"),
        (entry("a", 1) + b":::MLLOG \n", "log.txt:2: broken log entry"),
        (b':::MLLOG {"value": 1}\n', "log.txt:1: broken log entry"),
        (b":::MLLOG [1]\n", "log.txt:1: broken log entry"),
        (b':::MLLOG {"key": "a", "value": 1, "metadata": 3}\n', "log.txt:1: broken log entry"),
        (b':::MLLOG {"key": "a", "value": nan}\n', "log.txt:1: broken log entry"),
        (b':::MLLOG {"key": "a", "value": [1,x]}\n', "log.txt:1: broken log entry"),
        (entry("a", 1) + entry("loaded_qsl_set", list(range(20_000)))[:-9], "log.txt:2: broken log entry"),
    ],
    ids=["empty", "blank first", "cut", "no object", "no key", "array", "metadata", "nan", "no list", "cut long line"],
)
def test_parse_detail_when_broken_names_file_and_line(data: bytes, message: str) -> None:
    with pytest.raises(LogError) as caught:
        parse_detail(data, "log.txt")
    assert caught.value.message.startswith(message)
    assert caught.value.fix


def test_source_files_with_backslashes_are_read() -> None:
    """As LoadGen's own file names are on Windows, there escaped."""
    log = parse_detail(b"".join(_from_file(key, rb"C:\\loadgen\\logging.cc") for key in ("a", "b", "c")), "log.txt")
    assert [(entry.key, entry.value, entry.line) for entry in log.lines] == [("a", 1, 1), ("b", 1, 2), ("c", 1, 3)]
    assert {entry.process for entry in log.lines} == {"5"}


@pytest.mark.parametrize("before", [0, 2])
def test_a_line_end_within_a_text_breaks_its_line(before: int) -> None:
    whole = b"".join(_from_file(f"k{number}", b"logging.cc") for number in range(before))
    with pytest.raises(LogError, match=rf"log\.txt:{before + 1}: broken log entry"):
        parse_detail(whole + _from_file("a", b"logging\n.cc") + _from_file("b", b"logging.cc"), "log.txt")
    with pytest.raises(LogError, match=rf"log\.txt:{before + 1}: broken log entry"):
        parse_detail(whole + _from_file("a", b"logging\n.cc").removesuffix(b"\n"), "log.txt")


def test_a_last_line_without_its_end_is_read() -> None:
    data = (_from_file("a", b"logging.cc") + _from_file("b", b"logging.cc")).removesuffix(b"\n")
    assert parse_detail(data).find_line_number("b") == 2


def _from_file(key: str, file: bytes) -> bytes:
    """A line as LoadGen writes it, but for its source file."""
    return (
        b':::MLLOG {"key": "%b", "value": 1, "time_ms": 1.5, "namespace": "mlperf::logging", "event_type": '
        b'"POINT_IN_TIME", "metadata": {"is_error": false, "is_warning": false, "file": "%b", "line_no": 7, '
        b'"pid": 5, "tid": 6}}\n' % (key.encode(), file)
    )


def test_a_time_that_is_none_names_its_line() -> None:
    with pytest.raises(LogError, match=r"log\.txt:1: power_begin is not a time"):
        _ = parse_detail(entry("power_begin", "yesterday"), "log.txt").started


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(0, 400))
def test_parse_detail_ends_in_a_log_or_a_log_error(parts: list[bytes], cut: int) -> None:
    data = (entry("a", 1) + b":::MLLOG ".join(parts) + entry("b", [1, {"c": 2}]))[: cut or None]
    with contextlib.suppress(LogError):
        assert parse_detail(data).length >= 1


@pytest.mark.parametrize("number", ["1e401", "-1e401", "1e-999", "1e99999999999999999999"])
def test_a_number_that_no_double_holds_breaks_its_line(number: str) -> None:
    """Whichever way the line is written."""
    short = b':::MLLOG {"key": "large", "value": %s, "metadata": {}}\n' % number.encode()
    for written in (short, line(number), line(number).replace(b'"time_ms":', b'"time_ms": ')):
        with pytest.raises(LogError, match=r":2: broken log entry: a number is out of range"):
            parse_detail(entry("fine", 1) + written)


@pytest.mark.parametrize("name", ["qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"])
def test_each_seed_that_a_log_has_is_one_of_its_seeds(name: str) -> None:
    assert parse_detail(entry(f"effective_{name}", 0) + entry("effective_other_rng_seed", 1)).seeds == {name: 0}


@pytest.mark.parametrize(
    ("mode", "version", "both"),
    [("SubmissionRun", "3.1 @ a", True), ("SubmissionRun", "4.0 @ a", False), ("PerformanceOnly", "3.1 @ a", False)],
)
def test_one_run_of_an_early_release_measured_and_answered(mode: str, version: str, both: bool) -> None:
    log = parse_detail(entry("effective_test_mode", mode) + entry("loadgen_version", version))
    assert log.serves_both is both


TAIL = (
    ', "time_ms": 0.048126, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME", "metadata": '
    '{{"is_error": {}, "is_warning": {}, "file": "loadgen.cc", "line_no": 7, "pid": 1, "tid": 2}}}}'
)


def line(value: str, error: str = "false", warning: str = "false") -> bytes:
    return f':::MLLOG {{"key": "k", "value": {value}{TAIL.format(error, warning)}\n'.encode()


KEYS = (
    "result_min_latency_ns",
    "result_mean_latency_ns",
    "result_50.00_percentile_latency_ns",
    "result_max_latency_ns",
)


def find(**values: object) -> tuple[str, ...]:
    return find_fingerprints(parse_log({"first": 1, **values}))


def measure(*latencies: int) -> dict[str, object]:
    return dict(zip(KEYS, latencies, strict=True))


def test_four_different_latencies_identify_a_run_and_fewer_do_not() -> None:
    (own,) = find(**measure(1, 2, 3, 4))
    assert own.startswith("latencies ")
    assert find(**measure(1, 2, 3, 3)) == ()
    assert find(**measure(1, 1, 1, 1)) == ()
    assert find() == ()


@pytest.mark.parametrize("other", [measure(1, 2, 3, 5), measure(2, 1, 3, 4)], ids=["another", "in another order"])
def test_other_latencies_are_of_another_run(other: dict[str, object]) -> None:
    assert find(**other) != find(**measure(1, 2, 3, 4))


def test_dates_and_settings_and_their_order_identify_no_run() -> None:
    own = find(**measure(1, 2, 3, 4))
    dated = {"power_begin": "01-02-2026 10:00:00.000", "effective_target_latency_ns": 7, "my_result_x_latency_ns": 8}
    assert find(**dated, **measure(1, 2, 3, 4)) == own
    assert find(**dict(reversed(measure(1, 2, 3, 4).items()))) == own
    assert find(**measure(1, 2, 3, 3), effective_target_latency_ns=7) == ()


def test_latencies_report_by_their_names_and_digits_alone() -> None:
    text = (
        "result_50.00_percentile_latency_ns=3 result_max_latency_ns=4 result_mean_latency_ns=2 result_min_latency_ns=1"
    )
    assert find(**measure(1, 2, 3, 4)) == (f"latencies {hashlib.sha256(text.encode()).hexdigest()}",)


@pytest.mark.parametrize(
    ("clocks", "reported"),
    [
        ({"power_begin": 0.25, "power_end": 600_000.125}, ("clock 0.25 600000.125",)),
        ({"power_begin": 0.25}, ()),
        ({"power_end": 600_000.125}, ()),
        ({}, ()),
    ],
)
def test_the_logger_clock_identifies_a_run_with_both_ends(clocks: dict[str, float], reported: tuple[str, ...]) -> None:
    metadata = {"is_error": False, "is_warning": False, "file": "loadgen.cc", "line_no": 7, "pid": 1, "tid": 2}
    entries = [
        {"key": key, "value": "x", "time_ms": at, "namespace": "a", "event_type": "b", "metadata": metadata}
        for key, at in {"first": 7.5, **clocks}.items()
    ]
    log = parse_detail("".join(f":::MLLOG {json.dumps(entry)}\n" for entry in entries).encode())
    assert find_fingerprints(log) == reported


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
    assert hash_log(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


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


_DETAIL = """\
"pid": 7, "tid": 7, "ts": 100ns : version : .5a1 @ 0123456789
"pid": 7, "tid": 7, "ts": 100ns : git_log :

0123456789012345678901234567890123456789 effective : 5
"pid": 7, "tid": 7, "ts": 200ns : Date + time of test: 2020-09-10T11:59:34Z
"pid": 7, "tid": 7, "ts": 200ns : System Under Test (SUT) name: Some_SUT
"pid": 7, "tid": 7, "ts": 200ns : QSL total size: 50000
"pid": 7, "tid": 7, "ts": 300ns : Effective Settings:
"pid": 7, "tid": 7, "ts": 300ns : Scenario : Single Stream
"pid": 7, "tid": 7, "ts": 300ns : Test mode : Performance
"pid": 7, "tid": 7, "ts": 300ns : target_latency (ns): 0
"pid": 7, "tid": 7, "ts": 300ns : target_latency_percentile : 0.9
"pid": 7, "tid": 7, "ts": 300ns : min_duration (ms): 60000
"pid": 7, "tid": 7, "ts": 300ns : qsl_rng_seed : 12786827339337101903
"pid": 7, "tid": 7, "ts": 300ns : performance_issue_same : false
"pid": 7, "tid": 7, "ts": 400ns :
"pid": 7, "tid": 7, "ts": 400ns : Requested Settings:
"pid": 7, "tid": 7, "ts": 400ns : Scenario : Single Stream
"pid": 7, "tid": 7, "ts": 400ns : min_duration_ms : 60000
"pid": 7, "tid": 7, "ts": 400ns : GeneratedQueries: "queries" : 1024, "samples per query" : 1, "duration" : 9
"pid": 7, "tid": 7, "ts": 500ns : ERROR : CAS failed."times" : 3, "line" : 826
"pid": 7, "tid": 7, "ts": 600ns : POWER_BEGIN: "mode" : Performance, "time" : 09-16-2020 10:25:45.633
"pid": 7, "tid": 7, "ts": 600ns : POWER_END: "mode" : Performance, "time" : 09-16-2020 10:26:45.635
"""
_SUMMARY = """\
SUT name : Some_SUT
Scenario : Single Stream
Mode     : Performance
90th percentile latency (ns) : 60000000
Result is : VALID
  Min duration satisfied : Yes
  Min queries satisfied : Yes
QPS w/o loadgen overhead        : 17.04
Mean latency (ns)               : 58666375
90.00 percentile latency (ns)   : 60000000
min_duration (ms): 60000
qsl_rng_seed : 12786827339337101903
performance_issue_same : false
"""


def parse(detail: str = _DETAIL, summary: str = _SUMMARY) -> DetailLog:
    return parse_text_log(detail.encode(), parse_summary(summary.encode()), "log.txt")


def test_settings_and_results_have_the_names_that_they_have_had_since() -> None:
    log = parse()
    assert is_text_log(_DETAIL.encode())
    assert (log.scenario, log.mode, log.validity, log.release) == ("SingleStream", "PerformanceOnly", "VALID", 0)
    assert log.seeds == {"qsl_rng_seed": 12786827339337101903}
    assert log.get_effective("target_latency_ns") == 0
    assert log.get_effective("target_latency_percentile") == Decimal("0.9")
    assert log.get_effective("min_duration_ms") == log.get("requested_min_duration_ms") == 60000
    assert log.get_effective("performance_issue_same") is False
    assert log.get("generated_query_count") == 1024
    assert log.get("qsl_reported_total_count") == 50000
    assert log.get("result_qps_without_loadgen_overhead") == Decimal("17.04")
    assert log.started is not None
    assert log.started.isoformat() == "2020-09-16T10:25:45.633000+00:00"
    assert log.complete


def test_lines_are_those_of_the_detail_log_and_results_have_none_there() -> None:
    log = parse()
    assert log.find_line_number("sut_name") == 6
    assert log.find_line_number("result_validity") == 0
    assert log.length == len(_DETAIL.splitlines())


def test_who_cannot_read_text_says_so() -> None:
    with pytest.raises(LogError, match=r"log\.txt:1: .* before v1\.0") as caught:
        parse_detail(_DETAIL.encode(), "log.txt")
    assert "verify-tree" in caught.value.fix


def test_two_decimals_of_a_rate_are_enough() -> None:
    """A mean of 58,666,375 ns is 17.0455 queries a second."""
    assert not find_inconsistencies(parse(summary=_SUMMARY.replace("17.04", "17.05")))
    (found,) = find_inconsistencies(parse(summary=_SUMMARY.replace("17.04", "17.07")))
    assert found.key == "result_qps_without_loadgen_overhead"


def test_both_logs_are_compared_where_both_state_a_value() -> None:
    assert not list(find_differing(parse_summary(_SUMMARY.encode()), parse()))
    other = parse(_DETAIL.replace("min_duration (ms): 60000", "min_duration (ms): 6000"))
    differing = [name for name, _ in find_differing(parse_summary(_SUMMARY.encode()), other)]
    assert differing == ["min_duration (ms)"]


def test_errors_are_found_but_for_those_of_the_logger_itself() -> None:
    assert not parse().errors
    assert len(parse().list_entries(PASSED_OVER)) == 1
    log = parse(_DETAIL.replace("CAS failed.", "Ran out of queries."))
    (error,) = log.errors
    assert (error.key, error.line) == ("error_generic_message", 21)
    assert not list(log.list_entries(PASSED_OVER))


def test_the_mark_of_an_audit_is_found() -> None:
    found = '"pid": 7, "tid": 7, "ts": 9ns : Found Audit Config file (audit.config). Overriding TestSettings'
    audit = parse(f"{found}\n{_DETAIL}").audit
    assert audit is not None
    assert audit.line == 1


@pytest.mark.parametrize("summary", [_SUMMARY, None])
def test_a_run_s_folder_is_read_with_or_without_a_summary(summary: str | None, tmp_path: Path) -> None:
    (tmp_path / "mlperf_log_detail.txt").write_text(_DETAIL)
    if summary is not None:
        (tmp_path / "mlperf_log_summary.txt").write_text(summary)
    log = RunFolder("performance", Folder(str(tmp_path), "run_1")).detail.value
    assert log is not None
    assert log.file == "run_1/mlperf_log_detail.txt"
    assert log.validity == ("VALID" if summary else "")


@pytest.mark.parametrize("number", ["9" * 5000, "1e999999999", "nan"], ids=["digits", "exponent", "nan"])
def test_a_number_that_no_one_can_compute_with_is_text(number: str) -> None:
    log = parse(_DETAIL.replace("60000", number), _SUMMARY.replace("58666375", number))
    assert log.get("result_mean_latency_ns") == number
    assert isinstance(log.get("effective_min_duration_ms"), str)


def test_multistream_s_first_percentiles_are_those_of_queries() -> None:
    summary = """Scenario : Multi Stream
Samples per query : 272
Per-query latency:  "target_ns" : 50000000, "target_ms" : 50
99.00 percentile latency (ns)   : 48092407
Per-sample latency:
99.00 percentile latency (ns)   : 47975303
"""
    log = parse(_DETAIL.replace("Single Stream", "Multi Stream"), summary)
    assert log.get("result_99.00_percentile_per_query_latency_ns") == 48092407
    assert log.get("result_99.00_percentile_latency_ns") is None


def test_bytes_that_are_no_text_are_shown_in_their_place() -> None:
    data = _DETAIL.replace("Some_SUT", "Some_é_SUT").encode("latin-1")
    log = parse_text_log(data, parse_summary(_SUMMARY.encode()), "log.txt")
    assert log.get("sut_name") == "Some_\ufffd_SUT"
    assert log.get_effective("min_duration_ms") == 60000


def lines(*texts: str) -> bytes:
    return "".join(f'"pid": 7, "tid": 7, "ts": 100ns : {text}\n' for text in texts).encode()


def test_results_come_from_the_summary() -> None:
    summary = (
        "Result is : VALID\nMin queries satisfied : No\nEarly stopping satisfied : Yes\nSamples per second : 1.5\n"
    )
    log = parse_text_log(lines("Effective Settings:"), parse_summary(f"{summary}Mean latency (ns) :\n".encode()))
    assert [(entry.key, entry.value, entry.line) for entry in log.lines] == [
        ("result_validity", "VALID", 0),
        ("result_min_queries_met", False, 0),
        ("early_stopping_met", True, 0),
        ("result_samples_per_second", Decimal("1.5"), 0),
    ]
    assert log.find_line_number("result_validity") == 0
