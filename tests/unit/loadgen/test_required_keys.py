"""Lines that every run has, or every run of a kind: each is missed where it is not there."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from reconciler.loadgen.consistency import find_missing_keys
from reconciler.loadgen.log import DetailLog, parse_detail
from reconciler.loadgen.text_log import parse_text_log
from tests.unit.loadgen.conftest import Run

# Lines that a run may be without: of some releases, of a setting that was made, or of what another check asks for.
SPARED = re.compile(
    r"logger_\w+|\w*generic_message|error_runtime|\w+_name|get_sut_name\w+|loadgen_(build_date_local|git_status_message)"
    r"|(requested|effective)_(accuracy_log_rng_seed|print_timestamps|accuracy_sample_count(_override)?)"
    r"|(requested|effective)_sample_concatenate_permutation|requested_\w+_expected_latency_ns|num_errors"
    r"|requested_server_(find_peak\w+|max_async_queries|num_issue_query_threads)|effective_max_async_queries"
    r"|effective_target_duration_ms|result_validity|result_invalid_reason|result_token_throughput_with_loadgen_overhead"
)
RUNS = (
    *("single-stream-valid", "multi-stream-valid", "server-valid", "offline-valid", "offline-accuracy"),
    *("server-accuracy", "server-tokens", "offline-tokens"),
)


def make_log(**values: str) -> DetailLog:
    """Of the JSON text of values."""
    lines = (f':::MLLOG {{"key": "{key}", "value": {value}}}\n' for key, value in {"first": "1", **values}.items())
    return parse_detail("".join(lines).encode())


@pytest.mark.parametrize("name", RUNS)
def test_each_line_that_such_a_run_has_is_missed(name: str, loadgen_run: Callable[[str], Run]) -> None:
    run = loadgen_run(name)
    lines = run.bytes("detail.txt").splitlines(keepends=True)
    for key in set(run.detail.index) - {"requested_use_token_latencies"}:  # which decides on others
        without = parse_detail(b"".join(line for line in lines if f'"key": "{key}"'.encode() not in line))
        found = list(find_missing_keys(without))
        assert [item.key for item in found] == [key] * (SPARED.fullmatch(key) is None)
        assert all((item.stated, item.line, item.other) == ("absent", without.length, 0) for item in found)


@pytest.mark.parametrize("version", ["6.0.17 @ d6147c7eb7", ".5a1 @ 6958607d52", "3.1"])
def test_a_version_begins_with_a_release(version: str) -> None:
    found = find_missing_keys(make_log(loadgen_version=f'"{version}"'))
    assert "loadgen_version" not in [item.key for item in found]


def test_a_log_has_a_version_of_loadgen() -> None:
    (found,) = find_missing_keys(make_log())
    assert (found.key, found.stated, found.line) == ("loadgen_version", "absent", 1)
    text = parse_text_log(b'"pid": 7, "tid": 7, "ts": 100ns : Test mode : Performance\n', None)
    assert list(find_missing_keys(text)) == []  # of before v1.0
    for version in ("of ours", "6", "x6.0", ""):
        found = next(find_missing_keys(make_log(loadgen_version=f'"{version}"')))
        assert (found.key, found.stated, found.line) == ("loadgen_version", version, 2)
