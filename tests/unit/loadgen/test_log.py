"""The detail log: exact about what LoadGen writes, clear about what is broken."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import LogError
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.log import parse_detail
from reconciler.loadgen.summary import parse_summary
from tests.shared import need
from tests.unit.loadgen.conftest import RUNS, TOTAL, Run, make_run

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
