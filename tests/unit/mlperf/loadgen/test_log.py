"""The detail log: exact about what LoadGen writes, clear about what is broken."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import LogError
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.inconsistency import show_value
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.log_line import LogLine
from reconciler.loadgen.summary import parse_summary
from tests.shared import need
from tests.unit.mlperf.conftest import RUNS, TOTAL, Run, make_run

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
        assert summary.get("min_duration (ms)") == str(log.effective("min_duration_ms"))


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
    assert b'"result_validity"' in lines[log.number("result_validity") - 1]
    assert len(log.errors) == 1
    assert b'"is_error": true' in lines[log.errors[0].line - 1]
    assert log.number("nothing") == 0
    assert log.line("nothing") is None


def test_loaded_samples_are_read_on_demand_when_the_line_is_long() -> None:
    samples = list(range(20_000))
    long_line = f':::MLLOG {{"key": "loaded_qsl_set", "value": {json.dumps(samples)}{STAMP}\n'.encode()
    log = parse_detail(entry("a", 1) + long_line)
    found = log.line("loaded_qsl_set")
    assert found is not None
    assert found.value is None
    assert found.raw
    assert log.get("loaded_qsl_set") == samples


@pytest.mark.parametrize("value", ["[1]", f'"{"x" * 70_000}"'])
def test_a_key_that_a_line_names_again_counts_as_readers_of_json_take_it(value: str) -> None:
    text = f':::MLLOG {{"key": "a", "value": {value}{STAMP[:-1]}, "key": "b", "value": 2}}\n'
    log = parse_detail(text.encode())
    assert (log.line("a"), log.get("b")) == (None, 2)


@pytest.mark.parametrize("before", [b"noise", entry("a", 1).rstrip()])
def test_an_entry_behind_a_carriage_return_alone_is_refused_with_its_line(before: bytes) -> None:
    with pytest.raises(LogError, match=r"log:2: a carriage return alone is before an entry"):
        parse_detail(entry("a", 1) + before + b"\r" + entry("b", 2), "log")
    assert parse_detail(entry("a", 1) + b"100 %\r200 %\r\n" + entry("b", 2)).get("b") == 2


def test_the_first_of_several_lines_counts_and_other_lines_are_skipped() -> None:
    log = parse_detail(entry("a", 1) + b"noise\n\n" + entry("a", 2) + entry("b", 3))
    assert log.get("a") == 1
    assert log.number("b") == 5
    assert log.length == 5


def test_decimals_keep_their_digits() -> None:
    log = parse_detail(b':::MLLOG {"key": "a", "value": 921.0230, "metadata": {}}\n')
    assert log.get("a") == Decimal("921.0230")
    assert str(log.get("a")) == "921.0230"


def test_flags_of_an_entry() -> None:
    log = parse_detail(entry("a", "x", is_error=True) + entry("b", "y", is_warning=True))
    assert log.errors == (LogLine("a", "x", 1, error=True),)
    assert [line.key for line in log.warnings] == ["b"]


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
        (entry("a", 1) + entry("loaded_qsl_set", list(range(20_000)))[:-9], "log.txt:2: broken log entry"),
    ],
    ids=["empty", "blank first", "cut", "no object", "no key", "array", "metadata", "nan", "cut long line"],
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
    assert log.index.one_process


@pytest.mark.parametrize("before", [0, 2])
def test_a_line_end_within_a_text_breaks_its_line(before: int) -> None:
    whole = b"".join(_from_file(f"k{number}", b"logging.cc") for number in range(before))
    with pytest.raises(LogError, match=rf"log\.txt:{before + 1}: broken log entry"):
        parse_detail(whole + _from_file("a", b"logging\n.cc") + _from_file("b", b"logging.cc"), "log.txt")
    with pytest.raises(LogError, match=rf"log\.txt:{before + 1}: broken log entry"):
        parse_detail(whole + _from_file("a", b"logging\n.cc").removesuffix(b"\n"), "log.txt")


def test_a_last_line_without_its_end_is_read() -> None:
    data = (_from_file("a", b"logging.cc") + _from_file("b", b"logging.cc")).removesuffix(b"\n")
    assert parse_detail(data).number("b") == 2


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


def test_summary_keeps_first_values_lines_and_counts() -> None:
    text = b"==\nScenario : Server\nScenario : Offline\nResult is : VALID\n\n1 warning encountered. See detailed log.\n"
    summary = parse_summary(text + b"\n12 ERRORS encountered. See detailed log.\n")
    assert summary.get("Scenario") == "Server"
    assert summary.number("Scenario") == 2
    assert summary.number("nothing") == 0
    assert (summary.warnings, summary.errors) == (1, 12)
    assert parse_summary(b"Result is : VALID\n").errors is None


@pytest.mark.parametrize("number", ["1e401", "-1e401", "1e-999", "1e99999999999999999999"])
def test_a_number_that_no_double_holds_breaks_its_line(number: str) -> None:
    data = entry("fine", 1) + b':::MLLOG {"key": "large", "value": %s, "metadata": {}}\n' % number.encode()
    with pytest.raises(LogError, match=r":2: broken log entry: a number is out of range"):
        parse_detail(data)


def test_a_number_at_the_edge_of_doubles_is_read() -> None:
    data = b':::MLLOG {"key": "large", "value": 1.7e308, "metadata": {}}\n'
    assert parse_detail(data).get("large") == Decimal("1.7e308")


@pytest.mark.parametrize(("length", "shown"), [(60, "x" * 60), (61, "x" * 57 + "...")])
def test_a_long_value_is_shown_by_its_beginning(length: int, shown: str) -> None:
    line = parse_detail(entry("name", "x" * length)).line("name")
    assert line is not None
    assert show_value(line) == shown


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("6.0.17 @ d6147c7eb7", 6),
        ("12.1", 12),
        ("5", 5),
        (".5a1 @ 6958607d52", 0),
        ("v5.0", 0),
        ("\u00b2.1", 0),
        ("\u0664.1", 0),
        ("1234567890.1", 123456789),
    ],
)
def test_a_release_is_the_first_number_of_a_version(version: str, release: int) -> None:
    log = parse_detail(entry("loadgen_version", version))
    assert (log.version, log.release) == (version, release)


def test_what_a_log_does_not_say_is_empty() -> None:
    log = parse_detail(entry("a", 1))
    assert (log.version, log.release, log.scenario, log.mode, log.validity, log.seeds) == ("", 0, "", "", "", {})
    assert (log.started, log.ended, log.audit, log.complete, log.errors, log.warnings) == (
        None,
        None,
        None,
        False,
        (),
        (),
    )
    assert (log.get("b"), log.get("b", 7), log.effective("b", 8), log.requested("b", 9)) == (None, 7, 8, 9)
    assert (log.effective("b"), log.requested("b"), log.all_of("b")) == (None, None, ())


def test_what_was_used_is_apart_from_what_was_requested() -> None:
    log = parse_detail(entry("effective_a", 1) + entry("requested_a", 2) + entry("effective_a", 3))
    assert (log.effective("a"), log.requested("a")) == (1, 2)
    assert [line.line for line in log.all_of("effective_a")] == [1, 3]


@pytest.mark.parametrize("name", ["qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"])
def test_each_seed_that_a_log_has_is_one_of_its_seeds(name: str) -> None:
    assert parse_detail(entry(f"effective_{name}", 0) + entry("effective_other_rng_seed", 1)).seeds == {name: 0}


@pytest.mark.parametrize(
    ("mode", "key", "complete"),
    [
        ("AccuracyOnly", "power_end", True),
        ("AccuracyOnly", "result_validity", False),
        ("PerformanceOnly", "power_end", False),
        ("PerformanceOnly", "result_validity", True),
        ("SubmissionRun", "result_validity", True),
    ],
)
def test_a_run_has_ended_with_the_last_line_of_its_mode(mode: str, key: str, complete: bool) -> None:
    assert parse_detail(entry("effective_test_mode", mode) + entry(key, "x")).complete is complete


@pytest.mark.parametrize(
    ("mode", "version", "both"),
    [
        ("SubmissionRun", "3.1 @ a", True),
        ("SubmissionRun", "4.0 @ a", False),
        ("PerformanceOnly", "3.1 @ a", False),
    ],
)
def test_one_run_of_an_early_release_measured_and_answered(mode: str, version: str, both: bool) -> None:
    log = parse_detail(entry("effective_test_mode", mode) + entry("loadgen_version", version))
    assert log.serves_both is both


def test_the_end_of_a_run_is_not_its_beginning() -> None:
    log = parse_detail(entry("power_begin", "11-22-2026 12:00:00.5") + entry("power_end", "11-22-2026 12:00:01.25"))
    assert log.started == datetime(2026, 11, 22, 12, 0, 0, 500_000, UTC)
    assert log.ended == datetime(2026, 11, 22, 12, 0, 1, 250_000, UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("02-03-2021 04:05:06.000007", datetime(2021, 2, 3, 4, 5, 6, 7, UTC)),
        ("2-3-2021 4:5:6.7", datetime(2021, 2, 3, 4, 5, 6, 700_000, UTC)),
        ("02-03-2021 04:05:59.9", datetime(2021, 2, 3, 4, 5, 59, 900_000, UTC)),
        ("02-03-2021 04:05:60.0", None),
        ("02-03-2021 04:05:61.0", None),
        ("13-03-2021 04:05:06.0", None),
        ("02-03-2021 04:05:06.0000001", None),
        ("02-03-2021 04:05:06", None),
    ],
)
def test_a_time_is_read_in_digits_of_any_width(text: str, time: datetime | None) -> None:
    log = parse_detail(entry("power_begin", text), "log.txt")
    if time is not None:
        assert log.started == time
        return
    with pytest.raises(LogError) as caught:
        _ = log.started
    assert caught.value.message == f"log.txt:1: power_begin is not a time: {text!r}"


def test_an_audit_is_told_by_a_warning_that_begins_so() -> None:
    said = "Found Audit Config file (audit.config). Overriding TestSettings from audit.config file."
    (line,) = parse_detail(entry("warning", said, is_warning=True)).warnings
    assert parse_detail(entry("warning", said, is_warning=True)).audit == line
    for other in (entry("warning", said), entry("warning", f"Not {said}", is_warning=True)):
        assert parse_detail(other).audit is None
    assert parse_detail(entry("error", said, is_error=True) + entry("w", 7, is_warning=True)).audit is None


def test_what_a_function_makes_of_a_log_is_made_once() -> None:
    made = []

    def make(log: DetailLog) -> int:
        made.append(log.length)
        return 7

    log = parse_detail(entry("a", 1))
    assert [log.once(make) for _ in range(2)] == [7, 7]
    assert made == [1]


@pytest.mark.parametrize(
    ("data", "message", "fix"),
    [
        (b" \n", "f:1: it is empty: LoadGen wrote nothing", "see what the program printed: its run never began"),
        (
            b'"pid": 7, "tid": 7, "ts": 1ns : a : 1',
            "f:1: a log of before v1.0, which is text and has no results",
            "`verify-tree` and `check` read such trees; their runs cannot be recorded",
        ),
        (
            b"x",
            "f:1: the first line does not begin with :::MLLOG",
            "this is not a LoadGen detail log, or it was edited; import the log that LoadGen wrote",
        ),
        (
            entry("a", 1) + entry("b", 2) + b"\r" + entry("c", 3),
            "f:3: a carriage return alone is before an entry",
            "it ends a line for the official checker and not for LoadGen, which writes none: import the log again",
        ),
        (
            entry("a", 1) + b":::MLLOG {}\n",
            "f:2: broken log entry: 'key'",
            "the file was cut or edited; import the log again from where LoadGen wrote it, or repeat the run",
        ),
    ],
    ids=["blank", "text", "no log", "return", "no key"],
)
def test_what_is_no_log_is_refused_with_what_to_do(data: bytes, message: str, fix: str) -> None:
    with pytest.raises(LogError) as caught:
        parse_detail(data, "f")
    assert (caught.value.message, caught.value.fix) == (message, fix)


def test_a_log_is_called_by_loadgens_name_where_none_is_given() -> None:
    assert parse_detail(entry("a", 1)).file == "mlperf_log_detail.txt"
