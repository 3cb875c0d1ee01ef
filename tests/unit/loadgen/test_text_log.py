"""Logs of rounds before v1.0: text in the detail log, results in the summary alone."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from reconciler.errors import LogError
from reconciler.loadgen.consistency import find_inconsistencies
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.summary import find_differing, parse_summary
from reconciler.loadgen.text_log import PASSED_OVER, is_text_log, parse_text_log
from reconciler.tree.reading.cell import Folder, RunFolder

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
