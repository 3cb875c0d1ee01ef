"""Whether the lines of a log come from one run."""

from __future__ import annotations

import json

import pytest

from reconciler.loadgen.consistency import find_foreign_lines
from reconciler.loadgen.log import parse_detail


def line(
    key: str, time: float = 1.5, namespace: str = "mlperf::logging", file: str = "results.cc", pid: int = 7
) -> str:
    metadata = {"is_error": False, "is_warning": False, "file": file, "line_no": 7, "pid": pid, "tid": 9}
    entry = {"key": key, "value": 1, "time_ms": time, "namespace": namespace, "event_type": "POINT_IN_TIME"}
    return f":::MLLOG {json.dumps({**entry, 'metadata': metadata})}\n"


def reported(*lines: str) -> list[str]:
    return list(map(str, find_foreign_lines(parse_detail("".join(lines).encode()))))


def test_results_of_one_moment_are_of_one_run() -> None:
    assert reported(line("a", 0.5), line("result_a"), line("result_b"), line("b", 2.5, "mine", "loadgen.cc")) == []
    assert reported(line("a"), line("b", 9.5)) == reported(line("a")) == []


@pytest.mark.parametrize(
    ("other", "stated", "derived"),
    [
        ({"time": 2.5}, "2.5 ms of LoadGen's logger", "1.5"),
        ({"namespace": "mine"}, "mine as namespace", "mlperf::logging"),
        ({"file": "mine.py"}, "mine.py as LoadGen's source file", "results.cc"),
        ({"file": "x" * 50}, f"{'x' * 40} as LoadGen's source file", "results.cc"),
    ],
)
def test_a_result_of_another_moment_is_named(other: dict[str, str | float], stated: str, derived: str) -> None:
    foreign = line("result_b", **other)  # type: ignore[arg-type]
    said = f"result_b: {stated} (line 3), but another of its results has {derived} (line 2)"
    assert reported(line("a", 0.5), line("result_a"), foreign, line("result_c")) == [said]
    assert reported(line("a", **other), line("result_a"), line("result_b")) == []  # type: ignore[arg-type]


def test_all_that_differs_is_named() -> None:
    found = reported(line("result_a"), line("result_b", 2.5, "mine", "mine.py"), line("result_c", 3.5))
    assert [text.partition(" (line")[0] for text in found] == [
        "result_b: 2.5 ms of LoadGen's logger",
        "result_b: mine as namespace",
        "result_b: mine.py as LoadGen's source file",
        "result_c: 3.5 ms of LoadGen's logger",
    ]


def test_lines_of_another_process_are_named() -> None:
    found = reported(line("a", pid=7), line("b", pid=8), line("result_c", pid=9), line("d", pid=7))
    assert found == [
        "b: written by process 8 (line 2), but process 7 wrote the log",
        "result_c: written by process 9 (line 3), but process 7 wrote the log",
    ]
    many = reported(line("a"), line("b", pid=10**30))
    assert many == [f"b: written by process 1{'0' * 19} (line 2), but process 7 wrote the log"]
