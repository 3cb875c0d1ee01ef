"""What goes wrong ends in a result that says so; nothing hangs and nothing outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.contract import Benchmark, ProbeRequest
from tests.requests import make_run_request
from tests.unit.harness import tiny
from tests.unit.harness.children import CONF, ROOT, TINY, Children, Ended, command, environment
from tests.unit.harness.conftest import ENGINES, Artifacts

SCENARIOS = ("SingleStream", "Server", "Offline")  # MultiStream computes as SingleStream does

# Each makes one thing fail inside the child, after the warm-up where it would otherwise fail there.
COUNTED = """
calls = 0
def {function}({given}):
    global calls
    calls += 1
    if calls > {healthy}:
        {fault}
    return {answer}
"""
BROKEN = 'raise ZeroDivisionError("broken on purpose")'


def fail_later(function: str, given: str, answer: str, fault: str = BROKEN, healthy: int = 8) -> str:
    return COUNTED.format(function=function, given=given, answer=answer, fault=fault, healthy=healthy)


POSTPROCESS = "postprocess", "outputs", "highest_class(outputs)"
FAULTS = {
    "postprocess": fail_later(*POSTPROCESS),
    "short": fail_later(*POSTPROCESS, "return highest_class(outputs)[:0]"),
    "exit": fail_later(*POSTPROCESS, 'raise SystemExit("broken on purpose")'),
    "compute": "compute_healthy = NullSession.compute"
    + fail_later("compute", "self, rows", "compute_healthy(self, rows)")
    + "NullSession.compute = compute\n",
    "load": fail_later("place", "self, samples", "None", healthy=1) + "NullSession.place = place\n",
    "lost": """
def submit(self, rows, token):
    pass
def drain(self):
    raise ZeroDivisionError("broken on purpose")
NullSession.submit, NullSession.drain = submit, drain
""",
    "twice": """
def submit(self, rows, token):
    self._completed(token, self.compute(rows))
    self._completed(token, self.compute(rows))
NullSession.submit = submit
""",
}
HEAD = "from harness.backends.null import NullSession\nfrom harness.benchmarks import highest_class\n"
QUEUED = ("Server", "Offline")  # the others compute on the calling thread and submit nothing


def broken(folder: Path, fault: str) -> Path:
    path = folder / "broken.py"
    path.write_text(TINY.read_text(encoding="utf-8") + HEAD + FAULTS[fault], encoding="utf-8")
    return path


def run(
    children: Children, artifacts: Artifacts, scenario: str, benchmark: Path, backend: str, streams: int = 2
) -> Ended:
    settings = {"batch_size": 8, "streams": streams}
    inputs = artifacts.inputs(backend)
    return children.run(scenario, backend=backend, benchmark=benchmark, inputs=inputs, settings=settings)


@pytest.mark.parametrize(
    ("fault", "scenario"),
    [(fault, scenario) for fault in FAULTS for scenario in (QUEUED if fault in ("lost", "twice") else SCENARIOS)],
)
def test_failure_during_a_run_ends_it_with_a_reason(
    fault: str, scenario: str, children: Children, artifacts: Artifacts, tmp_path: Path
) -> None:
    ended = run(children, artifacts, scenario, broken(tmp_path, fault), "null")
    assert not ended.result.done
    assert ended.result.problem_class == "backend"
    expected = {"short": "made 0 responses", "twice": "not in flight"}.get(fault, "broken on purpose")
    assert expected in ended.result.problem
    assert "Traceback" in ended.output or fault == "twice"


EXITS = {
    "postprocess": """
def postprocess(outputs):
    if threading.current_thread() is not threading.main_thread():
        raise SystemExit("broken on purpose")
    return highest_class(outputs)
""",
    "collate": """
def load_collate(dataset):
    return collate
def collate(arrays):
    if threading.current_thread() is not threading.main_thread():
        raise SystemExit("broken on purpose")
    return arrays
""",
    "loop": """
began = 0
def loop(sample):
    global began
    began += 1
    (point,) = sample.values()
    (scores,) = yield {"point": point[None]}
    if began > 20:
        raise SystemExit("broken on purpose")
    return highest_class([scores])
