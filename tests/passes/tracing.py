"""A harness command with LoadGen's default LogSettings: the trace is on, and is written once the run has ended."""

from __future__ import annotations

from pathlib import Path

from tests.passes.repository import SPEC, Repository, make_repository

# LoadGen's trace goes through a pipe whose reader waits: as with a slow disk, LoadGen goes on only when all of it is
# written.
SCRIPT = '''\
"""Answers every query with nothing, and leaves LoadGen's LogSettings as they are."""
import array, os, subprocess, sys, time
from pathlib import Path

import mlperf_loadgen as lg

scenario, mode, conf, folder = sys.argv[1:5]
DELAY, EACH = float(os.environ.get("DELAY", "0")), float(os.environ.get("EACH", "0"))
ANSWER = array.array("i", [0])


def issue(samples):
    data = ANSWER.buffer_info()[0]
    if EACH:
        time.sleep(EACH)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, data, ANSWER.itemsize) for s in samples])


settings = lg.TestSettings()
settings.FromConfig(conf, "resnet50", scenario)
settings.scenario = getattr(lg.TestScenario, scenario)
settings.mode = lg.TestMode.AccuracyOnly if mode == "accuracy" else lg.TestMode.PerformanceOnly
logs = lg.LogSettings()
logs.log_output.outdir = folder
trace = Path(folder) / "mlperf_log_trace.json"
reader = None
if DELAY and mode == "performance":
    os.mkfifo(trace)
    reader = subprocess.Popen(["sh", "-c", 'exec 3< "$0"; sleep "$1"; cat <&3 > /dev/null', str(trace), str(DELAY)])
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(16, 16, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, logs, "")
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)
if reader:
    reader.wait()
    trace.unlink()
'''
HARNESS = """
      harness:
        command: [{python}, run.py, "{{scenario}}", "{{mode}}", "{{user_conf}}", "{{run_dir}}"]
        code: ours
        env: {{DELAY: "{delay}", EACH: "{each}"}}
"""


def make_tracing(root: Path, python: str, *, settings: str, delay: float = 0, each: float = 0) -> Repository:
    """A SingleStream cell that the command runs. ``delay``: seconds that its trace takes at least, ``each`` those of a
    query; ``settings`` of the cell."""
    repository = make_repository(root)
    repository.write("ours/run.py", SCRIPT)
    harness = HARNESS.format(python=python, delay=f"{delay:g}", each=f"{each:g}")
    repository.edit(SPEC, "      code: benchmarks/tiny.py\n", f"      code: benchmarks/tiny.py{harness}")
    repository.edit(SPEC, '      engine: {backend: "null", precision: fp32, batch_size: 4}\n', "")
    repository.edit(SPEC, "Offline: {target_qps: 100, min_query_count: 100}", f"SingleStream: {{{settings}}}")
    return repository
