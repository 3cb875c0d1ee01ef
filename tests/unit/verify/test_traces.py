"""The trace that LoadGen may write next to a log, against that log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.verify.cell_rules import verify_traces
from tests.unit.tree.small_cells import DETAIL, RUN, say, small_cell

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