""",
}


@pytest.mark.parametrize(("what", "scenario"), [*((what, "Server") for what in EXITS), ("collate", "Offline")])
def test_a_benchmark_that_exits_on_the_thread_of_a_stream_ends_the_run(
    what: str, scenario: str, children: Children, artifacts: Artifacts, tmp_path: Path
) -> None:
    """Python says nothing of a thread that ends so."""
    pytest.importorskip("onnxruntime")
    path = tmp_path / "broken.py"
    path.write_text(TINY.read_text(encoding="utf-8") + HEAD + "import threading\n" + EXITS[what], encoding="utf-8")
    ended = run(children, artifacts, scenario, path, "onnxruntime")
    assert not ended.result.done
    assert "broken on purpose" in ended.result.problem


def test_failure_does_not_wait_for_the_schedule(children: Children, artifacts: Artifacts, tmp_path: Path) -> None:
    """LoadGen cannot be aborted and would issue queries for another hour."""
    ended = children.run(
        "Server",
        backend="null",
        benchmark=broken(tmp_path, "postprocess"),
        conf=CONF + "*.Server.target_qps = 20\n*.Server.min_duration = 3600000\n",
        inputs=artifacts.inputs("null"),
    )
    assert not ended.result.done
    assert "broken on purpose" in ended.result.problem


@pytest.mark.parametrize("backend", ENGINES)
def test_damaged_engine_is_refused(backend: str, children: Children, artifacts: Artifacts, tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    for path in artifacts.engine(backend).iterdir():
        content = path.read_bytes()
        (engine / path.name).write_bytes(content if path.suffix == ".json" else content[: len(content) // 2])
    inputs = {**artifacts.inputs(backend), "engine": str(engine)}
    result = children.run("Offline", backend=backend, inputs=inputs).result
    assert (result.done, result.problem_class) == (False, "backend")
    assert "cannot load" in result.problem


@pytest.mark.parametrize("backend", ENGINES)
def test_unsupported_operator_is_a_clear_problem(backend: str, children: Children, artifacts: Artifacts) -> None:
    pytest.importorskip(backend)
    model = children.build("Model", settings={"operator": "NoSuchOperator"}).folder / "artifact"
    result = children.build("Engine", backend=backend, inputs={"model": str(model)}).result
    assert (result.done, result.problem_class) == (False, "backend")
    assert "NoSuchOperator" in result.problem
    assert "operator" in result.fix


def test_model_of_a_fixed_batch_must_agree(children: Children, artifacts: Artifacts) -> None:
    pytest.importorskip("onnxruntime")
    model = children.build("Model", settings={"batch": 4}).folder / "artifact"
    inputs = {"model": str(model)}
    refused = children.build("Engine", backend="onnxruntime", inputs=inputs, settings={"batch_size": 8}).result
    assert (refused.done, refused.problem_class) == (False, "input")
    built = children.build("Engine", backend="onnxruntime", inputs=inputs, settings={"batch_size": 4})
    run_inputs = {"dataset": str(artifacts.dataset()), "engine": str(built.folder / "artifact")}
    ended = children.run(
        "SingleStream", "accuracy", backend="onnxruntime", inputs=run_inputs, settings={"batch_size": 4}
    )
    assert ended.result.done, ended.output  # batches of one, padded to four
    assert sorted(int.from_bytes(data, "little") for _, data in ended.answers) == sorted(tiny.labels())


def test_child_whose_parent_is_gone_ends_at_once(children: Children) -> None:
    folder = children.place()
    ProbeRequest().write(folder / "request.json")
    arguments = [*command(), "probe", str(folder / "request.json"), str(folder / "result.json")]
    done = subprocess.run(arguments, env={**environment(), "RECONCILE_PARENT": "1"}, check=False)
    assert done.returncode == 70
    assert not (folder / "result.json").exists()


PARENT = """
import subprocess, sys, time
child = subprocess.Popen(sys.argv[1:])
print(child.pid, flush=True)
time.sleep(600)
"""


def test_child_dies_with_its_parent(children: Children, artifacts: Artifacts) -> None:
    folder = children.place()
    (folder / "user.conf").write_text("*.Server.min_duration = 600000\n", encoding="ascii")
    make_run_request(
        folder, benchmark=Benchmark(name="tiny", path=str(TINY)), scenario="Server", inputs=artifacts.inputs("null")
    ).write(folder / "request.json")
    variables = {name: value for name, value in environment().items() if name != "RECONCILE_PARENT"}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *command(), "run", str(folder / "request.json"), str(folder / "result.json")],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        while not (folder / "mlperf_log_detail.txt").exists():
            assert child.is_running()
        os.kill(child.pid, signal.SIGINT)  # Ctrl-C reaches the whole group; only the parent acts on it
        assert child.is_running()
        parent.kill()
    child.wait(60)
    assert not (folder / "result.json").exists()
