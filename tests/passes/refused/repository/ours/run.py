"""Answers every query with nothing, and leaves LoadGen's LogSettings as they are."""
import array, os, subprocess, sys
from pathlib import Path

import mlperf_loadgen as lg

scenario, mode, conf, folder = sys.argv[1:5]
DELAY = float(os.environ.get("DELAY", "0"))
ANSWER = array.array("i", [0])


def issue(samples):
    data = ANSWER.buffer_info()[0]
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
