"""One LoadGen run whose queries are answered over HTTP."""
import os, sys, time, urllib.request

import mlperf_loadgen as lg
import numpy as np

scenario, mode, conf, logs, audit, url = sys.argv[1:7]
settings = lg.TestSettings()
settings.FromConfig(conf, "resnet50", scenario)
settings.scenario = getattr(lg.TestScenario, scenario)
settings.mode = lg.TestMode.AccuracyOnly if mode == "accuracy" else lg.TestMode.PerformanceOnly
out, outputs = lg.LogSettings(), lg.LogOutputSettings()
out.enable_trace = False
outputs.outdir, outputs.copy_summary_to_stdout = logs, False
out.log_output = outputs
if os.environ.get("WAITS") == mode:
    open("../waiting", "w").close()
    time.sleep(600)


def issue(samples):
    try:
        with urllib.request.urlopen(url + "/infer", timeout=20) as answer:
            number = answer.read(1)[0]
    except OSError:
        number = 0
        time.sleep(float(os.environ.get("LINGERS", "0")))
    data = np.full(1, number, np.int32)
    held.append(data)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, data.ctypes.data, data.nbytes) for s in samples])


held = []
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(16, 16, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, out, audit)
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)
