"""A small server with weights and a client that drives LoadGen against it, as a user's harness has them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.passes.repository import Repository, declare_command, make_repository

# The one that version 0.1 was tried with. MISCHIEF says what goes wrong, and when.
SERVER = (Path(__file__).parent / "made_by_0_1/repository/server/server.py").read_text(encoding="utf-8")

CLIENT = '''\
"""One LoadGen run whose queries are answered over HTTP."""
import array, os, sys, time, urllib.request

import mlperf_loadgen as lg

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
    data = array.array("i", [number])
    held.append(data)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, data.buffer_info()[0], data.itemsize) for s in samples])


held = []
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(16, 16, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, out, audit)
lg.DestroyQSL(qsl)
lg.DestroySUT(sut)
'''

HARNESS = f"""
      harness:
        command:
          ["{sys.executable}", client.py, "{{scenario}}", "{{mode}}", "{{user_conf}}", "{{run_dir}}",
           "{{audit_config}}", "{{service_url}}"]
        code: client
        service:
          command: ["{sys.executable}", server.py, "{{port}}", ../starts]
          code: server
"""


def with_service(root: Path, *, more: str = "", env: str = "") -> Repository:
    """The small benchmark, asked of a server; ``more`` goes below its service, ``env`` to the client."""
    repository = make_repository(root)
    repository.write("server/server.py", SERVER)
    repository.write("client/client.py", CLIENT)
    harness = HARNESS.replace("        code: client\n", f"        code: client\n{env}")
    declare_command(repository, f"{harness}{more}")
    return repository


def started(repository: Repository) -> list[list[int]]:
    """Of each start the server's process, its worker's and its port."""
    path = repository.root / "starts"
    return [[int(word) for word in line.split()] for line in path.read_text().splitlines()] if path.exists() else []
