"""The trace that LoadGen may write beside a log, against that log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.verify.traces import TRACE_RULES, verify_traces
from tests.unit.tree.small_cells import DETAIL, RUN, log, say, small_cell

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


EDITED = "because: a log or a trace that was edited"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(trace(10, 20, 30), [], id="of the run"),
        pytest.param(trace(10, 20, 30, process=0), ["written by process 0"], id="of another process"),
        pytest.param(trace(10, 99, process=8), ["written by process 8"], id="of another process alone"),
        pytest.param(trace(10, 20, 31), [f"the slowest sample took 31 ns; wanted 30 ns|4; {EDITED}"], id="slower"),
        pytest.param(trace(10, 20, 29), [f"the slowest sample took 29 ns; wanted 30 ns|4; {EDITED}"], id="faster"),
        pytest.param(trace(9, 20, 30), [f"the fastest sample took 9 ns; wanted 10 ns|3; {EDITED}"], id="fastest"),
        pytest.param(
            trace(20),
            [
                f"the slowest sample took 20 ns; wanted 30 ns|4; {EDITED}",
                f"the fastest sample took 20 ns; wanted 10 ns|3; {EDITED}",
            ],
            id="both",
        ),
        pytest.param(trace(20, last=""), [], id="cut"),
        pytest.param(trace(), [], id="of no samples"),
        pytest.param("", [], id="empty"),
        pytest.param(trace(10, 30).replace('"pid"', '"id"'), [], id="of no process"),
    ],
)
def test_a_trace_is_of_the_process_and_the_latencies_of_its_log(tmp_path: Path, text: str, said: list[str]) -> None:
    place, other = f"./TEST01/{RUN}/mlperf_log_trace.json", f"./TEST01/{RUN}/{DETAIL}"
    process = f"wanted process 7, which wrote the log; beside {other}:1; because: the trace of another run"
    wanted = [
        f"{place}: {each.replace('|', f', as LoadGen logs; beside {other}:')}"
        if "|" in each
        else f"{place}: {each}; {process}"
        for each in said
    ]
    files = {f"TEST01/{RUN}/{DETAIL}": run((LEAST, 10), (MOST, 30)), place.removeprefix("./"): text}
    assert say(verify_traces(small_cell(tmp_path / "a", files))) == wanted
    unended = {**files, f"TEST01/{RUN}/{DETAIL}": run((LEAST, 10), (MOST, 30), ended=False)}
    assert not list(verify_traces(small_cell(tmp_path / "b", unended)))
    silent = say(verify_traces(small_cell(tmp_path / "c", {**files, f"TEST01/{RUN}/{DETAIL}": run()})))
    assert silent == [line for line in wanted if "written by" in line]


def test_a_log_that_another_program_wrote_names_no_process(tmp_path: Path) -> None:
    told = log(("effective_test_mode", "PerformanceOnly"), (LEAST, 11), (MOST, 30), ("result_validity", "VALID"))
    files = {f"{RUN}/{DETAIL}": told, f"{RUN}/mlperf_log_trace.json": trace(10, 30)}
    (said,) = say(verify_traces(small_cell(tmp_path, files)))
    assert said.startswith(
        f"./{RUN}/mlperf_log_trace.json: the fastest sample took 10 ns; wanted 11 ns, as LoadGen logs"
    )


def test_rules_of_traces_by_their_ids() -> None:
    assert [(rule.id, check, rule.sources) for rule, check in TRACE_RULES] == [
        ("log.trace", verify_traces.find, ("LoadGen", "ours"))
    ]
