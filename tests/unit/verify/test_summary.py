"""A run's summary and its trace against its detail log, value by value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.verify.cell_rules import verify_summaries, verify_traces
from reconciler.verify.engine import verify_tree
from tests.unit.tree.small_cells import DETAIL, RUN, SUMMARY, log, say, small_cell

STATED = {
    "Scenario": ("effective_scenario", "Offline", "Server"),
    "Mode": ("effective_test_mode", "PerformanceOnly", "AccuracyOnly"),
    "Result is": ("result_validity", "VALID", "INVALID"),
    "Samples per second": ("result_samples_per_second", 100, 200),
}


def find(root: Path, wrong: int, folder: str = RUN) -> list[str]:
    """The last values of the summary are of another run."""
    lines = [(key, value) for key, value, _ in STATED.values()]
    odd = list(STATED)[len(STATED) - wrong :]
    text = "".join(f"{name} : {other if name in odd else value}\n" for name, (_, value, other) in STATED.items())
    files = {f"{folder}/{DETAIL}": log(("loadgen_version", "5.1 @ 0123456789"), *lines), f"{folder}/{SUMMARY}": text}
    return say(verify_summaries(small_cell(root, files)))


def test_a_summary_that_differs_in_many_is_of_another_run(tmp_path: Path) -> None:
    assert find(tmp_path, 4) == [f"./{RUN}/{SUMMARY}:1; see ./{RUN}/{DETAIL}:2"]


@pytest.mark.parametrize(
    ("text", "errors", "line", "counted"),
    [
        ("No errors encountered during test.\n", 0, 0, None),
        ("No errors encountered during test.\n", 2, 3, 0),
        ("1 ERROR encountered. See detailed log.\n", 0, 2, 1),
        ("2 ERRORS encountered. See detailed log.\n", 2, 0, None),
        ("3 ERRORS encountered. See detailed log.\n", 2, 3, 3),
        ("nothing\n", 2, 0, None),
    ],
)
def test_errors_are_counted_in_both(tmp_path: Path, text: str, errors: int, line: int, counted: int | None) -> None:
    lines = [("effective_scenario", "Offline"), ("num_errors", 0), *([("error_runtime", "lost")] * errors)]
    files = {f"{RUN}/{DETAIL}": log(*lines), f"{RUN}/{SUMMARY}": text}
    said = f"note ./{RUN}/{SUMMARY}; see ./{RUN}/{DETAIL}:{line}; mechanism: uncounted-errors"
    assert say(verify_summaries(small_cell(tmp_path, files))) == ([said] if counted is not None else [])


FOLDER = "closed/Acme/results/sys1/resnet/Offline/performance/run_1"


@pytest.mark.parametrize(
    ("more", "wrong"), [("Samples per second : 99999999", True), ("Result is: INVALID", True), ("", False)]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_second_line_that_says_otherwise_is_named(tree: Path, more: str, wrong: bool, first: bool) -> None:
    """Who looks for a name finds either."""
    path = tree / FOLDER / "mlperf_log_summary.txt"
    lines = path.read_text().splitlines()
    more = more or next(line for line in lines if line.startswith("Samples per second"))
    at = 0 if first else len(lines)
    path.write_text("\n".join((*lines[:at], more, *lines[at:], "")))
    found = [f.complaint.place.line for f in verify_tree(tree).findings if f.rule.id == "summary.contradicts"]
    assert found == [at + 1] * wrong


LEAST, MOST = "result_min_latency_ns", "result_max_latency_ns"
LAST = '{"name":"LastTrace"}\n'


def trace(*latencies: int, process: int = 7, last: str = LAST) -> str:
    lines = (
        f'{{"name":"Sample","pid":{process},"args":{{"sample_idx":3,"complete_ns":{took}}}}},\n' for took in latencies
    )
    return f'{{"traceEvents":[\n{{"name":"x","pid": {process},}}\n{"".join(lines)}{last}'


def run(*lines: tuple[str, object], ended: bool = True) -> str:
    """As LoadGen's process 7 writes it; its lines stand from the third on."""
    mode = ("effective_scenario", "Offline"), ("effective_test_mode", "PerformanceOnly")
    shape = (
        ':::MLLOG {{"key": "{}", "value": {}, "time_ms": 1.5, "namespace": "mlperf::logging", '
        '"event_type": "POINT_IN_TIME", "metadata": {{"is_error": false, "is_warning": false, "file": "x.cc", '
        '"line_no": 1, "pid": 7, "tid": 7}}}}\n'
    )
    stated = (*mode, *lines, *([("result_validity", "VALID")] if ended else []))
    return "".join(shape.format(key, json.dumps(value)) for key, value in stated)


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        pytest.param(trace(10, 20, 30), [], id="of the run"),
        pytest.param(trace(10, 20, 30, process=0), [1], id="of another process"),
        pytest.param(trace(10, 99, process=8), [1], id="of another process alone"),
        pytest.param(trace(10, 20, 31), [4], id="slower"),
        pytest.param(trace(10, 20, 29), [4], id="faster"),
        pytest.param(trace(9, 20, 30), [3], id="fastest"),
        pytest.param(trace(20), [4, 3], id="both"),
        pytest.param(trace(20, last=""), [], id="cut"),
        pytest.param(trace(), [], id="of no samples"),
        pytest.param("", [], id="empty"),
        pytest.param(trace(10, 30).replace('"pid"', '"id"'), [], id="of no process"),
    ],
)
def test_a_trace_is_of_the_process_and_the_latencies_of_its_log(tmp_path: Path, text: str, denied: list[int]) -> None:
    """``denied``: the lines of the log that say otherwise; the first names the process."""
    place, other = f"./TEST01/{RUN}/mlperf_log_trace.json", f"./TEST01/{RUN}/{DETAIL}"
    wanted = [f"{place}; see {other}:{line}" for line in denied]
    files = {f"TEST01/{RUN}/{DETAIL}": run((LEAST, 10), (MOST, 30)), place.removeprefix("./"): text}
    assert say(verify_traces(small_cell(tmp_path / "a", files))) == wanted
    unended = {**files, f"TEST01/{RUN}/{DETAIL}": run((LEAST, 10), (MOST, 30), ended=False)}
    assert not list(verify_traces(small_cell(tmp_path / "b", unended)))
    silent = say(verify_traces(small_cell(tmp_path / "c", {**files, f"TEST01/{RUN}/{DETAIL}": run()})))
    assert silent == [line for line in wanted if line.endswith(":1")]
